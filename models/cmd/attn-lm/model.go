package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/flags"
	"github.com/seed-1415985d/attn/models/lm"
)

// modelFlags say which model to open, and how it runs.
type modelFlags struct {
	path, size, draft string
	seed              uint64
	lm.Options
}

// sizes are random models: one that needs seconds on any machine, and one of the shape of published
// models with half a billion weights.
var sizes = map[string]lm.Sizes{
	"tiny": {Layers: 4, Hidden: 256, Heads: 8, KVHeads: 2, FFN: 704, Vocab: 2048},
	"0.5b": {Layers: 24, Hidden: 896, Heads: 14, KVHeads: 2, FFN: 4864, Vocab: 32000},
}

func (m *modelFlags) register(f *flag.FlagSet) {
	f.StringVar(&m.path, "model", "", "GGUF `file` or folder with config.json, model.safetensors and "+
		"tokenizer.json (default a random model, whose answers mean nothing)")
	f.StringVar(&m.size, "size", "tiny", "size of the random model: tiny or 0.5b")
	f.Uint64Var(&m.seed, "seed", 1, "random seed of sampling, and of the random model's weights")
	f.IntVar(&m.Context, "context", 0, "most tokens of a prompt and its answer (default the "+
		"length that the model was trained for, at most 8192)")
	f.IntVar(&m.Workers, "workers", 0, "number of threads (default one for each processor)")
	f.IntVar(&m.Sequences, "sequences", 16, "most prompts answered at the same time")
	f.IntVar(&m.Chunk, "chunk", 256, "most tokens of prompts in a step")
	f.Func("cache", "`format` of keys and values: f32, f16, bf16, i8 or i4, or two formats, such as "+
		"i8,i4 (default f16 for a GGUF file, f32 for a folder)", m.setCache)
	f.Func("weights", "`format` of matrices: file, f32, f16, bf16 or i8 (default file: the "+
		"format of the files)", m.setWeights)
	f.Func("products", "`arithmetic` of matrix products: floats, integers or bfloat16 (default "+
		"integers for a GGUF file, floats for a folder)", m.setProducts)
	f.StringVar(&m.Pack, "pack", "", "`file` of packed matrices, which makes opening fast; "+
		"written if it does not exist")
	f.StringVar(&m.draft, "draft", "", "GGUF `file` or folder of a smaller model with the same tokens, "+
		"that guesses tokens: fewer steps, the same answer")
	f.IntVar(&m.Guesses, "guesses", 0, "most tokens that -draft, or without it the model's own layer "+
		"for that, guesses at a time (default 4 with -draft, else none)")
}

// check refuses flags that do not fit together.
func (m *modelFlags) check(f *flag.FlagSet) error {
	said := map[string]bool{}
	f.Visit(func(x *flag.Flag) { said[x.Name] = true })
	switch {
	case said["size"] && m.path != "":
		return flags.Errorf("-size is %s and -model %s, want one of them", m.size, m.path)
	case m.path == "" && (m.draft != "" || m.Pack != ""):
		return flags.Errorf("-draft and -pack want a -model")
	case (m.draft != "" || m.Guesses > 0) && m.Chunk == 1:
		return flags.Errorf("-chunk is 1 with -draft or -guesses, want 2 or more")
	case m.Products == lm.Integers && m.Weights != lm.Default && m.Weights != lm.I8:
		return flags.Errorf("-weights is %v with -products integers, want i8 or file", m.Weights)
	case m.Products == lm.BFloat16 && m.Weights == lm.I8:
		return flags.Errorf("-weights is i8 with -products bfloat16, want f32, f16, bf16 or file")
	}
	if _, ok := sizes[m.size]; !ok {
		return flags.Errorf("-size is %q, want tiny or 0.5b", m.size)
	}
	for _, n := range []struct {
		name string
		is   int
	}{{"workers", m.Workers}, {"sequences", m.Sequences}, {"chunk", m.Chunk}, {"context", m.Context},
		{"guesses", m.Guesses}} {
		if said[n.name] && n.is < 1 {
			return flags.Errorf("-%s is %d, want 1 or more", n.name, n.is)
		}
	}
	return checkFolder("pack", m.Pack)
}

// formats are the formats that the command line knows.
var formats = []lm.Format{lm.F32, lm.F16, lm.BF16, lm.I8, lm.I4}

func formatOf(name string, known []lm.Format) (lm.Format, error) {
	var names []string
	for _, f := range known {
		names = append(names, f.String())
	}
	if i := slices.Index(names, name); i >= 0 {
		return known[i], nil
	}
	return 0, fmt.Errorf("want %s or %s", strings.Join(names[:len(names)-1], ", "),
		names[len(names)-1])
}

func (m *modelFlags) setCache(text string) (err error) {
	keys, values, both := strings.Cut(text, ",")
	if m.Keys, err = formatOf(keys, formats); err == nil && both {
		m.Values, err = formatOf(values, formats)
	}
	if err == nil && m.Values == lm.F32 && m.Keys != lm.F32 {
		err = errors.New("want values of another format than f32, or keys of f32, too")
	}
	return err
}

func (m *modelFlags) setWeights(text string) (err error) {
	if m.Weights = lm.Default; text != "file" {
		if m.Weights, err = formatOf(text, formats[:4]); err != nil {
			err = fmt.Errorf("%w, or file", err)
		}
	}
	return err
}

func (m *modelFlags) setProducts(text string) error {
	names := map[string]lm.Products{"floats": lm.Floats, "integers": lm.Integers,
		"bfloat16": lm.BFloat16}
	p, ok := names[text]
	if !ok {
		return fmt.Errorf("want floats, integers or bfloat16")
	}
	m.Products = p
	return nil
}

// open opens the models; closing closes them. Options that do not fit are a mistake on the command
// line.
func (m *modelFlags) open() (model *lm.Model, closing func(), err error) {
	model, closing, err = m.openAll()
	if errors.Is(err, attn.ErrOption) {
		err = flags.Errorf("%w", err)
	}
	return model, closing, err
}

func (m *modelFlags) openAll() (model *lm.Model, closing func(), err error) {
	o, closing := m.Options, func() {}
	if m.draft != "" {
		draft := o
		draft.Pack, draft.Guesses = "", 0
		if o.Draft, err = lm.Open(m.draft, draft); err != nil {
			return nil, closing, fmt.Errorf("-draft: %w", err)
		}
		closing = func() { _ = o.Draft.Close() } // it is open, so Close cannot fail
	}
	if m.path == "" {
		s := sizes[m.size]
		s.Seed = m.seed
		model, err = lm.Random(s, o)
	} else {
		model, err = lm.Open(m.path, o)
	}
	if err != nil {
		closing()
		return nil, nil, err
	}
	first := closing
	return model, func() {
		_ = model.Close() // likewise
		first()
	}, nil
}

// describe prints a description of the model, and on errs what a user might not expect of it.
func (m *modelFlags) describe(out, errs io.Writer, model *lm.Model) error {
	if m.path == "" {
		fmt.Fprintln(errs, "A random model: its answers mean nothing. -model names a real one.")
	}
	warnings, err := model.Warnings()
	for _, text := range warnings {
		fmt.Fprintf(errs, "warning: %s\n", text)
	}
	fmt.Fprintf(out, "%v\n\n", model)
	return err
}

// checkFolder refuses a flag's file whose folder does not exist.
func checkFolder(name, path string) error {
	if path == "" {
		return nil
	}
	if _, err := os.Stat(filepath.Dir(path)); err != nil {
		return flags.Errorf("the folder of -%s: %w", name, err)
	}
	return nil
}
