// Command attn-cluster keeps the keys and values of long sequences on many machines:
//
//	attn-cluster serve    run a worker
//	attn-cluster demo     four workers on this machine, compared bit for bit with one
//	attn-cluster soak     the same for as long as wanted, while workers die, stall and come back
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
)

const usage = `attn-cluster keeps the keys and values of long sequences on many machines.

  attn-cluster serve    run a worker
  attn-cluster demo     start four workers here, and compare them bit for bit with one machine
  attn-cluster soak     the same for long, while workers die, stall and come back

attn-cluster <command> -h lists the flags of a command.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(realMain(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// realMain returns the exit status: 0, 1 if the work failed, 2 for a mistake on the command line.
func realMain(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	commands := map[string]func(context.Context, []string, io.Writer, io.Writer) error{
		"serve": serve, "demo": demo, "soak": soak}
	if len(args) == 0 || commands[args[0]] == nil {
		fmt.Fprint(stderr, usage)
		return 2
	}
	err := commands[args[0]](ctx, args[1:], stdout, stderr)
	var mistake usageError
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return 0
	case errors.As(err, &mistake):
		fmt.Fprintf(stderr, "attn-cluster %s: %v\n", args[0], err)
		return 2
	}
	fmt.Fprintf(stderr, "attn-cluster %s: %v\n", args[0], err)
	return 1
}

// usageError is a mistake on the command line.
type usageError struct{ error }

// parse reads the flags of a command that takes nothing else.
func parse(f *flag.FlagSet, args []string) error {
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return usageError{err}
	}
	if f.NArg() > 0 {
		return usageError{fmt.Errorf("unexpected argument %q", f.Arg(0))}
	}
	return nil
}

// size is a flag of bytes: 1000, 64MiB, 4GiB.
type size int64

func (s *size) String() string { return strconv.FormatInt(int64(*s), 10) }

func (s *size) Set(text string) error {
	shift := 0
	for i, unit := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if number, ok := strings.CutSuffix(text, unit); ok {
			text, shift = number, 10*(i+1)
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 || n > 1<<62>>shift {
		return errors.New("want a number of bytes above 0, with KiB, MiB, GiB or TiB if you like")
	}
	*s = size(n << shift)
	return nil
}
