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
	set.VisitAll(explain)
	err := set.Parse(args)
	set.VisitAll(restore)
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

// explained is a number that says what it wants.
type explained struct {
	flag.Value
	want string
}

// Set has an error of its own where that of package flag is "parse error".
func (e explained) Set(text string) error {
	err := e.Value.Set(text)
	if err != nil && err.Error() == "parse error" {
		return errors.New("want " + e.want)
	}
	return err
}

// explain lets a flag say what it wants while a command line is read; its help is of the value
// itself, which restore brings back.
func explain(f *flag.Flag) {
	value, ok := f.Value.(flag.Getter)
	if !ok {
		return
	}
	switch value.Get().(type) {
	case int:
		f.Value = explained{value, "a whole number"}
	case uint64:
		f.Value = explained{value, "a whole number of 0 or more"}
	case float64:
		f.Value = explained{value, "a number"}
	}
}

func restore(f *flag.Flag) {
	if e, ok := f.Value.(explained); ok {
		f.Value = e.Value
	}
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
