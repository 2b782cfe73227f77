// Command tables writes the tables of docs/performance.md from what attn bench -json has measured,
// docs/bench-*.json: `go run ./internal/dev/tables` in the repository's root. A comment before each
// table says what it shows, see mark.go. With -measure NAME it measures this machine first, and
// writes docs/bench-NAME.json.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// documents have tables.
var documents = []string{"docs/performance.md"}

func main() {
	os.Exit(command(os.Args[1:], os.Stderr))
}

func command(args []string, stderr io.Writer) int {
	flags := flag.NewFlagSet("tables", flag.ContinueOnError)
	flags.SetOutput(stderr)
	name := flags.String("measure", "", "measure this machine first, into docs/bench-`NAME`.json")
	isa := flags.String("isa", "avx512,avx2", "with -measure: the `list` of attn bench -isa; generic "+
		"code is measured besides, with a few cases")
	time := flags.String("time", "3s", "with -measure: the `duration` of attn bench -time")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2
	}
	if flags.NArg() > 0 {
		fmt.Fprintf(stderr, "tables: %q is too much, want no arguments\n", flags.Args())
		return 2
	}
	if *name != "" {
		bench := func(args ...string) ([]byte, error) { return attnBench(stderr, args...) }
		if err := measure(".", *name, benchRuns(*isa, *time), bench); err != nil {
			fmt.Fprintf(stderr, "tables: %v\n", err)
			return 1
		}
	}
	for _, name := range documents {
		if err := update(".", name); err != nil {
			fmt.Fprintf(stderr, "tables: %v\n", err)
			return 1
		}
	}
	return 0
}

// update writes the tables of a document below a folder.
func update(folder, name string) error {
	path := filepath.Join(folder, name)
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text, err := fill(name, string(old), measurements(folder))
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}
