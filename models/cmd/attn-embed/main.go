// Command attn-embed computes embeddings of texts and images, and labels of both, with models of
// published folders; or of texts with a random one. It shows that an embedding has the same bits
// alone and in a batch.
package main

import (
	_ "embed"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/seed-1415985d/attn/internal/flags"
	"github.com/seed-1415985d/attn/models/cmd/internal/terminal"
	"github.com/seed-1415985d/attn/models/embed"
)

func main() {
	os.Exit(command(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// command runs a command line, prints its error and returns the exit status.
func command(args []string, stdin io.Reader, out, errs io.Writer) int {
	where := "attn-embed"
	s := &streams{stdin, terminal.Writer(out), terminal.Writer(errs), errs}
	do := func(args []string, s *streams) error { return run(args, s.in, s.out, s.errs) }
	if len(args) > 0 && commands[args[0]] != nil {
		where, do, args = where+" "+args[0], commands[args[0]], args[1:]
	}
	err := named(do(args, s))
	status := flags.Status(err)
	if status != 0 {
		fmt.Fprintf(s.errs, "%s: %s\n", where, strings.TrimPrefix(err.Error(), "embed: "))
	}
	return status
}

// flagNames maps the names of package embed's fields in errors to flags.
var flagNames = strings.NewReplacer("Sizes.Layers", "-layers", "Sizes.Hidden", "-dim",
	"Sizes.Heads", "-heads", "Sizes.FFN", "-ffn", "Sizes.Vocab", "-vocab", "Options.Pooling", "-pool",
	"Options.Prompt", "-prompt", "Options.Dimensions", "-dimensions", "Options.Workers", "-workers",
	"Options.BFloat16 is true with Integers", "-bfloat16 is set with -integers")

// named returns an error with flags in place of fields. An error with such a field is a mistake on
// the command line.
func named(err error) error {
	if err == nil {
		return nil
	}
	if text := flagNames.Replace(err.Error()); text != err.Error() {
		return flags.Errorf("%s", text)
	}
	return err
}

//go:embed texts.txt
var builtIn string

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	sizes, o := embed.Sizes{}, embed.Options{}
	set := flag.NewFlagSet("attn-embed", flag.ContinueOnError)
	path := set.String("model", "", "`folder` with config.json, model.safetensors and a tokenizer, "+
		"or a GGUF file (default a random model)")
	modes := set.String("pool", "", "`poolings`, separated by commas: cls, lasttoken, max, mean, "+
		"mean_sqrt_len_tokens or weightedmean (default the model's)")
	vectors := set.String("vectors", "", "write the embeddings to `file`, a NumPy array of float32 "+
		"with a row for each text")
	query := set.String("rerank", "", "sort texts for this `query`, by a cross-encoder")
	set.StringVar(&o.Prompt, "prompt", "", "`name` of the prompt before texts")
	set.IntVar(&o.Dimensions, "dimensions", 0, "keep only the first `n` dimensions; 0 keeps all")
	set.IntVar(&o.Workers, "workers", runtime.GOMAXPROCS(0), "`number` of threads")
	limit := set.Duration("time", time.Second, "`time` for each measurement of speed")
	set.BoolVar(&o.Integers, "integers", false, "multiply in 8-bit integers, and compare with float32")
	set.BoolVar(&o.BFloat16, "bfloat16", false, "multiply in bfloat16, and compare with float32")
	set.IntVar(&sizes.Layers, "layers", 6, "`number` of layers of a random model")
	set.IntVar(&sizes.Hidden, "dim", 384, "`dimension` of a random model's embeddings")
	set.IntVar(&sizes.Heads, "heads", 12, "`number` of heads of a random model")
	set.IntVar(&sizes.FFN, "ffn", 1536, "inner `dimension` of a random model")
	set.IntVar(&sizes.Vocab, "vocab", 30522, "`number` of tokens of a random model")
	set.Usage = func() {
		fmt.Fprint(set.Output(), about)
		set.PrintDefaults()
	}
	in, err := parse(set, args, stdin, stdout)
	if err == nil {
		err = checkWorkers(o.Workers)
	}
	if err == nil && *limit < 0 {
		err = flags.Errorf("-time is %v, want 0 or more", *limit)
	}
	if err != nil {
		return err
	}
	if *modes != "" {
		o.Pooling = strings.Split(*modes, ",")
	}
	open := func(o embed.Options) (*embed.Model, error) {
		if in.random {
			if in.rerank {
				sizes.Labels = 1
			}
			return embed.Random(sizes, o)
		}
		return embed.Open(*path, o)
	}
	once := &notices{to: stderr}
	o.Cut = once.cut
	if in.bench {
		return bench(stdout, open, o, *limit)
	}
	m, err := open(o)
	if err != nil {
		return err
	}
	defer m.Close()
	if in.rerank {
		return rerank(stdout, m, *query, in.texts)
	}
	embeddings, err := m.Encode(in.texts)
	if err == nil && *vectors != "" {
		err = writeVectors(*vectors, embeddings)
	}
	if err == nil {
		once.to = io.Discard // the output is the same again
		o.Cut = nil
		err = report(stdout, &subject{m, in.random, open, o}, in.texts, embeddings, *limit)
	}
	return err
}
