// Command embed computes sentence embeddings with a BERT encoder: the model of a folder, as it is
// published, or a random one. It prints how similar the texts are, and shows that an embedding has
// the same bits alone and in a batch.
package main

import (
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/seed-1415985d/attn/embed/folder"
	"github.com/seed-1415985d/attn/examples/internal/flags"
)

func main() {
	os.Exit(command(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// command is the exit code of a run, whose error it prints.
func command(args []string, stdin io.Reader, out, errs io.Writer) int {
	out, errs = folder.Terminal(out), folder.Terminal(errs)
	if err := run(args, stdin, out, errs); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(errs, "embed:", err)
		return 1
	}
	return 0
}

//go:embed texts.txt
var builtIn string

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	c := standard
	set := flag.NewFlagSet("embed [flags] [TEXT...]", flag.ContinueOnError)
	path := set.String("model", "", "`folder` with config.json, model.safetensors and "+
		"tokenizer.json or vocab.txt; none is a random model")
	modes := set.String("pool", "", "cls, lasttoken, max, mean, mean_sqrt_len_tokens or "+
		"weightedmean, or several with commas; by default as the model says")
	vectors := set.String("vectors", "", "`file` that gets the embeddings, a NumPy array of float32 "+
		"with a row for each text")
	workers := set.Int("workers", runtime.GOMAXPROCS(0), "threads")
	limit := set.Duration("time", time.Second, "how long the speed is measured")
	integers := set.Bool("integers", false, "multiply in 8-bit integers, and compare with float32")
	set.IntVar(&c.Layers, "layers", 6, "of a random model")
	set.IntVar(&c.Hidden, "dim", 384, "of a random model's embeddings")
	set.IntVar(&c.Heads, "heads", 12, "of a random model")
	set.IntVar(&c.FFN, "ffn", 1536, "inner dimension of a random model")
	set.IntVar(&c.Vocab, "vocab", 30522, "tokens of a random model")
	if err := flags.Parse(set, args, stdout); err != nil {
		return err
	}
	if *workers < 1 {
		return fmt.Errorf("-workers is %d, want 1 or more", *workers)
	}
	texts, err := inputs(set.Args(), stdin)
	if err != nil {
		return err
	}
	m, t, err := load(*path, c, *integers)
	if err == nil && *modes != "" {
		err = m.override(strings.Split(*modes, ","))
	}
	if err != nil {
		return err
	}
	ids, err := m.tokens(t, texts, stderr)
	if err != nil {
		return err
	}
	e := newEncoder(m, *workers)
	defer e.pool.Close()
	embeddings, err := e.embed(ids)
	if err == nil && *vectors != "" {
		err = writeVectors(*vectors, embeddings)
	}
	if err != nil {
		return err
	}
	if err := report(stdout, e, texts, ids, embeddings, *limit); err != nil || !*integers {
		return err
	}
	exact, _, err := load(*path, c, false)
	if err != nil {
		return err
	}
	exact.modes = m.modes
	return compare(stdout, newEncoder(exact, *workers), ids, embeddings)
}

// inputs are the texts of the command line, with - the lines of the standard input, or built-in
// ones.
func inputs(args []string, stdin io.Reader) ([]string, error) {
	text, err := []byte(builtIn), error(nil)
	if len(args) == 1 && args[0] == "-" {
		text, err = io.ReadAll(stdin)
	} else if len(args) > 0 {
		return args, nil
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n"), err
}
