package lm

import (
	"errors"
	"io/fs"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/seed-1415985d/attn"
)

// TestOptions has options that do not fit, and the defaults.
func TestOptions(t *testing.T) {
	draft := small(t, Options{})
	for says, o := range map[string]Options{
		"Options.Workers is -1":                     {Workers: -1},
		"Options.Sequences is -1":                   {Sequences: -1},
		"Options.Sequences is 100000":               {Sequences: 100000},
		"Options.Chunk is -1":                       {Chunk: -1},
		"Options.Context is -1":                     {Context: -1},
		"Options.Memory is -1":                      {Memory: -1},
		"Options.Guesses is -1":                     {Guesses: -1},
		"Options.Guesses is 3 without":              {Guesses: 3},
		"Options.Guesses is 65":                     {Guesses: 65, Draft: draft},
		"Options.Guesses is 4 and Options.Chunk 1":  {Chunk: 1, Draft: draft},
		"Options.Weights is i4":                     {Weights: I4},
		"Options.Weights is Format(9)":              {Weights: 9},
		`Options.Pack is "x", want none`:            {Pack: "x"},
		"Options.Keys is Format(-1)":                {Keys: -1},
		"Options.Values is Format(6)":               {Values: 6},
		"Options.Values is f32":                     {Keys: F16, Values: F32},
		"Options.Products is Products(7)":           {Products: 7},
		"Options.Products is Products(-1)":          {Products: -1},
		"Options.Weights is f16":                    {Weights: F16, Products: Integers},
		"Options.Weights is i8":                     {Weights: I8, Products: BFloat16},
		"want ByFile, Floats, Integers or BFloat16": {Products: BFloat16 + 1},
	} {
		_, err := Random(Sizes{}, o)
		if !errors.Is(err, attn.ErrOption) || !strings.Contains(err.Error(), says) {
			t.Errorf("the error is %v, want ErrOption that says %q", err, says)
		}
	}
	for says, s := range map[string]Sizes{
		"Sizes.Layers is -1": {Layers: -1}, "Sizes.Hidden is -1": {Hidden: -1},
		"Sizes.Vocab is 259": {Vocab: 259}, "Sizes.FFN is -1": {FFN: -1},
		"Sizes.Heads is 4, want a multiple of KVHeads, 3": {Heads: 4, KVHeads: 3},
		"Sizes.Hidden is 63 and Heads 2, want an even":    {Hidden: 63, Heads: 2},
		"Sizes.Hidden is 1 and Heads 4, want an even":     {Hidden: 1, Heads: 4},
		"Sizes has ":                        {Hidden: 1 << 24, Heads: 1, FFN: 1},
		"is 1073741824, want 1 to 4096":     {Layers: 1 << 30},
		"is 1073741824, want 260 to 16777":  {Vocab: 1 << 30},
		"Sizes.Hidden is 16777217, want 1 ": {Hidden: 1<<24 + 1},
	} {
		if _, err := Random(s, Options{}); !errors.Is(err, attn.ErrOption) ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("the error is %v, want ErrOption that says %q", err, says)
		}
	}
	if _, err := Random(Sizes{}, Options{Memory: 1000}); !errors.Is(err, attn.ErrMemory) {
		t.Errorf("with a memory of 1000 bytes the error is %v", err)
	}
	draft, err := Random(Sizes{Hidden: 64}, Options{})
	must(t, err)
	must(t, draft.Close())
	if _, err := Random(Sizes{}, Options{Draft: draft}); !errors.Is(err, ErrClosed) ||
		!strings.Contains(err.Error(), "Options.Draft") {
		t.Errorf("with a Draft that was closed the error is %v", err)
	}
	m, err := Random(Sizes{}, Options{})
	must(t, err)
	defer m.Close()
	if o := m.options; o.Workers != runtime.GOMAXPROCS(0) || o.Sequences != 16 || o.Chunk != 256 ||
		o.Context != 8192 || o.Keys != F32 || o.Guesses != 0 {
		t.Errorf("what is usual is %+v", o)
	}
	want := Sizes{Layers: 4, Hidden: 256, Heads: 4, KVHeads: 4, FFN: 704, Vocab: 512}
	if s := m.Sizes(); s != want {
		t.Errorf("the usual shape is %+v", s)
	}
}

// TestRandomTexts: answers of a random model show each token that is no byte and not special, and
// no text is encoded to these.
func TestRandomTexts(t *testing.T) {
	m, err := Random(Sizes{Layers: 1, Hidden: 8, Heads: 1, FFN: 8, Vocab: 9000}, Options{Context: 8})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	tokens, seen := m.Tokenizer(), map[string]bool{}
	for i := int32(259); i < 9000; i++ {
		text := tokens.Decode([]int32{i})
		if len(text) < 3 || strings.Trim(text, " abcdefghijklmnoprstuvwyz") != "" || seen[text] {
			t.Fatalf("token %d is %q, want a word that no other token is", i, text)
		}
		seen[text] = true
		if got, err := tokens.Encode(text); err != nil || len(got) != len(text) {
			t.Fatalf("%q has %d tokens, want its bytes: %v", text, len(got), err)
		}
	}
}

// TestNotThere: the error names the path that there is not, rather than a file in it.
func TestNotThere(t *testing.T) {
	for _, name := range []string{"x", "x.gguf"} {
		path := filepath.Join(t.TempDir(), name)
		var is *fs.PathError
		if _, err := Open(path, Options{}); !errors.As(err, &is) || is.Path != path ||
			!errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
