package linattn

import (
	"bytes"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/seed-1415985d/attn"
)

func TestMisuseOfConfig(t *testing.T) {
	for _, c := range []struct {
		config Config
		kind   error
		text   string
	}{
		{Config{KeyDim: 3, ValueDim: 3}, attn.ErrShape, "Config.Heads is 0, want 1 to 268435456"},
		{Config{Heads: 4, QueryHeads: -1, KeyDim: 3, ValueDim: 3}, attn.ErrShape, "QueryHeads is -1"},
		{Config{Heads: 4, QueryHeads: 6, KeyDim: 3, ValueDim: 3}, attn.ErrShape,
			"Config.QueryHeads is 6, want a multiple or a divisor of Heads, 4"},
		{Config{Heads: 4, KeyHeads: 8, KeyDim: 3, ValueDim: 3}, attn.ErrShape,
			"Config.KeyHeads is 8, want a divisor of Heads, 4"},
		{Config{Heads: 4, ValueDim: 3}, attn.ErrShape, "Config.KeyDim is 0"},
		{Config{Heads: 4, KeyDim: 3}, attn.ErrShape, "Config.ValueDim is 0"},
		{Config{Heads: 1 << 28, KeyDim: 1 << 28, ValueDim: 1}, attn.ErrShape, "want less"},
		{Config{Heads: 4, KeyDim: 3, ValueDim: 3, Rule: 4}, attn.ErrOption,
			"Config.Rule is Rule(4), want Linear to GatedDelta"},
		{Config{Heads: 4, KeyDim: 3, ValueDim: 3, Grouping: -1}, attn.ErrOption,
			"Config.Grouping is Grouping(-1), want Repeated or Interleaved"},
		{Config{Heads: 4, KeyDim: 3, ValueDim: 3, Rule: Delta, ChannelDecay: true}, attn.ErrOption,
			"Config.ChannelDecay is set and Rule is Delta, want Gated or GatedDelta"},
		{Config{Heads: 1, KeyDim: 1<<27 + 1, ValueDim: 3, Rule: Delta, ReadKeys: true}, attn.ErrShape,
			"Config.KeyDim is 134217729 with ReadKeys, want 1 to 134217728"},
		{Config{Heads: 4, KeyDim: 3, ValueDim: 3, Rule: Gated, ReadKeys: true}, attn.ErrOption,
			"Config.ReadKeys is set and Rule is Gated, want Delta or GatedDelta"},
		{Config{Heads: 4, KeyDim: 3, ValueDim: 3, Scale: float32(math.Inf(1))}, attn.ErrOption,
			"Config.Scale is +Inf"},
	} {
		_, err := NewState(c.config)
		mustFail(t, err, c.kind, c.text)
	}
	s := newState(t, Config{Heads: 4, KeyDim: 16, ValueDim: 3})
	if c := s.Config(); c.QueryHeads != 4 || c.KeyHeads != 4 || c.Scale != 0.25 {
		t.Errorf("the Config is %+v", c)
	}
}

// A system that refuses memory is an error; where an int has 32 bits there is no such Config.
func TestMemory(t *testing.T) {
	s, err := NewState(Config{Heads: 1 << 20, KeyDim: 1 << 10, ValueDim: 1 << 9})
	switch {
	case err == nil:
		must(t, s.Close()) // it grants what it does not have
	case !errors.Is(err, attn.ErrMemory) && !errors.Is(err, attn.ErrShape):
		t.Error(err)
	}
}

// A call that fails names what is wrong, and has changed nothing.
func TestMisuse(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	const n = 5
	c := Config{Heads: 4, QueryHeads: 2, KeyHeads: 1, KeyDim: 3, ValueDim: 7, Rule: GatedDelta}
	s, other := newState(t, c), newState(t, c)
	wide := newState(t, Config{Heads: 4, KeyDim: 4, ValueDim: 7, Rule: GatedDelta})
	gone := newState(t, c)
	must(t, gone.Close())
	x := randomTokens(t, r, c, n, 1)
	x.whole(t, s)
	x.whole(t, other)
	dst := zeros(4, n, 7)
	for i := range dst.Data {
		dst.Data[i] = 77
	}
	closed := attn.NewPool(1)
	must(t, closed.Close())
	with := func(change func(x *tokens, dst *attn.Tensor)) error {
		y, to := x, dst
		change(&y, &to)
		return y.append(nil, s, to)
	}
	several := func(lens []int, states ...*State) error {
		return AppendStates(nil, dst, x.q, x.k, x.v, x.decay, x.beta, states, lens)
	}
	ofRule := func(rule Rule) error {
		c := c
		c.Rule = rule
		return x.append(nil, newState(t, c), dst)
	}
	for _, e := range []struct {
		err, kind error
		text      string
	}{
		{with(func(x *tokens, _ *attn.Tensor) { x.q.H = 1 }), attn.ErrShape,
			"q is [1 1 5 3], want [1 2 5 3]"},
		{with(func(x *tokens, _ *attn.Tensor) { x.q.B = 2 }), attn.ErrLength, "len(q.Data) is 30"},
		{with(func(x *tokens, _ *attn.Tensor) { x.k.D = 2 }), attn.ErrShape,
			"k is [1 1 5 2], want [1 1 5 3]"},
		{with(func(x *tokens, _ *attn.Tensor) { x.v.L = 4 }), attn.ErrShape,
			"v is [1 4 4 7], want [1 4 5 7]"},
		{with(func(x *tokens, _ *attn.Tensor) { x.decay = attn.Tensor{} }), attn.ErrShape,
			"decay is not given, and Config.Rule is GatedDelta, want [1 4 5 1]"},
		{with(func(x *tokens, _ *attn.Tensor) { x.beta = attn.Tensor{} }), attn.ErrShape,
			"beta is not given, and Config.Rule is GatedDelta, want [1 4 5 1]"},
		{with(func(x *tokens, _ *attn.Tensor) { x.beta.SL = -2 }), attn.ErrStride, "beta.SL is -2"},
		{with(func(x *tokens, _ *attn.Tensor) { x.decay.D = 3 }), attn.ErrLength, "len(decay.Data)"},
		{with(func(_ *tokens, dst *attn.Tensor) { dst.H = 2 }), attn.ErrShape,
			"dst is [1 2 5 7], want [1 4 5 7]"},
		{with(func(_ *tokens, dst *attn.Tensor) { dst.SB, dst.SH, dst.SL = 1, 35, attn.Broadcast }),
			attn.ErrStride, "dst has a stride of Broadcast"},
		{with(func(x *tokens, dst *attn.Tensor) { *dst = x.v }), attn.ErrOverlap, "dst overlaps v"},
		{ofRule(Linear), attn.ErrOption,
			"decay is given, and Config.Rule is Linear, want the zero Tensor"},
		{ofRule(Gated), attn.ErrOption, "beta is given, and Config.Rule is Gated"},
		{ofRule(Delta), attn.ErrOption, "decay is given, and Config.Rule is Delta"},
		{several(nil, s, other), attn.ErrLength, "q.L is 5, want 2, the rows of all states"},
		{several([]int{5}, s, other), attn.ErrLength, "len(lens) is 1, want 2, one for each state"},
		{several([]int{2, 4}, s, other), attn.ErrLength, "lens[1] is 4, want 0 to 3"},
		{several([]int{-1, 6}, s, other), attn.ErrLength, "lens[0] is -1, want 0 to 5"},
		{several([]int{2, 3}, s, nil), attn.ErrOption, "states[1] is nil, want a state"},
		{several([]int{2, 3}, s, s), attn.ErrOption, "states[1] is states[0], want it once"},
		{several([]int{2, 3}, s, wide), attn.ErrOption, "states[1] has {Heads:4"},
		{several([]int{2, 3}, s, gone), attn.ErrClosed, "states[1] was closed"},
		{several(nil), attn.ErrLength, "q.L is 5, want 0"},
		{AppendStates(nil, dst, attn.Tensor{B: 1, H: 1, D: 1}, x.k, x.v, x.decay, x.beta, nil, nil),
			attn.ErrShape, "dst.L is 5, want 0, as there are no states"},
		{AppendStates(nil, attn.Tensor{B: -1}, attn.Tensor{}, attn.Tensor{}, attn.Tensor{},
			attn.Tensor{}, attn.Tensor{}, nil, nil), attn.ErrShape, "dst.B is -1"},
		{x.append(closed, s, dst), attn.ErrClosed, ""},
		{AppendStates(closed, attn.Tensor{}, attn.Tensor{}, attn.Tensor{}, attn.Tensor{},
			attn.Tensor{}, attn.Tensor{}, nil, nil), attn.ErrClosed, ""},
		{s.Start(zeros(4, 3, 7)), attn.ErrLength, "the state has 5 tokens, want an empty one"},
		{s.Read(zeros(4, 7, 3)), attn.ErrShape, "state is [1 4 7 3], want [1 4 3 7]"},
		{s.Read(attn.Tensor{B: 1, H: 4, L: 3, D: 7}), attn.ErrLength, "len(state.Data) is 0"},
		{s.Read(attn.Tensor{Data: make([]float32, 90), B: 1, H: 4, L: 3, D: 7, SB: 1, SH: 1, SL: 7}),
			attn.ErrStride, "state has a stride of 1"},
		{newState(t, c).Start(zeros(4, 7, 3)), attn.ErrShape, "state is [1 4 7 3]"},
		{s.Truncate(6), attn.ErrLength, "n is 6, want 0 to 5 and there is no checkpoint"},
		{s.Truncate(-1), attn.ErrLength, "n is -1"},
	} {
		mustFail(t, e.err, e.kind, e.text)
	}
	for _, e := range dst.Data {
		if e != 77 {
			t.Fatal("a call that failed has written to dst")
		}
	}
	must(t, AppendStates(nil, attn.Tensor{}, attn.Tensor{}, attn.Tensor{}, attn.Tensor{},
		attn.Tensor{}, attn.Tensor{}, nil, nil))
	sameBits(t, "after calls that failed", x.whole(t, s).Data, x.whole(t, other).Data)
}

// A closed State refuses everything that returns an error.
func TestClosed(t *testing.T) {
	c := Config{Heads: 1, KeyDim: 3, ValueDim: 7}
	s := newState(t, c)
	x := randomTokens(t, rand.New(rand.NewPCG(1, 1)), c, 5, 1)
	x.whole(t, s)
	s.Checkpoint()
	if s.MemoryUse() < 4*(3*16+16*16+3*16) {
		t.Errorf("MemoryUse is %d", s.MemoryUse())
	}
	fork := s.Fork()
	must(t, s.Close())
	_, save := s.Save(io.Discard)
	_, load := s.Load(&bytes.Buffer{})
	for _, err := range []error{s.Close(), s.Start(zeros(1, 3, 7)), s.Read(zeros(1, 3, 7)), save, load,
		s.Truncate(0), x.append(nil, s, zeros(1, 5, 7)), x.append(nil, s.Fork(), zeros(1, 5, 7))} {
		mustFail(t, err, attn.ErrClosed, "the state was closed")
	}
	s.Reset()
	s.Checkpoint()
	if s.Len() != 0 || s.MemoryUse() != 0 || s.kept != nil {
		t.Error("a closed State has something")
	}
	x.whole(t, fork) // which still has what it shared
	must(t, fork.Truncate(5))
	must(t, fork.Close())
}

// Checkpoints go with forks and files, and go by Reset and by truncations to before.
// A checkpoint of an empty state is of the beginning that Start replaces.
func TestStartDropsTheCheckpoint(t *testing.T) {
	c := Config{Heads: 1, KeyDim: 2, ValueDim: 2, Rule: Linear}
	s := newState(t, c)
	s.Checkpoint()
	must(t, s.Start(zeros(1, 2, 2)))
	x := randomTokens(t, rand.New(rand.NewPCG(4, 4)), c, 20, 1)
	must(t, x.append(nil, s, zeros(1, 20, 2)))
	mustFail(t, s.Truncate(0), attn.ErrLength, "n is 0, want 16 to 20 and there is no checkpoint")
}

// A checkpoint of an empty state is of zeros in a file, whatever was in memory before Reset.
func TestFileOfAnEmptyCheckpoint(t *testing.T) {
	c := Config{Heads: 1, KeyDim: 2, ValueDim: 2, Rule: Linear}
	s := newState(t, c)
	x := randomTokens(t, rand.New(rand.NewPCG(5, 5)), c, 20, 1)
	want := x.whole(t, s.Fork())
	must(t, x.append(nil, s, zeros(1, 20, 2)))
	s.Reset()
	s.Checkpoint()
	must(t, x.append(nil, s, zeros(1, 20, 2)))
	var file bytes.Buffer
	_, err := s.Save(&file)
	must(t, err)
	loaded := newState(t, c)
	_, err = loaded.Load(&file)
	must(t, err)
	must(t, loaded.Truncate(0))
	got := zeros(1, 20, 2)
	must(t, x.append(nil, loaded, got))
	sameBits(t, "from the beginning", got.Data, want.Data)
}

func TestTruncate(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	c := Config{Heads: 2, KeyDim: 5, ValueDim: 3, Rule: GatedDelta}
	s := newState(t, c)
	x := randomTokens(t, r, c, 70, 1)
	want, got := x.whole(t, s.Fork()), zeros(2, 70, 3)
	goOn := func(s *State, to int) {
		t.Helper()
		from := s.Len()
		y := x.slice(from, to)
		must(t, y.append(nil, s, got.Slice(from, to)))
		for h := range 2 {
			sameBits(t, "after going back", got.Data[h*210:][:to*3], want.Data[h*210:][:to*3])
		}
	}
	goOn(s, 31)
	must(t, s.Truncate(16))
	goOn(s, 20)
	must(t, s.Truncate(18))
	goOn(s, 29)
	mustFail(t, s.Truncate(15), attn.ErrLength, "n is 15, want 16 to 29 and there is no checkpoint")
	s.Checkpoint()
	goOn(s, 64)
	mustFail(t, s.Truncate(30), attn.ErrLength, "n is 30, want 64 to 64, or 29, the checkpoint")
	for _, s := range []*State{s, s.Fork()} {
		must(t, s.Truncate(29))
		goOn(s, 64)
		must(t, s.Truncate(29)) // it is still there
		must(t, s.Truncate(17))
		if s.kept != nil {
			t.Error("a checkpoint beyond the end is kept")
		}
		goOn(s, 70)
		s.Checkpoint()
		s.Reset()
		if s.Len() != 0 || s.kept != nil {
			t.Error("Reset leaves something")
		}
		s.Checkpoint() // of nothing
		goOn(s, 40)
		fork := s.Fork()
		must(t, fork.Truncate(0))
		goOn(fork, 40)
		var file bytes.Buffer
		_, err := s.Save(&file)
		must(t, err)
		must(t, s.Truncate(0))
		goOn(s, 40)
	}
}

func TestFiles(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	c := Config{Heads: 2, KeyDim: 3, ValueDim: 2, Rule: GatedDelta, ChannelDecay: true}
	s := newState(t, c)
	x := randomTokens(t, r, c, 21, 1)
	x.whole(t, s)
	s.Checkpoint()
	x.whole(t, s)
	var file bytes.Buffer
	_, err := s.Save(&file)
	must(t, err)
	saved := file.Bytes()
	other := newState(t, c)
	y := x.slice(0, 7)
	y.whole(t, other)
	for i := range saved {
		damaged := bytes.Clone(saved)
		damaged[i] ^= 0x40
		if _, err := other.Load(bytes.NewReader(damaged)); err == nil {
			t.Fatalf("byte %d is damaged, and Load has no error", i)
		} else if i == len(saved)-5 {
			mustFail(t, err, attn.ErrFormat, "the file is damaged: the checksum is ")
		}
		if i%5 == 0 {
			n, err := other.Load(bytes.NewReader(saved[:i]))
			mustFail(t, err, attn.ErrFormat, "the file ends after")
			if n != int64(i) {
				t.Errorf("Load says that it has read %d bytes of %d", n, i)
			}
		}
	}
	if other.Len() != 7 {
		t.Error("a damaged file changes something")
	}
	failing := errors.New("a reader that fails")
	_, err = other.Load(io.MultiReader(bytes.NewReader(saved[:20]), failingReader{failing}))
	mustFail(t, err, failing, "")
	for _, change := range []func(*Config){
		func(c *Config) { c.Heads = 1 }, func(c *Config) { c.QueryHeads = 4 },
		func(c *Config) { c.KeyHeads = 1 }, func(c *Config) { c.KeyDim = 4 },
		func(c *Config) { c.ValueDim = 1 }} {
		c := c
		change(&c)
		_, err := newState(t, c).Load(bytes.NewReader(saved))
		mustFail(t, err, attn.ErrShape, "the file has 2 heads, 2 of queries and 2 of keys, [3 2], want")
	}
	for _, change := range []func(*Config){
		func(c *Config) { c.Rule = Gated }, func(c *Config) { c.ChannelDecay = false },
		func(c *Config) { c.ReadKeys = true },
		func(c *Config) { c.Grouping = Interleaved }, func(c *Config) { c.Scale = 2 }} {
		c := c
		change(&c)
		_, err := newState(t, c).Load(bytes.NewReader(saved))
		mustFail(t, err, attn.ErrOption,
			"the file has GatedDelta, ChannelDecay 1, ReadKeys 0, Repeated and Scale")
	}
	for n := range len(saved) {
		for _, says := range []error{bytes.ErrTooLarge, nil} {
			want := says
			if want == nil {
				want = io.ErrShortWrite
			}
			got, err := s.Save(&limited{n, says})
			if got != int64(n) || !errors.Is(err, want) {
				t.Errorf("a writer of %d bytes that returns %v: Save returns %d and %v", n, says, got, err)
			}
		}
	}
}

type failingReader struct{ err error }

func (r failingReader) Read([]byte) (int, error) { return 0, r.err }

// limited is a writer that accepts a number of bytes and then returns an error, or none.
type limited struct {
	left int
	says error
}

func (w *limited) Write(p []byte) (int, error) {
	n := min(len(p), w.left)
	if w.left -= n; n < len(p) {
		return n, w.says
	}
	return n, nil
}
