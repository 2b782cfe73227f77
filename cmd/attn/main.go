// Command attn computes exact attention on NumPy files, shows what this
// machine can do, and measures how near to its limits the package comes.
//
//	attn demo     worked examples, no files needed
//	attn run      attention on .npy files
//	attn info     the CPU and the implementation chosen
//	attn bench    speed against the machine's own limits
//	attn version  what this program was built from
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/seed-1415985d/attn/internal/flags"
)

func main() { os.Exit(realMain(os.Args[1:], os.Stdout, os.Stderr)) }

const usage = `attn computes exact attention, softmax(scale·QKᵀ)V, on this machine's CPU.

  attn demo     compute worked examples and show them; needs no files
  attn run      compute attention on NumPy .npy files
  attn info     show the CPU and which implementation is used, and why
  attn bench    measure speed against this machine's own limits
  attn version  show what this program was built from

attn help <command>, or attn <command> -h, lists the flags of a command.
`

func program() *flags.Program {
	return &flags.Program{Name: "attn", Usage: usage, Commands: map[string]flags.Command{
		"run":     runCommand,
		"info":    infoCommand,
		"demo":    demoCommand,
		"bench":   benchCommand,
		"measure": measureCommand, // part of bench
		"version": versionCommand,
	}}
}

// realMain returns the exit status: 0, 1 if the work failed, 2 for a mistake on the command line or
// in the environment, 130 after an interrupt of a command that prints partial results. An error is
// one line on stderr.
func realMain(args []string, stdout, stderr io.Writer) int {
	out := &checkedWriter{w: stdout}
	where, err := program().Run(args, out, stderr)
	if err == nil || errors.Is(err, flag.ErrHelp) {
		err = out.err
	}
	if err == nil {
		return 0
	}
	fmt.Fprintf(stderr, "%s: %s\n", where, oneLine(err))
	var e endedEarly
	if errors.As(err, &e) {
		return e.status()
	}
	return flags.Status(err)
}

// checkedWriter keeps the first error, so that printing code need not check.
type checkedWriter struct {
	w   io.Writer
	err error
}

func (c *checkedWriter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	if c.err == nil {
		c.err = err
	}
	return n, err
}

// oneLine returns the text of an error without the package's name and line breaks.
func oneLine(err error) string {
	return strings.Join(strings.Fields(strings.TrimPrefix(err.Error(), "attn: ")), " ")
}
