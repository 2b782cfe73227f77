// Command decoder runs language models of the Llama architecture on attn: prompts in batches that new ones join while others decode, with a
// common beginning computed once. It also shows that none of this changes a bit of a prompt's logits.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/examples/decoder/internal/folder"
)

// options is the command line.
type options struct {
	settings
	model, size, shared string
	shape               folder.Config // of a random model, where not 0
	weights             attn.CacheType
	prompts             []string
	most                int
	seed                uint64
	temperature         float64
	prove               bool
	bench               string
}

// sizes are random models: one that takes seconds anywhere, and one like published models of half a billion weights.
var sizes = map[string]folder.Config{
	"tiny": {Layers: 4, Dim: 256, Heads: 8, KVHeads: 2, FFN: 704, Vocab: 2048},
	"0.5b": {Layers: 24, Dim: 896, Heads: 14, KVHeads: 2, HeadDim: 64, FFN: 4864, Vocab: 32000, Tied: true},
}

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil && err != flag.ErrHelp {
		fmt.Fprintln(os.Stderr, "decoder:", err)
		os.Exit(1)
	}
}

func parse(args []string, help io.Writer) (*options, error) {
	o := &options{weights: -1}
	f := flag.NewFlagSet("decoder", flag.ContinueOnError)
	f.SetOutput(help)
	f.StringVar(&o.model, "model", "", "`folder` with config.json, model.safetensors and tokenizer.json; none makes a random model")
	f.StringVar(&o.size, "size", "tiny", "of a random model: tiny or 0.5b; the next six change it")
	f.IntVar(&o.shape.Layers, "layers", 0, "layers")
	f.IntVar(&o.shape.Dim, "dim", 0, "width of a state")
	f.IntVar(&o.shape.Heads, "heads", 0, "query heads")
	f.IntVar(&o.shape.KVHeads, "kv", 0, "key/value heads")
	f.IntVar(&o.shape.FFN, "ffn", 0, "width of the feed-forward network")
	f.IntVar(&o.shape.Vocab, "vocab", 0, "tokens")
	f.Func("prompt", "`text` to continue; may be repeated, as may arguments", func(s string) error { o.prompts = append(o.prompts, s); return nil })
	f.StringVar(&o.shared, "shared", "", "`text` before every prompt, computed once")
	f.IntVar(&o.most, "n", 64, "tokens to generate for each prompt")
	f.IntVar(&o.places, "batch", 16, "prompts at a time")
	f.IntVar(&o.chunk, "chunk", 256, "tokens of prompts in a step")
	f.IntVar(&o.context, "context", 1024, "tokens of a prompt and its answer")
	f.IntVar(&o.workers, "workers", runtime.GOMAXPROCS(0), "threads")
	f.Func("cache", "`type` of keys and values: f32, f16, bf16 or i8 (default f32)", typeFlag(&o.kind))
	f.Func("weights", "`type` of matrices: f32, f16, bf16 or i8 (default as in the folder)", typeFlag(&o.weights))
	f.Uint64Var(&o.seed, "seed", 1, "of a random model, and of sampling")
	f.Float64Var(&o.temperature, "temperature", 0, "of sampling; 0 takes the most likely token")
	f.BoolVar(&o.textbook, "textbook", false, "attention as in a textbook, for comparison")
	f.BoolVar(&o.prove, "prove", false, "compare the bits of logits; what a run without model and prompts does, too")
	f.StringVar(&o.bench, "bench", "", "measure tokens a second of the `cases` that match, . for all, and end")
	err := f.Parse(args)
	o.prompts = append(o.prompts, f.Args()...)
	return o, err
}

func typeFlag(to *attn.CacheType) func(string) error {
	return func(s string) error {
		for t := attn.F32; t <= attn.I8; t++ {
			if strings.EqualFold(s, t.String()) {
				*to = t
				return nil
			}
		}
		return fmt.Errorf("want f32, f16, bf16 or i8")
	}
}

func run(args []string, out, help io.Writer) error {
	o, err := parse(args, help)
	if err != nil {
		return err
	}
	m, text, err := o.open()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d layers of %d, %d heads, %d key/value heads of %d, %d tokens; weights %d MiB; kernels %s, %d workers\n\n",
		m.Layers, m.Dim, m.Heads, m.KVHeads, m.HeadDim, m.Vocab, m.memory()>>20, attn.Implementation(), o.workers)
	if o.bench != "" {
		return bench(out, m, o.settings, o.bench)
	}
	if o.model == "" && len(o.prompts) == 0 {
		o.prove = true
		o.shared = "You are a helpful assistant, and a random one. "
		o.prompts = []string{"The capital of France is", "Two and two are", "Once upon a time"}
	}
	if len(o.prompts) == 0 && !o.prove {
		return fmt.Errorf("no prompt, want at least one as an argument")
	}
	if err := o.generate(out, m, text); err != nil || !o.prove {
		return err
	}
	return o.proveAll(out, m)
}

// open loads the model, or makes one.
func (o *options) open() (*model, codec, error) {
	if o.model != "" {
		m, err := loadModel(o.model, o.weights)
		if err != nil {
			return nil, nil, err
		}
		t, err := folder.LoadTokenizer(o.model, m.Vocab)
		return m, t, err
	}
	c, ok := sizes[o.size]
	if !ok {
		return nil, nil, fmt.Errorf("-size is %q, want tiny or 0.5b", o.size)
	}
	for i, to := range []*int{&c.Layers, &c.Dim, &c.Heads, &c.KVHeads, &c.FFN, &c.Vocab} {
		if n := []int{o.shape.Layers, o.shape.Dim, o.shape.Heads, o.shape.KVHeads, o.shape.FFN, o.shape.Vocab}[i]; n != 0 {
			*to = n
		}
	}
	if o.shape.Dim+o.shape.Heads > 0 {
		c.HeadDim = 0
	}
	c.ModelType, c.Activation, c.Epsilon = "llama", "silu", 1e-6
	if err := c.Complete(); err != nil {
		return nil, nil, err
	}
	m, err := newModel(&c, chance{o.seed}, o.weights)
	return m, numbers(c.Vocab), err
}

// generate continues the prompts, and prints answers in the order of the prompts, each token as soon as all before it are printed.
func (o *options) generate(out io.Writer, m *model, text codec) error {
	e, err := newEngine(m, o.settings)
	if err != nil {
		return err
	}
	defer e.close()
	s := &stream{out: out, text: text, prompts: o.prompts, answers: make([][]int, len(o.prompts)), done: make([]bool, len(o.prompts))}
	for i, prompt := range o.prompts {
		tokens, err := text.Encode(o.shared + prompt)
		if err != nil {
			return err
		}
		if i == 0 && o.shared != "" {
			if err := o.share(e, text, tokens); err != nil {
				return err
			}
		}
		j := &job{prompt: tokens, most: o.most, choose: sampler(o.temperature, o.seed, uint64(i)),
			made: func(token int) { s.made(i, token) }, ended: func() { s.end(i) }}
		if err := e.submit(j); err != nil {
			return fmt.Errorf("prompt %d: %w", i+1, err)
		}
	}
	if err := e.run(); err != nil {
		return err
	}
	e.report(out)
	return nil
}

// share computes the tokens of the shared text, as far as those of a prompt begin with them.
func (o *options) share(e *engine, text codec, prompt []int) error {
	tokens, err := text.Encode(o.shared)
	if err != nil {
		return err
	}
	n := 0
	for n < min(len(tokens), len(prompt)) && tokens[n] == prompt[n] {
		n++
	}
	return e.share(tokens[:n])
}

// proveAll takes a prompt of 150 tokens, so that it is on several pages.
func (o *options) proveAll(out io.Writer, m *model) error {
	prompt := make([]int, 150)
	for i := range prompt {
		prompt[i] = i * i % m.Vocab
	}
	different, err := prove(out, m, o.settings, prompt)
	if err == nil && different > 0 {
		err = fmt.Errorf("%d of %d comparisons differ", different, len(trials)-1)
	}
	return err
}
