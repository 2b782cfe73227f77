// Command tables writes the tables of docs/performance.md from measurements of attn bench -json,
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

	"github.com/seed-1415985d/attn/internal/flags"
)

// documents are the documents with tables.
var documents = []string{"docs/performance.md"}

func main() {
	os.Exit(command(os.Args[1:], os.Stdout, os.Stderr))
}

// command runs a command line, prints its error and returns the exit status.
func command(args []string, stdout, stderr io.Writer) int {
	err := run(args, stdout, stderr)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(stderr, "tables: %v\n", err)
	}
	return flags.Status(err)
}

const about = `tables [flags]

Writes the tables of docs/performance.md from docs/bench-*.json.

`

func run(args []string, stdout, stderr io.Writer) error {
	set := flags.New(about)
	name := set.String("measure", "", "measure this machine first, into docs/bench-`NAME`.json")
	isa := set.String("isa", "avx512,avx2", "with -measure: the `list` of attn bench -isa; generic "+
		"code is measured besides, with a few cases")
	time := set.String("time", "3s", "with -measure: the `duration` of attn bench -time")
	if err := flags.ParseAll(set, args, stdout); err != nil {
		return err
	}
	if *name != "" {
		bench := func(args ...string) ([]byte, error) { return attnBench(stderr, args...) }
		if err := measureMachine(".", *name, benchRuns(*isa, *time), bench); err != nil {
			return err
		}
	}
	for _, name := range documents {
		if err := update(".", name); err != nil {
			return err
		}
	}
	return nil
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
