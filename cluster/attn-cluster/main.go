// Command attn-cluster keeps the keys and values of long sequences on many machines, and shows that
// attention over them has the bits of one machine.
//
//	attn-cluster serve    keep tokens and attend over them: a worker
//	attn-cluster status   list the workers
//	attn-cluster demo     a cluster on this machine, compared bit for bit
//	attn-cluster bench    what a step costs beside a bare request
//	attn-cluster soak     kills, stalls and garbage for as long as you like
//	attn-cluster version  what this program was built from
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/seed-1415985d/attn/cluster"
)

func main() { os.Exit(untilSignal(os.Args[1:], os.Stdout, os.Stderr)) }

// untilSignal runs a command, which ends early when a signal comes. A second one ends the program
// at once.
func untilSignal(args []string, stdout, stderr io.Writer) int {
	return realMain(untilSignalled(os.Interrupt, syscall.SIGTERM), args, stdout, stderr)
}

const usage = `attn-cluster keeps the keys and values of long sequences on many machines.

  attn-cluster serve    keep tokens and attend over them: a worker
  attn-cluster status   list the workers
  attn-cluster demo     start a cluster on this machine, and compare it with one machine bit for bit
  attn-cluster bench    measure what a step costs, beside a bare NATS request of its size
  attn-cluster soak     kill, stall and disturb the workers of a cluster on this machine
  attn-cluster version  show what this program was built from

attn-cluster help <command>, or attn-cluster <command> -h, lists the flags of a command.
`

// command is one of the words after attn-cluster. It ends early when ctx does: with any error then,
// if it has not done what it was to do.
type command func(ctx context.Context, args []string, stdout, stderr io.Writer) error

func commands() map[string]command {
	return map[string]command{
		"help":    helpCommand,
		"serve":   serveCommand,
		"status":  statusCommand,
		"demo":    demoCommand,
		"bench":   benchCommand,
		"soak":    soakCommand,
		"echo":    echoCommand, // part of bench
		"version": versionCommand,
	}
}

// options are what people try instead of a command.
var options = map[string]string{
	"-h": "help", "-help": "help", "--help": "help",
	"-version": "version", "--version": "version",
}

// usageError is a mistake on the command line, as opposed to one in what it asks for.
type usageError struct{ error }

func usagef(format string, args ...any) error {
	return usageError{fmt.Errorf(format, args...)}
}

// realMain returns the exit status: 0, 1 if the work failed, 2 for a mistake on the command line,
// 130 after an interrupt. An error is one line on stderr.
func realMain(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		fmt.Fprint(stderr, usage)
		return 2
	}
	name := cmp.Or(options[args[0]], args[0])
	run, ok := commands()[name]
	if !ok {
		fmt.Fprintf(stderr, "attn-cluster: unknown command %q; attn-cluster help lists them\n",
			cluster.Redact(name))
		return 2
	}
	err := run(ctx, args[1:], stdout, stderr)
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if e, is := early(ctx, err); is {
		text := e.Error()
		if p := (partly{}); errors.As(err, &p) {
			text += ": " + p.text()
		}
		fmt.Fprintf(stderr, "attn-cluster %s: %s\n", name, text)
		return e.status()
	}
	fmt.Fprintf(stderr, "attn-cluster %s: %s\n", name,
		cluster.Redact(strings.Join(strings.Fields(err.Error()), " ")))
	var u usageError
	if errors.As(err, &u) {
		return 2
	}
	return 1
}

// helpCommand lists the commands, or the flags of one.
func helpCommand(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	fs := newFlags(usage)
	err := fs.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp) || err == nil && (fs.NArg() == 0 || fs.Arg(0) == "help"):
		fmt.Fprint(stdout, usage)
		return nil
	case err != nil:
		return usageError{err}
	case fs.NArg() > 1:
		return usagef("unexpected argument %q", fs.Arg(1))
	}
	run, ok := commands()[fs.Arg(0)]
	if !ok {
		return usagef("unknown command %q; attn-cluster help lists them", fs.Arg(0))
	}
	return run(ctx, []string{"-h"}, stdout, stderr)
}

// newFlags returns a flag set that prints nothing by itself; about is the text above the flags.
func newFlags(about string) *flag.FlagSet {
	fs := flag.NewFlagSet(about, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	return fs
}

// parse reads the flags of a command that takes nothing else. Asked for help it prints it.
func parse(fs *flag.FlagSet, args []string, stdout io.Writer) error {
	err := fs.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, fs.Name())
		fs.SetOutput(stdout)
		fs.PrintDefaults()
		return err
	case err != nil:
		return usageError{err}
	case fs.NArg() > 0:
		return usagef("unexpected argument %q", fs.Arg(0))
	}
	return nil
}
