// Package flags reads the command lines of the examples.
package flags

import (
	"errors"
	"flag"
	"fmt"
	"io"
)

// Parse reads a command line. Asked for help it prints the flags and returns flag.ErrHelp. A
// mistake is an error of one line.
func Parse(set *flag.FlagSet, args []string, help io.Writer) error {
	usage := set.Usage
	defer func() { set.Usage = usage }()
	set.Usage = func() {}
	set.SetOutput(io.Discard)
	err := set.Parse(args)
	if err == nil {
		return nil
	}
	if !errors.Is(err, flag.ErrHelp) {
		return fmt.Errorf("%w; -h lists the flags", err)
	}
	set.SetOutput(help)
	usage()
	return err
}

// ParseAll is Parse for a command that takes nothing but flags.
func ParseAll(set *flag.FlagSet, args []string, help io.Writer) error {
	if err := Parse(set, args, help); err != nil {
		return err
	}
	if set.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q; -h lists the flags", set.Arg(0))
	}
	return nil
}

// Texts refuses texts behind the flags that look like flags themselves, which they are not there.
// Behind -- they are texts whatever they look like, and literal is true.
func Texts(name string, args, texts []string) (literal bool, err error) {
	first := len(args) - len(texts)
	if first > 0 && args[first-1] == "--" {
		return true, nil
	}
	for _, text := range texts {
		if len(text) > 1 && text[0] == '-' {
			return false, fmt.Errorf("the %s %q begins with -, want flags before %ss, or -- before all %ss",
				name, text, name, name)
		}
	}
	return false, nil
}
