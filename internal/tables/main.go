// Command tables writes the tables of README.md and docs/performance.md from what attn bench -json
// has measured, docs/bench-*.json: `go run ./internal/tables` in the repository's root. A comment
// before each table says what it shows, see mark.go.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// documents have tables.
var documents = []string{"README.md", "docs/performance.md"}

func main() {
	os.Exit(command(os.Args[1:], os.Stderr))
}

func command(args []string, stderr io.Writer) int {
	flags := flag.NewFlagSet("tables", flag.ContinueOnError)
	flags.SetOutput(stderr)
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if flags.NArg() > 0 {
		fmt.Fprintf(stderr, "tables: %q is too much, want no arguments\n", flags.Args())
		return 2
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
