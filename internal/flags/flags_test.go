package flags

import (
	"errors"
	"flag"
	"fmt"
	"strings"
	"testing"
)

// A mistake is one line and prints nothing, help is all flags.
func TestParse(t *testing.T) {
	for _, c := range []struct{ line, want, help string }{
		{"-n 3", "", ""},
		{"-n 3 text", "", ""},
		{"-m 3", "flag provided but not defined: -m; -h lists the flags", ""},
		{"-n x", `invalid value "x" for flag -n: want a whole number; -h lists the flags`, ""},
		{"-n 1e30", `invalid value "1e30" for flag -n: want a whole number; -h lists the flags`, ""},
		{"-n 99999999999999999999", `invalid value "99999999999999999999" for flag -n: value out of ` +
			"range; -h lists the flags", ""},
		{"-u -1", `invalid value "-1" for flag -u: want a whole number of 0 or more; -h lists the flags`,
			""},
		{"-x x", `invalid value "x" for flag -x: want a number; -h lists the flags`, ""},
		{"-t 3", `invalid value "3" for flag -t: want a duration such as 500ms or 10s; -h lists the flags`,
			""},
		{"-num 3", "flag provided but not defined: -num: is -n meant?", ""},
		{"-f x", `invalid value "x" for flag -f: want a y; -h lists the flags`, ""},
		{"-h", flag.ErrHelp.Error(), "Usage of command [flags]:\n" +
			"  -f value\n    \tsome letter\n  -n int\n    \tsome number\n" +
			"  -t duration\n    \tsome time\n  -u uint\n    \tsome seed\n  -x float\n    \tsome part " +
			"(default 0.5)\n"},
	} {
		var help strings.Builder
		set := flag.NewFlagSet("command [flags]", flag.ContinueOnError)
		n := set.Int("n", 0, "some number")
		_, _ = set.Uint64("u", 0, "some seed"), set.Float64("x", 0.5, "some part")
		set.Duration("t", 0, "some time")
		set.Func("f", "some letter", func(string) error { return errors.New("want a y") })
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

// A command without arguments refuses them, and a command may have help of its own.
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

// TestTexts refuses texts like flags, but for those behind --.
func TestTexts(t *testing.T) {
	for line, want := range map[string]string{
		"-n 3 a -":     "false <nil>",
		"-n 3 -- a -n": "true <nil>",
		"-n 3":         "false <nil>",
		"a -n 5": `false the text "-n" begins with -, want flags before texts, or -- before all ` +
			"texts",
	} {
		set := flag.NewFlagSet("command", flag.ContinueOnError)
		set.Int("n", 0, "some number")
		args := strings.Fields(line)
		if err := Parse(set, args, nil); err != nil {
			t.Fatal(err)
		}
		literal, err := Texts("text", args, set.Args())
		if got := fmt.Sprint(literal, " ", err); got != want {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
	}
}

// TestParseAgain has help after what came before a command's name was read.
func TestParseAgain(t *testing.T) {
	set := flag.NewFlagSet("command", flag.ContinueOnError)
	set.Int("n", 0, "some number")
	var help strings.Builder
	if err := Parse(set, []string{"-n", "1", "run", "-h"}, &help); err != nil {
		t.Fatal(err)
	}
	if err := ParseAll(set, set.Args()[1:], &help); !errors.Is(err, flag.ErrHelp) ||
		!strings.Contains(help.String(), "some number") {
		t.Errorf("error %v, help %q", err, &help)
	}
}

// A word that is longer than a line stays whole, and so do all letters.
func TestWrap(t *testing.T) {
	long := strings.Repeat("é", 120)
	list := "  -a b\n    \t" + strings.Repeat("wörd ", 30) + "\n    \t" + long + "\n"
	want := "  -a b\n    \t" + strings.TrimSpace(strings.Repeat("wörd ", 18)) + "\n    \t" +
		strings.Repeat("wörd ", 12) + "\n    \t" + long + "\n"
	if got := wrap(list); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestNew: an empty line is between the text of a command and its flags, whatever the text ends
// with, and the text is all where there are none.
func TestNew(t *testing.T) {
	for _, end := range []string{"", "\n", "\n\n"} {
		for _, n := range []int{0, 1} {
			set, want := New("command [flags]\n\nDoes it."+end), "command [flags]\n\nDoes it.\n"
			if n > 0 {
				set.Int("n", 0, "some number")
				want += "\n  -n int\n    \tsome number\n"
			}
			var help strings.Builder
			if err := ParseAll(set, []string{"-h"}, &help); !errors.Is(err, flag.ErrHelp) ||
				help.String() != want {
				t.Errorf("%q, %d flags: help is %q, error %v, want %q", end, n, help.String(), err, want)
			}
		}
	}
}
