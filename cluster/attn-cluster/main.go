// Command attn-cluster keeps the keys and values of long sequences on many machines, and shows that
// attention over them has the bits of one machine.
//
//	attn-cluster serve    keep tokens and attend over them: a worker
//	attn-cluster answer   continue texts by a language model whose keys and values workers keep
//	attn-cluster status   list the workers
//	attn-cluster demo     a cluster on this machine, compared bit for bit
//	attn-cluster bench    what a step costs compared with a bare request
//	attn-cluster soak     kills, stalls and garbage for as long as you like
//	attn-cluster version  what this program was built from
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/seed-1415985d/attn/cluster"
	"github.com/seed-1415985d/attn/internal/flags"
)

func main() { os.Exit(untilSignal(os.Args[1:], os.Stdout, os.Stderr)) }

// untilSignal runs a command, which ends early at a signal. A second signal ends the program at
// once.
func untilSignal(args []string, stdout, stderr io.Writer) int {
	return realMain(untilSignalled(os.Interrupt, syscall.SIGTERM), args, stdout, stderr)
}

const usage = `attn-cluster keeps the keys and values of long sequences on many machines.

  attn-cluster serve    keep tokens and attend over them: a worker
  attn-cluster answer   continue texts by a language model whose keys and values workers keep
  attn-cluster status   list the workers
  attn-cluster demo     start a cluster on this machine, and compare it with one machine bit for bit
  attn-cluster bench    measure the cost of a step, and of a bare NATS request of the same size
  attn-cluster soak     kill, stall and disturb the workers of a cluster on this machine
  attn-cluster version  show what this program was built from

attn-cluster help <command>, or attn-cluster <command> -h, lists the flags of a command.
`

// command is one of the words after attn-cluster. It ends early when ctx does, with an error if it
// is not complete.
type command func(ctx context.Context, args []string, stdout, stderr io.Writer) error

func commands() map[string]command {
	return map[string]command{
		"serve":   serveCommand,
		"answer":  answerCommand,
		"status":  statusCommand,
		"demo":    demoCommand,
		"bench":   benchCommand,
		"soak":    soakCommand,
		"echo":    echoCommand, // part of bench
		"version": versionCommand,
	}
}

// program returns the commands, which end early when ctx does.
func program(ctx context.Context) *flags.Program {
	p := &flags.Program{Name: "attn-cluster", Usage: usage, Commands: map[string]flags.Command{}}
	for name, run := range commands() {
		p.Commands[name] = func(args []string, stdout, stderr io.Writer) error {
			return run(ctx, args, stdout, stderr)
		}
	}
	return p
}

// realMain returns the exit status: 0, 1 if the work failed, 2 for a mistake on the command line,
// 130 after an interrupt. An error is one line on stderr.
func realMain(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	where, err := program(ctx).Run(args, stdout, stderr)
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if e, is := early(ctx, err); is {
		text := e.Error()
		if p := (partly{}); errors.As(err, &p) {
			text += ": " + p.text()
		}
		fmt.Fprintf(stderr, "%s: %s\n", where, text)
		return e.status()
	}
	fmt.Fprintf(stderr, "%s: %s\n", where,
		cluster.Redact(strings.Join(strings.Fields(err.Error()), " ")))
	return flags.Status(err)
}
