// Package flags parses command lines: a mistake is an error of one line that says what is expected;
// help is the purpose of a command and all its flags.
package flags

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// UsageError is a mistake on the command line, as opposed to one in the data.
type UsageError struct{ err error }

// Errorf returns a UsageError.
func Errorf(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

func (e UsageError) Error() string { return e.err.Error() }

// Unwrap returns the error without its kind.
func (e UsageError) Unwrap() error { return e.err }

// Status returns the exit status of a command for its error: 0 without one and after help, 2 for a
// mistake on the command line, 1 for other errors.
func Status(err error) int {
	var mistake UsageError
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return 0
	case errors.As(err, &mistake):
		return 2
	}
	return 1
}

// New returns a set without flags; about is the text above them in its help, after which an empty
// line follows.
func New(about string) *flag.FlagSet {
	set := flag.NewFlagSet("", flag.ContinueOnError)
	set.Usage = func() {
		var list strings.Builder
		to := set.Output()
		set.SetOutput(&list)
		set.PrintDefaults()
		set.SetOutput(to)
		fmt.Fprint(to, strings.TrimRight(about, "\n"), "\n")
		if list.Len() > 0 {
			fmt.Fprint(to, "\n", list.String())
		}
	}
	return set
}

// Parse parses a command line. For -h it prints the flags and returns flag.ErrHelp. A mistake is a
// UsageError of one line.
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
		return UsageError{fmt.Errorf("%w%s", err, hint(set, err))}
	}
	var text strings.Builder
	set.SetOutput(&text)
	usage()
	fmt.Fprint(help, wrap(text.String()))
	return err
}

// hint names the flags that may be meant by a wrong one: one is a prefix of the other.
func hint(set *flag.FlagSet, err error) string {
	wrong, found := strings.CutPrefix(err.Error(), "flag provided but not defined: -")
	var names []string
	set.VisitAll(func(f *flag.Flag) {
		if found && (strings.HasPrefix(f.Name, wrong) || strings.HasPrefix(wrong, f.Name)) {
			names = append(names, "-"+f.Name)
		}
	})
	if names == nil {
		return "; -h lists the flags"
	}
	return ": is " + strings.Join(names, " or ") + " meant?"
}

// wrap breaks long lines of a list of flags, because package flag does not.
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

// explained is a numeric flag whose errors say what is expected.
type explained struct {
	flag.Value
	want string
}

// Set replaces package flag's error "parse error".
func (e explained) Set(text string) error {
	err := e.Value.Set(text)
	if err != nil && err.Error() == "parse error" {
		return errors.New("want " + e.want)
	}
	return err
}

// explain makes a flag explain its errors while a command line is parsed; restore restores its
// value, which help describes.
func explain(f *flag.Flag) {
	value, ok := f.Value.(flag.Getter)
	if !ok {
		return
	}
	switch value.Get().(type) {
	case int, int64:
		f.Value = explained{value, "a whole number"}
	case uint, uint64:
		f.Value = explained{value, "a whole number of 0 or more"}
	case float64:
		f.Value = explained{value, "a number"}
	case time.Duration:
		f.Value = explained{value, "a duration such as 500ms or 10s"}
	}
}

func restore(f *flag.Flag) {
	if e, ok := f.Value.(explained); ok {
		f.Value = e.Value
	}
}

// ParseAll is Parse for a command that has no arguments but flags.
func ParseAll(set *flag.FlagSet, args []string, help io.Writer) error {
	if err := Parse(set, args, help); err != nil {
		return err
	}
	return NoArguments(set)
}

// NoArguments refuses arguments after the flags.
func NoArguments(set *flag.FlagSet) error {
	if set.NArg() > 0 {
		return Errorf("unexpected argument %q; -h lists the flags", set.Arg(0))
	}
	return nil
}

// Texts refuses texts after the flags that look like flags. After -- anything is a text, and
// literal is true.
func Texts(name string, args, texts []string) (literal bool, err error) {
	first := len(args) - len(texts)
	if first > 0 && args[first-1] == "--" {
		return true, nil
	}
	for _, text := range texts {
		if len(text) > 1 && text[0] == '-' {
			return false, Errorf("the %s %q begins with -, want flags before %ss, or -- before all %ss",
				name, text, name, name)
		}
	}
	return false, nil
}
