package lm

import (
	"slices"

	"github.com/seed-1415985d/attn/models/chat"
	"github.com/seed-1415985d/attn/models/internal/tokenize"
	"github.com/seed-1415985d/attn/models/internal/weights"
	"github.com/seed-1415985d/attn/models/tokenizer"
)

func isFile(path string) bool { return weights.IsGGUF(path) }

// loadFolder reads config.json, tensors and tokenizer of a folder.
func loadFolder(path string, o *Options) (*Model, error) {
	l := weights.Of(path, o.Products.way())
	c, names := readConfig(l)
	l.Open()
	defer l.Close()
	if l.Err != nil {
		return nil, l.Err
	}
	if err := c.useGuesses(l, names, o); err != nil {
		return nil, err
	}
	idle := idleTensors
	if c.Wrapped {
		names, idle = names.within(l), slices.Concat(idle, idleWrapperTensors)
	}
	idle = slices.Concat(idle, c.furtherLayers(names, "mtp.*"), c.unreadKeys(names))
	vocab := c.Vocab
	read := tokenize.Beside(l, func(l *weights.Loader) *tokenize.Tokenizer {
		return tokenize.ReadBPE(l, vocab)
	})
	return load(l, &c, names, o, idle, read, func(t *tokenize.Tokenizer) []int {
		t.Named = tokenize.Ends{Tokens: c.Stop, All: len(c.Stop) > 1}
		return t.Ends(t.Named)
	})
}

// loadFile reads a GGUF file.
func loadFile(path string, o *Options) (*Model, error) {
	l := weights.OfGGUF(path, o.Products.way())
	defer l.Close()
	v := tokenize.ReadVocabulary(l)
	read := tokenize.Beside(l, func(l *weights.Loader) *tokenize.Tokenizer {
		return tokenize.VocabularyBPE(l, v)
	})
	c, names := readMetadata(l, v)
	if l.Err != nil {
		return nil, l.Err
	}
	if err := c.useGuesses(l, names, o); err != nil {
		return nil, err
	}
	return load(l, &c, names, o, idleTensorsGGUF(&c, names), read, func(t *tokenize.Tokenizer) []int {
		t.Named = v.Named()
		return t.Ends(t.Named)
	})
}

// load loads the tensors of a model while its tokenizer is read.
func load(l *weights.Loader, c *config, names *tensorNames, o *Options, idle []string,
	vocabulary func() *tokenize.Tokenizer, ends func(*tokenize.Tokenizer) []int) (*Model, error) {
	o.Context = o.contextOf(c.Trained)
	c.Context = o.Context
	l.UsePack(o.Pack, o.matrices())
	l.Report(o.Progress)
	m := &Model{net: newModel(l, c, names, o.Weights.of()), options: *o, stored: isFile(l.Path)}
	l.CheckUsed(idle...)
	text := vocabulary()
	if l.Err != nil {
		return nil, l.Err
	}
	l.Reported()
	m.use(text)
	for _, token := range ends(text) {
		m.ends = append(m.ends, int32(token))
	}
	m.fingerprint.path, m.fingerprint.tensors = l.Path, l.Tensors()
	return m, nil
}

// use sets the tokenizer and the chat template.
func (m *Model) use(t *tokenize.Tokenizer) {
	m.tokens, m.tokenizer = t, tokenize.Public(t).(*tokenizer.Tokenizer)
	m.template = &chat.Template{Source: t.Template.Source, Begin: t.Template.Begin,
		End: t.Template.End}
}
