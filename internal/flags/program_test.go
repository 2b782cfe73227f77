package flags

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"testing"
)

// A word runs its command, and help says what there is; whatever else is a mistake of one line.
func TestProgram(t *testing.T) {
	failed := errors.New("failed")
	p := &Program{Name: "tool", Usage: "tool usage\n", Commands: map[string]Command{
		"work": func(args []string, stdout, _ io.Writer) error {
			set := New("tool work [flags]\n\n")
			set.Int("n", 1, "some number")
			if err := ParseAll(set, args, stdout); err != nil {
				return err
			}
			fmt.Fprint(stdout, "done")
			return nil
		},
		"version": func([]string, io.Writer, io.Writer) error { return failed },
	}}
	const help = "tool work [flags]\n\n  -n int\n    \tsome number (default 1)\n"
	for _, c := range []struct {
		args, stdout, stderr, where, err string
		status                           int
	}{
		{"", "", "tool usage\n", "tool", "no command, want one of these", 2},
		{"work -n 2", "done", "", "tool work", "<nil>", 0},
		{"work -h", help, "", "tool work", flag.ErrHelp.Error(), 0},
		{"work x", "", "", "tool work", `unexpected argument "x"; -h lists the flags`, 2},
		{"--version", "", "", "tool version", "failed", 1},
		{"fly", "", "", "tool", `unknown command "fly"; tool help lists them`, 2},
		{"help", "tool usage\n", "", "tool help", "<nil>", 0},
		{"-h", "tool usage\n", "", "tool help", "<nil>", 0},
		{"help -h", "tool usage\n", "", "tool help", "<nil>", 0},
		{"help help", "tool usage\n", "", "tool help", "<nil>", 0},
		{"help work", help, "", "tool help", flag.ErrHelp.Error(), 0},
		{"help fly", "", "", "tool help", `unknown command "fly"; tool help lists them`, 2},
		{"help work fly", "", "", "tool help", `unexpected argument "fly"`, 2},
	} {
		var stdout, stderr strings.Builder
		where, err := p.Run(strings.Fields(c.args), &stdout, &stderr)
		if stdout.String() != c.stdout || stderr.String() != c.stderr || where != c.where ||
			fmt.Sprint(err) != c.err || Status(err) != c.status {
			t.Errorf("%q: %q, %q, %s: %v, status %d, want %+v", c.args, &stdout, &stderr, where, err,
				Status(err), c)
		}
	}
}

// The kind of an error and what it wraps are both found.
func TestErrorf(t *testing.T) {
	err := fmt.Errorf("outer: %w", Errorf("-n: %w", io.EOF))
	var mistake UsageError
	if !errors.As(err, &mistake) || !errors.Is(err, io.EOF) || Status(err) != 2 {
		t.Errorf("%v has status %d", err, Status(err))
	}
}
