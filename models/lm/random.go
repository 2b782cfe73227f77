package lm

import (
	"fmt"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/models/internal/tokenize"
	"github.com/seed-1415985d/attn/models/internal/weights"
)

// Sizes is the shape of a model. For [Random], 0 means a default.
type Sizes struct {
	Layers  int    // default 4
	Hidden  int    // elements of a row between layers: default 256
	Heads   int    // of queries: default Hidden/64, at least 1
	KVHeads int    // of keys and values, a divisor of Heads: default Heads
	FFN     int    // elements of a row in the feed-forward network: default 11·Hidden/4
	Vocab   int    // tokens: default 512, at least 260
	Seed    uint64 // of the weights
}

// Random makes a Llama model with random weights, for tests and measurements. Its tokens 0 to 255
// are bytes; <|im_start|>, <|im_end|> and <|endoftext|> follow, and the last two end answers. Its
// chat template is ChatML. Tokens after these are words without a meaning; Encode returns none of
// them. Options.Context is 8192 by default. Matrices have the format Options.Weights; Default is
// F32. There are no files, so Options.Progress is not called, and a Pack is an error.
func Random(s Sizes, o Options) (*Model, error) {
	if err := s.complete(); err != nil {
		return nil, err
	}
	if err := o.complete(false); err != nil {
		return nil, err
	}
	if o.Pack != "" {
		return nil, fmt.Errorf("%w: Options.Pack is %q, want none: a random model has no files",
			attn.ErrOption, o.Pack)
	}
	if err := (&config{}).useGuesses(nil, &folderNames, &o); err != nil {
		return nil, err
	}
	f := configFile{ModelType: "llama", Activation: new("silu"), Epsilon: 1e-6, Layers: s.Layers,
		Dim: s.Hidden, Heads: s.Heads, KVHeads: new(s.KVHeads), FFN: s.FFN, Vocab: s.Vocab}
	c, err := f.config()
	if err != nil {
		return nil, fmt.Errorf("%w: Sizes: %w", attn.ErrOption, err)
	}
	o.Context = o.contextOf(0)
	c.Context = o.Context
	l := &weights.Loader{Random: weights.Chance(s.Seed), Way: o.Products.way()}
	m := &Model{net: newModel(l, &c, &folderNames, max(o.Weights.of(), attn.F32)), options: o,
		sizes: s}
	if l.Err != nil {
		return nil, l.Err
	}
	t, err := tokenize.OfBytes(s.Vocab)
	if err != nil {
		return nil, err
	}
	m.use(t)
	for _, token := range t.Ends(tokenize.Ends{}) {
		m.ends = append(m.ends, int32(token))
	}
	return m.start()
}

// complete sets the defaults and refuses sizes that no model has.
func (s *Sizes) complete() error {
	set := func(n *int, usual int) {
		if *n == 0 {
			*n = usual
		}
	}
	set(&s.Layers, 4)
	set(&s.Hidden, 256)
	set(&s.Heads, max(1, s.Hidden/64))
	set(&s.KVHeads, s.Heads)
	set(&s.FFN, 11*s.Hidden/4)
	set(&s.Vocab, 512)
	for _, n := range []struct {
		name         string
		is, from, to int
	}{{"Layers", s.Layers, 1, mostLayers}, {"Hidden", s.Hidden, 1, weights.MostSize},
		{"Heads", s.Heads, 1, weights.MostSize}, {"KVHeads", s.KVHeads, 1, weights.MostSize},
		{"FFN", s.FFN, 1, weights.MostSize}, {"Vocab", s.Vocab, 260, weights.MostSize}} {
		if n.is < n.from || n.is > n.to {
			return fmt.Errorf("%w: Sizes.%s is %d, want %d to %d", attn.ErrOption, n.name, n.is, n.from,
				n.to)
		}
	}
	if s.Heads%s.KVHeads != 0 {
		return fmt.Errorf("%w: Sizes.Heads is %d, want a multiple of KVHeads, %d", attn.ErrOption,
			s.Heads, s.KVHeads)
	}
	if n := s.Hidden / s.Heads; n < 1 || n%2 != 0 {
		return fmt.Errorf("%w: Sizes.Hidden is %d and Heads %d, want an even number of elements for "+
			"each head", attn.ErrOption, s.Hidden, s.Heads)
	}
	const most = 1 << 38
	layer := 2*float64(s.Hidden) + 3*float64(s.FFN) // numbers for each element of a row, at least
	if n := float64(s.Hidden) * (float64(s.Layers)*layer + 2*float64(s.Vocab)); n > most {
		return fmt.Errorf("%w: Sizes has %.3g weights, want at most %.3g", attn.ErrOption, n,
			float64(most))
	}
	return nil
}
