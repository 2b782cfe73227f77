package flags

import (
	"errors"
	"flag"
	"strings"
	"testing"
)

// A mistake is one line and prints nothing, help is all flags.
func TestParse(t *testing.T) {
	for _, c := range []struct{ line, want, help string }{
		{"-n 3", "", ""},
		{"-n 3 text", "", ""},
		{"-m 3", "flag provided but not defined: -m; -h lists the flags", ""},
		{"-n x", `invalid value "x" for flag -n: parse error; -h lists the flags`, ""},
		{"-h", flag.ErrHelp.Error(), "Usage of command [flags]:\n  -n int\n    \tsome number\n"},
	} {
		var help strings.Builder
		set := flag.NewFlagSet("command [flags]", flag.ContinueOnError)
		n := set.Int("n", 0, "some number")
		err := Parse(set, strings.Fields(c.line), &help)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != c.want || help.String() != c.help || errors.Is(err, flag.ErrHelp) != (c.help != "") ||
			err == nil && *n != 3 {
			t.Errorf("%s: error %q, help %q, want %q and %q", c.line, got, help.String(), c.want, c.help)
		}
	}
}

// What takes no arguments refuses them, and a command may have help of its own.
func TestParseAll(t *testing.T) {
	set := flag.NewFlagSet("command", flag.ContinueOnError)
	if err := ParseAll(set, []string{"text"}, nil); err == nil ||
		err.Error() != `unexpected argument "text"; -h lists the flags` {
		t.Errorf("an argument: %v", err)
	}
	var help strings.Builder
	set.Usage = func() { help.WriteString("about") }
	if err := ParseAll(set, []string{"-h"}, &help); !errors.Is(err, flag.ErrHelp) ||
		help.String() != "about" {
		t.Errorf("help is %q, error %v", help.String(), err)
	}
}
