package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/seed-1415985d/attn/internal/flags"
)

// about is the text before the flags in the help.
const about = `Usage:
  attn-embed [flags] [TEXT...]   similarities of texts, built-in ones without any
  attn-embed [flags] -           of the lines of the standard input
  attn-embed [flags] bench       how fast a model is, on texts of its own
  attn-embed images PATH...      images nearest to a text or an image, or labels of images
  attn-embed classify TEXT...    labels of texts
  attn-embed entities TEXT...    names and other labelled parts of texts
attn-embed images -h lists flags of images, and so on. All arguments after -- are texts.
Flags of the first three:
`

// input is what a command line asks for.
type input struct {
	texts                 []string
	random, rerank, bench bool
}

// parse reads a command line, and refuses what it does not know.
func parse(set *flag.FlagSet, args []string, stdin io.Reader, help io.Writer) (in input,
	err error) {
	if err := flags.Parse(set, args, help); err != nil {
		return in, err
	}
	words := set.Args()
	literal, wrong := flags.Texts("text", args, words)
	if in.bench = !literal && len(words) > 0 && words[0] == "bench"; in.bench {
		if err := flags.ParseAll(set, words[1:], help); err != nil {
			return in, fmt.Errorf("bench: %w", err)
		}
	} else if wrong != nil {
		return in, wrong
	} else if !literal && len(words) > 0 && commands[words[0]] != nil {
		return in, flags.Errorf("%s comes after %q, want it first, and flags after it; -- before all "+
			"texts for the text", words[0], args[:len(args)-len(words)])
	} else if in.texts, err = inputs(words, literal, stdin); err != nil {
		return in, err
	}
	given := map[string]bool{}
	set.Visit(func(f *flag.Flag) { given[f.Name] = true })
	in.random, in.rerank = !given["model"], given["rerank"]
	for _, name := range []string{"layers", "dim", "heads", "ffn", "vocab"} {
		if given[name] && !in.random {
			return in, flags.Errorf("-%s is %v, of a random model, with -model %s, want one of both", name,
				set.Lookup(name).Value, set.Lookup("model").Value)
		}
	}
	for _, name := range []string{"rerank", "vectors"} {
		if given[name] && (in.bench || in.rerank && name == "vectors") {
			return in, flags.Errorf("-%s is there with %s, want one of both", name,
				map[bool]string{true: "bench", false: "-rerank, which makes no embeddings"}[in.bench])
		}
	}
	switch {
	case in.rerank && len(words) == 0:
		return in, flags.Errorf("-rerank without texts, want the texts that it sorts as arguments, " +
			"or - " +
			"for the lines of the standard input")
	case len(in.texts) == 0:
		in.texts = lines(builtIn)
	}
	return in, nil
}

// inputs returns the texts of the command line, or with - the lines of the standard input.
func inputs(words []string, literal bool, stdin io.Reader) ([]string, error) {
	if literal || !slices.Contains(words, "-") {
		return words, nil
	}
	if len(words) > 1 {
		return nil, fmt.Errorf("- is there among the texts %q, want it alone, for the lines of the "+
			"standard input, or -- before all texts", words)
	}
	text, err := io.ReadAll(stdin)
	if err == nil && strings.TrimSpace(string(text)) == "" {
		err = errors.New("the standard input has no texts, want a line for each")
	}
	return lines(string(text)), err
}

// lines are the lines of a text without their ends. Empty ones at the end of the text are left out.
func lines(text string) []string {
	text = strings.TrimRight(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	return strings.Split(text, "\n")
}
