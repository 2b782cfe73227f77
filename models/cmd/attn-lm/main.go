// Command attn-lm runs language models of published files on the CPU: it answers prompts,
// conversations and clients of OpenAI's interface, measures, and shows that nothing but the prompt
// decides an answer's bits.
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
  prove     compare the bits of answers alone, in company, on one thread and on several

attn-lm COMMAND -h lists the flags of a command.
`

func main() { os.Exit(command(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// command returns the exit status of a run, whose error it prints.
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

// flagNames are what fields of package lm are on the command line, by their names in its errors.
var flagNames = strings.NewReplacer("Options.Workers", "-workers", "Options.Sequences",
	"-sequences", "Options.Chunk", "-chunk", "Options.Context", "-context", "Options.Guesses",
	"-guesses", "Options.Draft", "-draft", "Options.Memory", "the memory for keys and values")

// named is the text of an error, with flags where package lm names fields.
func named(err error) string { return flagNames.Replace(err.Error()) }
