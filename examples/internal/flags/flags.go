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
