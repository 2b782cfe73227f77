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
	"unicode/utf8"
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

// command is one of the words after attn.
type command func(args []string, stdout, stderr io.Writer) error

func commands() map[string]command {
	return map[string]command{
		"help":    helpCommand,
		"run":     runCommand,
		"info":    infoCommand,
		"demo":    demoCommand,
		"bench":   benchCommand,
		"measure": measureCommand, // part of bench
		"version": versionCommand,
	}
}

// options are what people try instead of a command.
var options = map[string]string{
	"-h": "help", "-help": "help", "--help": "help",
	"-version": "version", "--version": "version",
}

// usageError is a mistake on the command line, as opposed to one in the data.
type usageError struct{ error }

func usagef(format string, args ...any) error {
	return usageError{fmt.Errorf(format, args...)}
}

// realMain returns the exit status: 0, 1 if the work failed, 2 for a mistake on the command line or
// in the environment, 130 after an interrupt of what prints a part. An error is one line on stderr.
func realMain(args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		fmt.Fprint(stderr, usage)
		return 2
	}
	name := args[0]
	if command, ok := options[name]; ok {
		name = command
	}
	run, ok := commands()[name]
	if !ok {
		fmt.Fprintf(stderr, "attn: unknown command %q; attn help lists them\n", name)
		return 2
	}
	out := &checkedWriter{w: stdout}
	err := run(args[1:], out, stderr)
	if err == nil || errors.Is(err, flag.ErrHelp) {
		err = out.err
	}
	if err == nil {
		return 0
	}
	fmt.Fprintf(stderr, "attn %s: %s\n", name, oneLine(err))
	var u usageError
	var e endedEarly
	switch {
	case errors.As(err, &u):
		return 2
	case errors.As(err, &e):
		return e.status()
	}
	return 1
}

// helpCommand lists the commands, or the flags of one.
func helpCommand(args []string, stdout, stderr io.Writer) error {
	switch {
	case len(args) > 1:
		return usagef("unexpected argument %q", args[1])
	case len(args) == 0 || args[0] == "help" || options[args[0]] == "help":
		fmt.Fprint(stdout, usage)
		return nil
	}
	run, ok := commands()[args[0]]
	if !ok {
		return usagef("unknown command %q; attn help lists them", args[0])
	}
	return run([]string{"-h"}, stdout, stderr)
}

// checkedWriter remembers the first error: what prints need not look.
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

// oneLine is the text of an error without the package's own name and line breaks.
func oneLine(err error) string {
	return strings.Join(strings.Fields(strings.TrimPrefix(err.Error(), "attn: ")), " ")
}

// newFlags returns a flag set that prints nothing by itself; about is the text above the list of
// flags.
func newFlags(name, about string) *flag.FlagSet {
	fs := flag.NewFlagSet("attn "+name, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	fs.Init(about, flag.ContinueOnError)
	return fs
}

// parse reads the flags of a command that takes nothing else.
func parse(fs *flag.FlagSet, args []string, stdout io.Writer) error {
	if err := parseFlags(fs, args, stdout); err != nil {
		return err
	}
	return noArguments(fs)
}

// parseFlags reads flags. Asked for help it prints it to stdout.
func parseFlags(fs *flag.FlagSet, args []string, stdout io.Writer) error {
	err := fs.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		var defaults strings.Builder
		fs.SetOutput(&defaults)
		fs.PrintDefaults()
		fmt.Fprint(stdout, fs.Name(), wrap(defaults.String()))
		return err
	case err != nil:
		return usagef("%w%s", err, meant(fs, err))
	}
	return nil
}

// meant names flags that begin as a flag that is not one, or that it begins as.
func meant(fs *flag.FlagSet, err error) string {
	wrong, found := strings.CutPrefix(err.Error(), "flag provided but not defined: -")
	if !found {
		return ""
	}
	var names []string
	fs.VisitAll(func(f *flag.Flag) {
		if strings.HasPrefix(f.Name, wrong) || strings.HasPrefix(wrong, f.Name) {
			names = append(names, "-"+f.Name)
		}
	})
	if names == nil {
		return ""
	}
	return ": is " + strings.Join(names, " or ") + " meant?"
}

func noArguments(fs *flag.FlagSet) error {
	if fs.NArg() > 0 {
		return usagef("unexpected argument %q", fs.Arg(0))
	}
	return nil
}

// wrap breaks long lines of a list of flags, which package flag leaves as they are.
func wrap(list string) string {
	const indent, width = "    \t", 100 - 8 // the tab ends at column 8
	var text strings.Builder
	for line := range strings.Lines(list) {
		about, ok := strings.CutPrefix(line, indent)
		for ok && utf8.RuneCountInString(about) > width {
			end := strings.LastIndexByte(string([]rune(about)[:width+1]), ' ')
			if end < 0 {
				break
			}
			text.WriteString(indent + about[:end] + "\n")
			about = about[end+1:]
		}
		if ok {
			line = indent + about
		}
		text.WriteString(line)
	}
	return text.String()
}
