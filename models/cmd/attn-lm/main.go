// Command attn-lm runs language models from published files on the CPU: it continues texts, holds
// conversations, serves clients of OpenAI's interface, measures, and shows that an answer's bits
// depend on nothing but the prompt.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/seed-1415985d/attn/internal/flags"
	"github.com/seed-1415985d/attn/models/cmd/internal/terminal"
)

const usage = `attn-lm runs language models of GGUF files and of folders as transformers writes them.

Commands:
  run       continue texts
  chat      hold a conversation
  serve     answer clients of OpenAI's interface
  bench     measure tokens a second
  accuracy  compare logits of fewer bits with logits in float32
  prove     compare the bits of answers alone, among others, on one thread and on several

attn-lm COMMAND -h lists the flags of a command.
`

func main() { os.Exit(command(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// command runs a command line, prints its error and returns the exit status.
func command(args []string, in io.Reader, out, errs io.Writer) int {
	out, errs = terminal.Writer(out), terminal.Writer(errs)
	with := func(f func(args []string, in io.Reader, out, errs io.Writer) error) flags.Command {
		return func(args []string, out, errs io.Writer) error { return f(args, in, out, errs) }
	}
	program := &flags.Program{Name: "attn-lm", Usage: usage, Commands: map[string]flags.Command{
		"run": with(run), "chat": with(talk), "bench": with(bench), "accuracy": with(accuracy),
		"prove": with(prove), "serve": with(serveModels)}}
	where, err := program.Run(args, out, errs)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(errs, "%s: %s\n", where, named(err))
	}
	return flags.Status(err)
}

// flagNames maps the names of package lm's fields in errors to flags.
var flagNames = strings.NewReplacer("Options.Workers", "-workers", "Options.Sequences",
	"-sequences", "Options.Chunk", "-chunk", "Options.Context", "-context", "Options.Guesses",
	"-guesses", "Options.Draft", "-draft", "Options.Memory", "the memory for keys and values")

// named returns the text of an error with flags in place of package lm's fields.
func named(err error) string { return flagNames.Replace(err.Error()) }
