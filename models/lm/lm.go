package lm

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/models/chat"
	"github.com/seed-1415985d/attn/models/internal/tokenize"
	"github.com/seed-1415985d/attn/models/internal/weights"
	"github.com/seed-1415985d/attn/models/tokenizer"
)

// Errors of this package, for errors.Is, in addition to those of package attn.
var (
	ErrContext  = errors.New("too many tokens for the context")
	ErrBusy     = errors.New("another call uses the session")
	ErrTemplate = errors.New("the chat template refuses the messages")
	ErrClosed   = attn.ErrClosed
)

// Format is how matrices, keys or values are stored.
type Format int

const (
	Default Format = iota // as the documentation of the field says
	F32
	F16
	BF16
	I8 // 8-bit integers with a scale for each column of a matrix, or each token and head
	I4 // 4-bit integers with a scale for each token and head; not for matrices
)

// formatNames are the names of formats in flags and errors.
var formatNames = [...]string{"default", "f32", "f16", "bf16", "i8", "i4"}

// String returns the format's name: "default", "f32", "f16", "bf16", "i8" or "i4".
func (f Format) String() string {
	if f < Default || f > I4 {
		return fmt.Sprintf("Format(%d)", int(f))
	}
	return formatNames[f]
}

// of returns the format of package attn, −1 for Default.
func (f Format) of() attn.Format {
	return [...]attn.Format{-1, attn.F32, attn.F16, attn.BF16, attn.I8, attn.I4}[f]
}

// Products says how matrices are multiplied.
type Products int

const (
	ByFile   Products = iota // Integers for GGUF files, Floats for folders
	Floats                   // in float32
	Integers                 // in 8-bit integers, and so is attention if keys and values are integers
	BFloat16                 // in bfloat16: several times as fast as Floats on CPUs with AMX
)

// String returns the name of the constant.
func (p Products) String() string {
	if p < ByFile || p > BFloat16 {
		return fmt.Sprintf("Products(%d)", int(p))
	}
	return [...]string{"ByFile", "Floats", "Integers", "BFloat16"}[p]
}

// way returns how matrices multiply.
func (p Products) way() weights.Way {
	return weights.Way{Integers: p == Integers, BFloat16: p == BFloat16}
}

// Options say how a model is opened and run. The zero value is a good choice.
type Options struct {
	Workers  int      // threads; 0: GOMAXPROCS
	Weights  Format   // of matrices; Default: as in the file, or I8 for a folder with Integers
	Products Products // how matrices are multiplied

	// Keys and Values are the formats of caches. Default is F16 for GGUF files and F32 for folders,
	// and for Values the format of Keys.
	Keys, Values Format

	Context   int   // most tokens of a sequence; 0: as many as in training, at most 8192
	Sequences int   // most sequences in a step; 0: 16. Others wait
	Memory    int64 // most bytes of keys, values and states; 0: half of the free memory
	Chunk     int   // most tokens of prompts in a step; 0: 256

	// Pack is a file of packed matrices, which makes Open fast: it is mapped, not read. Open writes it
	// if it is absent. A file of another model, or of other weights or products, is an error. Names,
	// headers and scales of the file are checked, and elements are not, as [attn.MapMatrices] says: a
	// damaged file may give other answers.
	Pack string

	Draft *Model // a smaller model with the same tokens, which guesses some; Close leaves it open
	// Guesses is how many tokens are guessed at a time: by Draft, where 0 means 4, or without a Draft
	// by the model's own layer for that (multi-token prediction), where 0 means none. That layer
	// guesses at most so many, and fewer where these take less time for each token. An answer is the
	// same with any number.
	Guesses int

	Progress func(done, of int64) // called while a model is opened, with bytes of its files

	// Cache makes a cache that keeps keys and values outside of this process; nil: pages in this
	// process.
	Cache func(CacheConfig) (Cache, error)
}

// Model is a language model. Any number of goroutines may call its methods at the same time: they
// share the steps of the model.
type Model struct {
	net         *model
	engine      *engine
	options     Options
	tokens      *tokenize.Tokenizer
	tokenizer   *tokenizer.Tokenizer
	template    *chat.Template
	ends        []int32
	stored      bool // in a GGUF file
	fingerprint fingerprint
	sizes       Sizes // of a random model
}

// Open opens a GGUF file, or the first of several of one model, or a folder in the layout of
// transformers. Of generation_config.json the tokens that end answers are obeyed; its sampling is
// not: see [Generation]. The files must not change while the model is open. The error names the
// file and what is wrong with it; it is [attn.ErrOption] for Options that do not fit, and
// [ErrClosed] for a closed Draft.
func Open(path string, o Options) (*Model, error) {
	m, err := readModel(path, o)
	if err != nil {
		return nil, err
	}
	go debug.FreeOSMemory() // the memory that files were read into
	return m.start()
}

// readModel reads a model without starting its engine.
func readModel(path string, o Options) (*Model, error) {
	stored := isFile(path)
	if err := o.complete(stored); err != nil {
		return nil, err
	}
	if stored {
		return loadFile(path, &o)
	}
	return loadFolder(path, &o)
}

// complete sets the defaults and refuses options that do not fit.
func (o *Options) complete(stored bool) error {
	guesses := 0
	if o.Draft != nil {
		if o.Draft.engine.closed() {
			return fmt.Errorf("%w: Options.Draft was closed", ErrClosed)
		}
		guesses = 4
	}
	for _, n := range []struct {
		name        string
		is          *int
		usual, most int
	}{{"Workers", &o.Workers, runtime.GOMAXPROCS(0), attn.MaxWorkers},
		{"Sequences", &o.Sequences, 16, 1 << 16}, {"Chunk", &o.Chunk, 256, 1 << 28},
		{"Context", &o.Context, 0, 1 << 28}, {"Guesses", &o.Guesses, guesses, 64}} {
		if *n.is < 0 || *n.is > n.most {
			return fmt.Errorf("%w: Options.%s is %d, want 0 to %d", attn.ErrOption, n.name, *n.is, n.most)
		}
		if *n.is == 0 {
			*n.is = n.usual
		}
	}
	if o.Memory < 0 {
		return fmt.Errorf("%w: Options.Memory is %d, want 0 or more", attn.ErrOption, o.Memory)
	}
	return o.completeFormats(stored)
}

func (o *Options) completeFormats(stored bool) error {
	for name, f := range map[string]Format{"Weights": o.Weights, "Keys": o.Keys, "Values": o.Values} {
		if f < Default || f > I4 || f == I4 && name == "Weights" {
			return fmt.Errorf("%w: Options.%s is %v, want Default, F32, F16, BF16 or I8, for keys and "+
				"values also I4", attn.ErrOption, name, f)
		}
	}
	if o.Products < ByFile || o.Products > BFloat16 {
		return fmt.Errorf("%w: Options.Products is %v, want ByFile, Floats, Integers or BFloat16",
			attn.ErrOption, o.Products)
	}
	if o.Products == ByFile {
		o.Products = Floats
		if stored && o.Weights == Default {
			o.Products = Integers
		}
	}
	if o.Keys == Default {
		o.Keys = F32
		if stored {
			o.Keys = F16
		}
	}
	if o.Values == F32 && o.Keys != F32 {
		return fmt.Errorf("%w: Options.Values is f32 and Keys %v, want values of another format, or "+
			"keys of f32", attn.ErrOption, o.Keys)
	}
	if o.Products == Integers && o.Weights == Default && !stored {
		o.Weights = I8
	}
	if o.Products == Integers && o.Weights != I8 && !(stored && o.Weights == Default) {
		return fmt.Errorf("%w: Options.Weights is %v and Products Integers, want I8, or Default",
			attn.ErrOption, o.Weights)
	}
	if o.Products == BFloat16 && o.Weights == I8 {
		return fmt.Errorf("%w: Options.Weights is i8 and Products BFloat16, want f32, f16, bf16, or "+
			"Default", attn.ErrOption)
	}
	return nil
}

// matrices names the format of matrices for files of packed ones.
func (o *Options) matrices() string {
	if o.Products == BFloat16 {
		return fmt.Sprintf("weights %v, bfloat16", o.Weights)
	}
	return fmt.Sprintf("weights %v, integers %v", o.Weights, o.Products == Integers)
}

// start starts the engine of a loaded model.
func (m *Model) start() (*Model, error) {
	o := &m.options
	s := settings{workers: o.Workers, places: o.Sequences, chunk: o.Chunk, context: o.Context,
		memory: o.Memory, keys: o.Keys.of(), integers: o.Products == Integers, guesses: o.Guesses,
		cache: o.Cache}
	if o.Values != Default && o.Values != o.Keys {
		s.values = o.Values.of()
	}
	if s.memory == 0 {
		s.memory = freeMemory() / 2
	}
	if o.Draft != nil {
		if err := sameTokens(o.Draft, m); err != nil {
			return nil, err
		}
		s.draft = o.Draft.net
	}
	var err error
	m.engine, err = newEngine(m.net, s)
	return m, err
}

// contextOf returns the most tokens of a sequence, for a model trained with texts of this length.
func (o *Options) contextOf(trained int) int {
	switch {
	case o.Context > 0:
		return o.Context
	case trained > 0:
		return min(trained, usualContext)
	}
	return usualContext
}

const usualContext = 8192

// checkTokens refuses numbers that are not tokens. of says for errors what has them.
func (m *Model) checkTokens(tokens []int32, of string) error {
	for i, token := range tokens {
		if token < 0 || int(token) >= m.net.Vocab {
			return fmt.Errorf("%w: token %d of the %s is %d, want 0 to %d", attn.ErrOption, i, of,
				token, m.net.Vocab-1)
		}
	}
	return nil
}

// Context returns the most tokens of a sequence.
func (m *Model) Context() int { return m.options.Context }

// Sizes returns the shape of the model. Seed is 0 except for a model of [Random].
func (m *Model) Sizes() Sizes {
	return Sizes{Layers: m.net.Layers, Hidden: m.net.Dim, Heads: m.net.Heads, KVHeads: m.net.KVHeads,
		FFN: m.net.FFN, Vocab: m.net.Vocab, Seed: m.sizes.Seed}
}

// String describes the model and how it runs, on one line.
func (m *Model) String() string {
	o := &m.options
	values := o.Values
	if values == Default {
		values = o.Keys
	}
	return fmt.Sprintf("%d layers of %d, %d heads, %d key/value heads of %d, %d tokens; weights %d "+
		"MiB, products %v, keys %v, values %v, context %d; kernels %s, %d workers", m.net.Layers,
		m.net.Dim, m.net.Heads, m.net.KVHeads, m.net.HeadDim, m.net.Vocab, m.net.memory>>20, o.Products,
		o.Keys, values, o.Context, attn.Implementation(), o.Workers)
}

// Tokenizer returns the model's tokenizer.
func (m *Model) Tokenizer() *tokenizer.Tokenizer { return m.tokenizer }

// Template returns the model's chat template. Its Source is "" if the model has none. Set its Now
// before the first conversation.
func (m *Model) Template() *chat.Template { return m.template }

// Prompt returns the tokens of a conversation, up to where the model's answer begins, by its chat
// template. variables are passed to the template. The error is [ErrTemplate] if the model has no
// template or the template refuses the messages.
func (m *Model) Prompt(messages []chat.Message, variables map[string]any) ([]int32, error) {
	if why := m.tokens.Template.Others; m.template.Source == "" && why != "" {
		return nil, fmt.Errorf("%w: the model has no usual chat template: %s", ErrTemplate, why)
	}
	pieces, err := m.template.Render(messages, variables)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTemplate, err)
	}
	inner := make([]tokenize.Piece, len(pieces))
	for i, p := range pieces {
		inner[i] = tokenize.Piece(p)
	}
	return m.tokens.Conversation(inner)
}

// Close ends all answers with [ErrClosed], waits for the current step and frees the model's memory.
// It closes the model's sessions, too.
func (m *Model) Close() error {
	if !m.engine.close() {
		return fmt.Errorf("%w: the model was closed", ErrClosed)
	}
	if t := m.net.table; t != nil {
		t.table.Close()
	}
	return nil
}

// ReadBytes returns how many bytes of matrices a step of one token reads.
func (m *Model) ReadBytes() int { return m.net.packed }
