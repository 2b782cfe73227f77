package attn

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seed-1415985d/attn/internal/online"
	"github.com/seed-1415985d/attn/internal/segment"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// The header of a binary form, as internal/online has it.
const (
	stateMagic  = "attnSta\x02"
	stateHeader = len(stateMagic) + 8*4
	rotatedMark = 2
)

// stateCase is a call whose keys are given to states in chunks.
type stateCase struct {
	b, h, kv, lq, lk, d, dv int
	q, k, v                 Tensor
	opt                     Options
	want, wantLSE           []float32
}

func newStateCase(t testing.TB, r *rand.Rand, b, h, kv, lq, lk, d, dv int, opt Options) *stateCase {
	c := &stateCase{b: b, h: h, kv: kv, lq: lq, lk: lk, d: d, dv: dv, opt: opt}
	c.q = tensor(r, normal, b, h, lq, d)
	c.k = tokenMajor(tensor(r, normal, b, kv, lk, d))
	c.v = tensor(r, normal, b, kv, lk, dv)
	c.want, c.wantLSE = nans(b*h*lq*dv), nans(b*h*lq)
	opt.LSE = c.wantLSE
	must(t, Attend(BHLD(c.want, b, h, lq, dv), c.q, c.k, c.v, &opt))
	return c
}

// chunk returns keys and values [lo, hi) and the options of their Update, for
// a state that begins with key origin.
func (c *stateCase) chunk(lo, hi, origin int) (k, v Tensor, opt *Options) {
	rows := func(x Tensor) Tensor {
		return x.Slice(lo, hi)
	}
	o := c.opt
	o.Offset -= origin
	if !o.Mask.none() {
		m := o.Mask
		m.Data, m.D = m.Data[lo:], hi-lo
		o.Mask = m
	}
	if !o.Bias.none() {
		m := o.Bias
		m.Data, m.D = m.Data[lo:], hi-lo
		o.Bias = m
	}
	if o.KeyLens != nil {
		o.KeyLens = make([]int, c.b)
		for b, n := range c.opt.KeyLens {
			o.KeyLens[b] = min(max(0, n-lo), hi-lo)
		}
	}
	return rows(c.k), rows(c.v), &o
}

// update gives keys [lo, hi) to a state, in chunks of the given sizes, which repeat.
func (c *stateCase) update(t testing.TB, s *State, lo, hi int, sizes ...int) {
	t.Helper()
	origin := lo - s.Keys()
	for i := 0; lo < hi; i++ {
		end := min(hi, lo+sizes[i%len(sizes)])
		k, v, opt := c.chunk(lo, end, origin)
		must(t, s.Update(c.q, k, v, opt))
		lo = end
	}
	if s.Keys() != hi-origin {
		t.Fatalf("Keys is %d, want %d", s.Keys(), hi-origin)
	}
}

func (c *stateCase) newState(t testing.TB) *State {
	t.Helper()
	s, err := NewState(StateConfig{c.b, c.h, c.lq, c.dv})
	must(t, err)
	return s
}

// finish compares the state's result with the call's, bit for bit.
func (c *stateCase) finish(t testing.TB, what string, s *State) {
	t.Helper()
	dst, lse := nans(len(c.want)), nans(len(c.wantLSE))
	must(t, s.Finish(BHLD(dst, c.b, c.h, c.lq, c.dv), lse))
	mustEqualBits(t, what+": output", dst, c.want)
	mustEqualBits(t, what+": LSE", lse, c.wantLSE)
}

// stateCases are calls with every option of Update.
func stateCases(t testing.TB) []*stateCase {
	r := random("states")
	lk := 2*Segment + 3*Block + 9
	cases := []*stateCase{
		newStateCase(t, r, 1, 1, 1, 3, lk, 8, 8, Options{}),
		newStateCase(t, r, 2, 4, 2, 5, lk, 8, 12, Options{Causal: TopLeft, Offset: lk - 5}),
		newStateCase(t, r, 1, 2, 1, 30, 5*Block+1, 8, 3, Options{Causal: TopLeft, Offset: -3}),
		newStateCase(t, r, 1, 2, 2, 4, Segment, 8, 8, Options{}),
	}
	for range 12 {
		b, kv := 1+r.IntN(2), 1+r.IntN(2)
		h, lq, n := kv*(1+r.IntN(2)), 1+r.IntN(40), 1+r.IntN(6*Block)
		opt := randomOptions(r, b, h, lq, n)
		if opt.Causal == BottomRight {
			opt.Causal, opt.Offset = TopLeft, n-lq
		}
		cases = append(cases, newStateCase(t, r, b, h, kv, lq, n, 1+r.IntN(20), 1+r.IntN(20), *opt))
	}
	return cases
}

// A state may begin with any key of a sequence, wherever the queries are: Offset, counted from
// there, may be twice as far as in a call.
func TestStateOffsets(t *testing.T) {
	r := random("state offsets")
	for _, offset := range []int{-maxLength, 1 - maxLength, maxLength - 1, maxLength} {
		for _, opt := range []Options{{}, {Causal: TopLeft}, {Slopes: []float32{1e-9, -3e-9}},
			{Window: Window{Left: maxLength - Segment + 1}},
			{Window: Window{Right: maxLength + Segment + 1}}} {
			opt.Offset = offset
			c := newStateCase(t, r, 1, 2, 1, 3, 2*Segment+9, 8, 8, opt)
			whole := c.newState(t)
			for lo := 0; lo < c.lk; lo += Segment {
				part := c.newState(t)
				c.update(t, part, lo, min(lo+Segment, c.lk), Segment)
				must(t, whole.Merge(part))
			}
			c.finish(t, fmt.Sprint("offset ", offset), whole)
		}
	}
	s, err := NewState(StateConfig{1, 1, 1, 1})
	must(t, err)
	one := zeros(1, 1, 1, 1)
	mustFail(t, "beyond", s.Update(one, one, one, &Options{Offset: 2*maxLength + 1}), ErrOption,
		"Offset is 536870913, want -536870912 to 536870912")
	mustFail(t, "below", s.Update(one, one, one, &Options{Offset: math.MinInt}), ErrOption,
		fmt.Sprintf("Offset is %d, want -536870912 to 536870912", math.MinInt))
}

// Chunks that end at multiples of Block give the bits of one call.
func TestStateChunks(t *testing.T) {
	forEach(t, func(t *testing.T) {
		for i, c := range stateCases(t) {
			s := c.newState(t)
			splits := [][]int{{Block, 3 * Block, 5 * Block}, {Segment + Block, 2 * Block}, {Block},
				{Segment}, {c.lk}}
			if tuned.ISA == tuning.Generic {
				splits = splits[:2] // slow, and split in the same ways
			}
			for _, sizes := range splits {
				s.Reset()
				c.update(t, s, 0, c.lk, sizes...)
				c.finish(t, fmt.Sprintf("case %d, chunks of %v", i, sizes), s)
			}
		}
	})
}

// States that hold whole segments merge to the bits of one call, also if they were written
// and read.
func TestStateMerge(t *testing.T) {
	r := random(t.Name())
	const quarter = Segment
	for _, opt := range []Options{{}, {Causal: TopLeft, Offset: 4*quarter - 7, Sinks: []float32{1, -1},
		Slopes: []float32{-0.01, -0.001}}} {
		c := newStateCase(t, r, 1, 2, 1, 3, 4*quarter-50, 8, 8, opt)
		whole, copied := c.newState(t), c.newState(t)
		for i := range 4 {
			part := c.newState(t)
			c.update(t, part, i*quarter, min((i+1)*quarter, c.lk), 5*Block)
			data, err := part.MarshalBinary()
			must(t, err)
			var read State
			must(t, read.UnmarshalBinary(data))
			must(t, whole.Merge(part))
			must(t, copied.Merge(&read))
		}
		if whole.Keys() != c.lk || copied.Keys() != c.lk {
			t.Errorf("Keys are %d and %d, want %d", whole.Keys(), copied.Keys(), c.lk)
		}
		c.finish(t, "merged", whole)
		c.finish(t, "copied", copied)
		c.finish(t, "finished again", whole)
	}
}

// A merged state goes on where the last state that it took stopped.
func TestStateMergeThenUpdate(t *testing.T) {
	r := random(t.Name())
	c := newStateCase(t, r, 1, 2, 2, 2, 3*Segment, 4, 4,
		Options{Causal: TopLeft, Offset: 3*Segment - 2})
	for _, keys := range []int{0, Block, Segment - Block, Segment} {
		s, part := c.newState(t), c.newState(t)
		c.update(t, s, 0, Segment, Segment)
		c.update(t, part, Segment, Segment+keys, Segment)
		must(t, s.Merge(part))
		k, v, opt := c.chunk(Segment+keys, c.lk, 0)
		must(t, s.Update(c.q, k, v, opt))
		c.finish(t, fmt.Sprintf("part of %d keys", keys), s)
	}
}

// States of other chunks are right, but rounded otherwise.
func TestStateRaggedChunks(t *testing.T) {
	r := random(t.Name())
	c := newStateCase(t, r, 1, 2, 1, 3, 2*Segment+100, 8, 8, Options{
		Causal: TopLeft, Offset: 2 * Segment, Slopes: []float32{-0.1,
			-0.01}, Window: Window{Left: Segment + 1}})
	near := func(what string, s *State) {
		t.Helper()
		dst, lse := nans(len(c.want)), nans(len(c.wantLSE))
		must(t, s.Finish(BHLD(dst, c.b, c.h, c.lq, c.dv), lse))
		for i, e := range append(dst, lse...) {
			if want := append(c.want, c.wantLSE...)[i]; !(math.Abs(float64(e-want)) < 1e-5) {
				t.Fatalf("%s: element %d is %v, want %v", what, i, e, want)
			}
		}
	}
	for _, sizes := range [][]int{{1, 7, 100}, {Segment - 1}, {Segment + 1}, {333}} {
		s := c.newState(t)
		c.update(t, s, 0, c.lk, sizes...)
		near(fmt.Sprint(sizes), s)
	}
	s, part := c.newState(t), c.newState(t)
	c.update(t, s, 0, 700, 700)
	c.update(t, part, 700, 1900, 500)
	must(t, s.Merge(part))
	k, v, opt := c.chunk(1900, c.lk, 0)
	must(t, s.Update(c.q, k, v, opt))
	near("merged", s)
}

// A state without keys, or with none that a row sees, gives zeros.
func TestStateWithoutKeys(t *testing.T) {
	s, err := NewState(StateConfig{1, 2, 2, 3})
	must(t, err)
	check := func(what string) {
		t.Helper()
		dst, lse := nans(12), nans(4)
		must(t, s.Finish(BHLD(dst, 1, 2, 2, 3), lse))
		mustEqualBits(t, what+": output", dst, make([]float32, 12))
		mustEqualBits(t, what+": LSE", lse, []float32{negInf, negInf, negInf, negInf})
	}
	check("new")
	q := BHLD(make([]float32, 4*5), 1, 2, 2, 5)
	must(t, s.Update(q, Tensor{B: 1, H: 2, D: 5}, Tensor{B: 1, H: 2, D: 3}, nil))
	check("no keys")
	k, v := BHLD(nans(2*70*5), 1, 2, 70, 5), BHLD(nans(2*70*3), 1, 2, 70, 3)
	must(t, s.Update(q, k, v, &Options{Causal: TopLeft, Offset: -100, Sinks: []float32{1, 2}}))
	check("none visible")
	if s.Keys() != 70 {
		t.Errorf("Keys is %d, want 70", s.Keys())
	}

	empty, err := NewState(StateConfig{0, 2, 2, 3})
	must(t, err)
	must(t, empty.Update(Tensor{H: 2, L: 2, D: 5}, Tensor{H: 1, L: 7, D: 5}, Tensor{H: 1, L: 7, D: 3},
		nil))
	must(t, empty.Merge(empty))
	must(t, empty.Finish(Tensor{H: 2, L: 2, D: 3}, nil))
	data, err := empty.MarshalBinary()
	must(t, err)
	must(t, new(State).UnmarshalBinary(data))
}

// A state may be merged with itself: its keys count twice.
func TestStateMergeWithItself(t *testing.T) {
	r := random(t.Name())
	c := newStateCase(t, r, 1, 1, 1, 2, 2*Segment, 4, 4, Options{})
	copy(c.k.Data[Segment*4:], c.k.Data[:Segment*4])
	copy(c.v.Data[Segment*4:], c.v.Data[:Segment*4])
	must(t, Attend(BHLD(c.want, 1, 1, 2, 4), c.q, c.k, c.v, &Options{LSE: c.wantLSE}))
	s := c.newState(t)
	c.update(t, s, 0, Segment, Segment)
	must(t, s.Merge(s))
	c.finish(t, "doubled", s)
}

func TestStateErrors(t *testing.T) {
	for _, n := range [][4]int{{-1, 1, 1, 1}, {1, -1, 1, 1}, {1, 1, -1, 1}, {1, 1, 1, 0},
		{maxLength + 1, 1, 1, 1},
		{maxLength, maxLength, 1, 1}, {math.MaxInt, math.MaxInt, math.MaxInt, math.MaxInt}} {
		_, err := NewState(StateConfig{n[0], n[1], n[2], n[3]})
		mustFail(t, fmt.Sprint(n), err, ErrShape)
	}
	s, err := NewState(StateConfig{1, 2, 3, 4})
	must(t, err)
	x := zeros
	weights := x(1, 2, 3, 5)
	good := x(1, 2, 3, 4)
	must(t, s.Update(good, x(1, 1, 5, 4), x(1, 1, 5, 4), &Options{Sinks: []float32{1, nan32()}}))
	must(t, s.Update(good, x(1, 1, 5, 4), x(1, 1, 5, 4), &Options{Sinks: []float32{1, nan32()}}))
	update := func(q, k, v Tensor, opt *Options) error { return s.Update(q, k, v, opt) }
	other, err := NewState(StateConfig{1, 2, 3, 4})
	must(t, err)
	must(t, other.Update(good, x(1, 1, 5, 4), x(1, 1, 5, 4), &Options{Sinks: []float32{1, 1}}))
	small, err := NewState(StateConfig{1, 2, 2, 4})
	must(t, err)
	full, err := NewState(StateConfig{1, 2, 3, 4})
	must(t, err)
	full.keys = maxLength
	lse := make([]float32, 6)
	shared := BHLD(append(lse, make([]float32, 24)...)[:24], 1, 2, 3, 4)
	for _, e := range []struct {
		name string
		err  error
		kind error
		text string
	}{
		{"q.B", update(x(2, 2, 3, 4), x(2, 1, 5, 4), x(2, 1, 5, 4), nil), ErrShape,
			"q is [2 2 3 …], want the state's [1 2 3 …]"},
		{"q.H", update(x(1, 1, 3, 4), x(1, 1, 5, 4), x(1, 1, 5, 4), nil), ErrShape,
			"q is [1 1 3 …], want the state's [1 2 3 …]"},
		{"q.L", update(x(1, 2, 2, 4), x(1, 1, 5, 4), x(1, 1, 5, 4), nil), ErrShape,
			"q is [1 2 2 …], want the state's [1 2 3 …]"},
		{"q.D", update(x(1, 2, 3, 5), x(1, 1, 5, 4), x(1, 1, 5, 4), nil), ErrShape,
			"q.D is 5, want the keys' 4"},
		{"v.L", update(good, x(1, 1, 5, 4), x(1, 1, 4, 4), nil), ErrShape,
			"v is [1 1 4 …], want k's [1 1 5 …]"},
		{"v.D", update(good, x(1, 1, 5, 4), x(1, 1, 5, 3), nil), ErrShape,
			"v.D is 3, want the state's 4"},
		{"mask", update(good, x(1, 1, 5, 4), x(1, 1, 5, 4), &Options{Bias: good}), ErrShape,
			"Bias is [1 2 3 4], want [1, 2 or 1, 3 or 1, 5]; a stride of attn.Broadcast repeats " +
				"elements, too"},
		{"key lengths", update(good, x(1, 1, 5, 4), x(1, 1, 5, 4), &Options{KeyLens: []int{6}}),
			ErrLength, "KeyLens[0] is 6, want 0 to 5"},
		{"too many keys", full.Update(good, x(1, 1, 5, 4), x(1, 1, 5, 4), nil), ErrLength,
			"k.L is 5 after 268435456 keys, want at most 268435456 in all"},
		{"bottom right", update(good, x(1, 1, 5, 4), x(1, 1, 5, 4), &Options{Causal: BottomRight}),
			ErrOption, "Causal is BottomRight, want TopLeft with Offset: the number of keys is not known " +
				"yet"},
		{"LSE", update(good, x(1, 1, 5, 4), x(1, 1, 5, 4), &Options{LSE: lse}), ErrOption,
			"LSE is set in an Update, want nil: Finish returns it"},
		{"sinks", update(good, x(1, 1, 5, 4), x(1, 1, 5, 4), &Options{Sinks: []float32{1, 2}}), ErrOption,
			"Sinks[1] is 2, want NaN as before"},
		{"weights", update(good, x(1, 1, 5, 4), x(1, 1, 5, 4), &Options{Weights: weights}),
			ErrUnsupported, "Weights are set in an Update, want nil: they need the maximum over all keys"},
		{"merge shape", s.Merge(small), ErrShape, "t is [1 2 2 4], want [1 2 3 4]"},
		{"merge sinks", s.Merge(other), ErrOption, "t's sink[1] is 1, want NaN as before"},
		{"merge keys", s.Merge(full), ErrLength, "t has 268435456 keys, want at most 268435446 after 10"},
		{"finish shape", s.Finish(x(1, 2, 3, 5), nil), ErrShape, "dst is [1 2 3 5], want [1 2 3 4]"},
		{"finish LSE", s.Finish(good, lse[:5]), ErrLength, "len(LSE) is 5, want B×H×Lq = 1×2×3"},
		{"finish stride", s.Finish(repeated(good.Data, 1, 2, 3, 4), nil),
			ErrStride, "dst has a stride of Broadcast over 2 elements, want at least 4 so that no two " +
				"outputs coincide"},
		{"finish overlap", s.Finish(shared, shared.Data[:6]), ErrOverlap,
			"dst overlaps LSE, want separate memory"},
		{"zero state", new(State).Update(good, x(1, 1, 5, 4), x(1, 1, 5, 4), nil), ErrShape,
			"q is [1 2 3 …], want the state's [0 0 0 …]"},
	} {
		mustFail(t, e.name, e.err, e.kind, e.text)
	}
	out := nans(24 + 5)
	mustFail(t, "finish", s.Finish(BHLD(out[:24], 1, 2, 3, 4), out[24:]), ErrLength)
	for i, e := range out {
		if e == e {
			t.Errorf("element %d was written by a failed Finish", i)
		}
	}
	if s.Keys() != 10 {
		t.Errorf("Keys is %d after failed calls, want 10", s.Keys())
	}
}

// stateBytes is the binary form of a state with two nodes and sinks.
func stateBytes(t testing.TB) []byte {
	c := newStateCase(t, random("binary form"), 1, 2, 1, 1, Segment+5, 3, 2,
		Options{Sinks: []float32{1, nan32()}})
	s := c.newState(t)
	c.update(t, s, 0, c.lk, Segment)
	data, err := s.MarshalBinary()
	must(t, err)
	return data
}

// The form is fixed: other versions and machines read it.
func TestStateBinaryForm(t *testing.T) {
	s, err := NewState(StateConfig{1, 1, 1, 2})
	must(t, err)
	q := BHLD([]float32{0}, 1, 1, 1, 1)
	v := BHLD([]float32{0, 2}, 1, 1, 1, 2)
	must(t, s.Update(q, q, v, &Options{Sinks: []float32{0.5}}))
	s.tree.Rows[0].O[0] = float32(math.Copysign(0, -1)) // is written as +0
	want := append([]byte("attnSta"), 2)
	for _, n := range []uint32{1, 1, 1, 2, 1, math.Float32bits(1), 1, 1, math.Float32bits(0.5), 1, 1,
		0, math.Float32bits(1), 0, math.Float32bits(2)} {
		want = binary.LittleEndian.AppendUint32(want, n)
	}
	got, err := s.MarshalBinary()
	must(t, err)
	if string(got) != string(want) {
		t.Errorf("binary form is\n%x, want\n%x", got, want)
	}
	prefixed, err := s.AppendBinary([]byte("x"))
	must(t, err)
	if string(prefixed) != "x"+string(want) {
		t.Errorf("AppendBinary returns %x", prefixed)
	}
}

// Every prefix, every extension and every change of the header is an error or a
// valid state, never a panic.
func TestStateHostileBytes(t *testing.T) {
	good := stateBytes(t)
	var s State
	for n := range good {
		mustFail(t, fmt.Sprintf("first %d bytes", n), s.UnmarshalBinary(good[:n]), ErrFormat)
	}
	for n := 1; n < 9; n++ {
		mustFail(t, fmt.Sprintf("%d more bytes", n),
			s.UnmarshalBinary(append(good[:len(good):len(good)], make([]byte, n)...)), ErrFormat)
	}
	if s.b != 0 || s.tree.Rows != nil {
		t.Error("a failed call changed the state")
	}
	values := []uint32{0, 1, 2, 3, 255, 1 << 15, 1 << 16, maxLength, maxLength + 1, 1 << 30, 1 << 31,
		math.MaxUint32}
	r := random(t.Name())
	for range 20000 {
		data := append([]byte(nil), good...)
		for range 1 + r.IntN(4) {
			at := len(stateMagic) + 4*r.IntN(8)
			binary.LittleEndian.PutUint32(data[at:], values[r.IntN(len(values))])
		}
		hostile(t, data[:len(data)-r.IntN(2)*r.IntN(len(data))])
	}
	// for Segment + 5 of two nodes
	for _, keys := range []uint32{0, 1, Segment, Segment + 6, 2*Segment + 1} {
		data := append([]byte(nil), good...)
		binary.LittleEndian.PutUint32(data[len(stateMagic)+4*4:], keys)
		mustFail(t, fmt.Sprintf("%d keys", keys), s.UnmarshalBinary(data), ErrFormat)
	}
	for i := range len(stateMagic) {
		data := append([]byte(nil), good...)
		data[i]++
		mustFail(t, fmt.Sprintf("byte %d", i), s.UnmarshalBinary(data), ErrFormat)
	}
}

// Numbers that no keys leave behind are refused.
func TestStateOfNoKeys(t *testing.T) {
	s, err := NewState(StateConfig{1, 1, 2, 2})
	must(t, err)
	// The second query sees nothing.
	q, x := zeros(1, 1, 2, 2), tensor(random(t.Name()), normal, 1, 1, 3, 2)
	must(t, s.Update(q, x, x, &Options{Causal: TopLeft, Offset: -1, Sinks: []float32{1}}))
	empty, err := NewState(StateConfig{1, 1, 2, 2})
	must(t, err)
	good, err := s.MarshalBinary()
	must(t, err)
	none, err := empty.MarshalBinary()
	must(t, err)
	negativeZero, one := float32(math.Copysign(0, -1)), float32(1)
	const unit, sink, m, l, o = 28, stateHeader, stateHeader + 12, stateHeader + 20, stateHeader + 28
	for _, c := range []struct {
		data []byte
		at   int
		to   float32
		text string
	}{
		{none, unit, negativeZero, "the unit of 0 nodes is -0, want a positive number, or 0 for none"},
		{good, sink, negativeZero, "the sink of head 0 is -0, want 0"},
		{good, m + 4, negativeZero, "node 0: row 1 has a -0, want 0"},
		{good, l, negativeZero, "node 0: row 0 has a -0, want 0"},
		{good, o + 12, negativeZero, "node 0: row 1 has a -0, want 0"},
		{good, l, one, "node 0: row 0 has seen nothing and its sum is 1, want 0 and outputs of 0"},
		{good, o + 4, one, "node 0: row 0 has seen nothing and its sum is 0, want 0 and outputs of 0"},
		{good, l + 4, 0.5, "node 0: the sum of row 1 is 0.5, want at least 1"},
		{good, l + 4, 0, "node 0: the sum of row 1 is 0, want at least 1"},
		{good, l + 4, -2, "node 0: the sum of row 1 is -2, want at least 1"},
		{good, l, nan32(), ""},
		{good, l + 4, 2, ""},
		{good, o + 8, -1, ""},
		{good, m + 4, 0, ""},
	} {
		data := slices.Clone(c.data)
		binary.LittleEndian.PutUint32(data[c.at:], math.Float32bits(c.to))
		err := new(State).UnmarshalBinary(data)
		if c.text == "" {
			must(t, err)
			continue
		}
		mustFail(t, fmt.Sprintf("%v at %d", c.to, c.at), err, ErrFormat, c.text)
	}
}

// hostile reads data and, if it is accepted, makes sure that the state can be
// used and written again.
func hostile(t testing.TB, data []byte) {
	var s State
	if err := s.UnmarshalBinary(data); err != nil {
		mustFail(t, "hostile data", err, ErrFormat)
		return
	}
	again, err := s.MarshalBinary()
	must(t, err)
	if string(again) != string(data) {
		t.Fatalf("%x\nis read, and written as\n%x", data, again)
	}
	rows := s.b * s.h * s.l
	if rows > 1000 || s.d > 1000 {
		return
	}
	must(t, s.Finish(BHLD(make([]float32, rows*s.d), s.b, s.h, s.l, s.d), make([]float32, rows)))
	if s.keys < maxLength && rows > 0 {
		k, v := BHLD(make([]float32, s.b*s.h), s.b, s.h, 1, 1), BHLD(make([]float32, s.b*s.h*s.d), s.b,
			s.h, 1, s.d)
		must(t, s.Update(BHLD(make([]float32, rows), s.b, s.h, s.l, 1), k, v, nil))
	}
}

// The zero State has no binary form, but can read one.
func TestStateZeroHasNoBinaryForm(t *testing.T) {
	var s State
	if data, err := s.MarshalBinary(); data != nil || !errors.Is(err, ErrShape) {
		t.Errorf("MarshalBinary of the zero State: %d bytes, error %v, want none and ErrShape", len(data),
			err)
	}
	must(t, s.UnmarshalBinary(stateBytes(t)))
	if data, err := s.MarshalBinary(); err != nil || !bytes.Equal(data, stateBytes(t)) {
		t.Errorf("the form that it took comes out as %d other bytes, error %v", len(data), err)
	}
}

// A call or state without elements is valid, however large its other dimensions.
func TestNoElements(t *testing.T) {
	const most = maxLength
	pool := NewPool(2)
	defer pool.Close()
	for _, n := range [][4]int{{most, most, 0, 1}, {most, most, 0, most}, {most, 0, most, most},
		{0, most, most, most}} {
		what := fmt.Sprint(n)
		view := func(l, d int) Tensor { return repeated([]float32{1}, n[0], n[1], l, d) }
		keys := 0
		if n[3] == 1 {
			keys = 5 // without a query
		}
		dst, q, k, v := view(n[2], n[3]), view(n[2], 1), view(keys, 1), view(keys, n[3])
		pairs := view(n[2], max(1, keys))
		opt := &Options{Bias: pairs, Weights: pairs, LSE: []float32{}}
		if keys == 0 {
			opt = nil
		}
		must(t, Attend(dst, q, k, v, opt))
		must(t, pool.Attend(dst, q, k, v, opt))
		must(t, MatMul(view(n[2], 1), q, Tensor{Data: []float32{1}, B: 1, H: 1, L: 1, D: 1}))

		s, err := NewState(StateConfig{n[0], n[1], n[2], n[3]})
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		must(t, s.Update(q, k, v, nil))
		must(t, s.Merge(s))
		must(t, s.Finish(dst, nil))
		data, err := s.MarshalBinary()
		must(t, err)
		var again State
		must(t, again.UnmarshalBinary(data))
		must(t, again.Finish(dst, []float32{}))
		if again.Keys() != 2*keys {
			t.Errorf("%s: the state has %d keys, want %d", what, again.Keys(), 2*keys)
		}
	}
}

// A state whose binary form is longer than a slice can be says so. (It has no memory here, and that
// is not looked at.)
func TestStateTooLargeForBinaryForm(t *testing.T) {
	for _, s := range []*State{
		{stateShape: stateShape{b: maxLength, h: maxLength, l: 1, d: 2},
			tree: online.Tree{Rows: make([]online.Node, 1)}},
		{stateShape: stateShape{b: 1 << 12, h: 1 << 14, l: 1 << 16, d: 2},
			tree: online.Tree{Rows: make([]online.Node, segment.Most)}},
	} {
		_, err := s.MarshalBinary()
		mustFail(t, fmt.Sprint(s.b, s.h, s.l, s.d), err, ErrUnsupported)
	}
}

func FuzzStateUnmarshal(f *testing.F) {
	good := stateBytes(f)
	f.Add(good)
	signalling := slices.Clone(good)
	binary.LittleEndian.PutUint32(signalling[len(good)-4:], 0x7fa0_0001)
	f.Add(signalling)
	empty, _ := NewState(StateConfig{0, 0, 0, 1})
	data, _ := empty.MarshalBinary()
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) { hostile(t, data) })
}

// statePlay is a sequence of operations on a state which has seen the first
// keys of a call.
type statePlay struct {
	*testing.T
	*trial
	call  *stateCase
	state *State
}

// FuzzState: after any operations, a state's result has the bits of one
// call over its keys, and operations that fail change nothing.
func FuzzState(f *testing.F) {
	fuzzTrials(f, func(t *testing.T, c *trial) {
		c.Kind = randomKind(c.Rand)
		p := &statePlay{T: t, trial: c, call: drawStateCase(c)}
		p.state = p.newState()
		for range 1 + c.IntN(6) {
			p.step()
		}
		p.finish()
	})
}

// drawStateCase draws a call. Some have more keys than a segment.
func drawStateCase(c *trial) *stateCase {
	s := &stateCase{b: 1 + c.IntN(2), kv: 1 + c.IntN(2), lq: 1 + c.IntN(4), lk: 1 + c.IntN(10),
		d: 1 + c.IntN(6), dv: 1 + c.IntN(18)}
	switch draw := c.IntN(32); {
	case draw == 0: // several segments
		s.lk = Segment + c.IntN(2*Segment)
		s.b, s.kv, s.lq = 1, 1, min(s.lq, 2)
	case draw < 8: // several blocks
		s.lk += c.IntN(3 * Block)
	}
	s.h = s.kv * (1 + c.IntN(2))
	s.q, s.k, s.v = drawTensor(c, s.b, s.h, s.lq, s.d), drawTensor(c, s.b, s.kv, s.lk,
		s.d), drawTensor(c, s.b, s.kv,
		s.lk, s.dv)
	s.opt = *randomOptions(c.Rand, s.b, s.h, s.lq, s.lk)
	if s.opt.Causal == BottomRight { // which a state does not know
		s.opt.Causal, s.opt.Offset = TopLeft, s.lk-s.lq
	}
	return s
}

// tensor returns a contiguous tensor.
func drawTensor(c *trial, b, h, l, d int) Tensor {
	x := make([]float32, b*h*l*d)
	c.Fill(c.Kind, x)
	return BHLD(x, b, h, l, d)
}

func (p *statePlay) newState() *State { return p.call.newState(p) }

func (p *statePlay) step() {
	switch p.IntN(10) {
	case 0:
		p.want(p.state.Merge(p.newState()), nil) // which is empty
	case 1:
		p.copy()
	case 2:
		p.finish()
	case 3:
		p.updateWrong()
	case 4:
		p.mergeWrong()
	case 5:
		if p.IntN(3) == 0 {
			p.state.Reset()
		}
	case 6, 7:
		p.merge()
	default:
		p.update(p.state, p.chunk(p.state.Keys()), 0)
	}
}

// chunk returns where a chunk that begins with key lo may end: at the end of a
// block or of all keys.
func (p *statePlay) chunk(lo int) (hi int) {
	blocks := 1 + p.IntN(4)
	if p.IntN(3) == 0 {
		blocks += Segment / Block
	}
	return min(p.call.lk, lo+blocks*Block)
}

// update gives a state that begins with key origin the keys up to hi. Once all
// keys were seen, which may be within a block, nothing is left to give.
func (p *statePlay) update(s *State, hi, origin int) {
	k, v, opt := p.call.chunk(origin+s.Keys(), hi, origin)
	p.want(s.Update(p.call.q, k, v, opt), nil)
}

// merge gives the next keys to another state and merges that. It does so only after whole
// segments, where the bits are the same.
func (p *statePlay) merge() {
	origin := p.state.Keys()
	if origin%Segment != 0 {
		return
	}
	part := p.newState()
	for range 1 + p.IntN(3) {
		p.update(part, p.chunk(origin+part.Keys()), origin)
	}
	p.want(p.state.Merge(part), nil)
}

// copy goes on with a copy of the state that was written and read.
func (p *statePlay) copy() {
	data, err := p.state.MarshalBinary()
	p.want(err, nil)
	other := p.newState()
	if p.IntN(2) == 0 {
		other = p.state
	}
	p.want(other.UnmarshalBinary(data), nil)
	p.state = other
	if p.IntN(2) == 0 {
		data = data[:p.IntN(len(data))]
		p.want(p.state.UnmarshalBinary(data), ErrFormat)
	}
}

func (p *statePlay) updateWrong() {
	c := p.call
	lo := p.state.Keys()
	k, v, opt := c.chunk(lo, p.chunk(lo), 0)
	q, wanted := c.q, ErrShape
	switch p.IntN(6) {
	case 0:
		opt.Causal, opt.Offset, wanted = BottomRight, 0, ErrOption
	case 1:
		opt.LSE, wanted = make([]float32, c.b*c.h*c.lq), ErrOption
	case 2:
		if k.L == 0 {
			return // weights of no keys are no view
		}
		weights := zeros(c.b, c.h, c.lq, k.L)
		opt.Weights, wanted = weights, ErrUnsupported
	case 3:
		q.L, opt = q.L-1, nil
	case 4:
		v.D, opt = v.D-1, nil
	case 5:
		q.Data, wanted = q.Data[1:], ErrLength
	}
	p.want(p.state.Update(q, k, v, opt), wanted)
}

func (p *statePlay) mergeWrong() {
	c := p.call
	other, err := NewState(StateConfig{c.b, c.h, c.lq, c.dv + 1})
	p.want(err, nil)
	p.want(p.state.Merge(other), ErrShape)
}

func (p *statePlay) want(err, kind error) {
	if !errors.Is(err, kind) {
		p.Fatalf("after %d keys: error is %v, want %v", p.state.Keys(), err, kind)
	}
}

// finish compares the state with one call over the keys that it has seen.
func (p *statePlay) finish() {
	c := p.call
	k, v, opt := c.chunk(0, p.state.Keys(), 0)
	if k.L == 0 {
		opt.Sinks = nil // which come with the first keys
	}
	c.want, c.wantLSE = nans(c.b*c.h*c.lq*c.dv), nans(c.b*c.h*c.lq)
	opt.LSE = c.wantLSE
	p.want(Attend(BHLD(c.want, c.b, c.h, c.lq, c.dv), c.q, k, v, opt), nil)
	c.finish(p, "state", p.state)
}

// Rows beyond QueryLens are rows that a mask hides the chunk from, however the chunks lie in
// segments.
func TestUpdatesOfFewerRows(t *testing.T) {
	r := random("updates of fewer rows")
	n := 120
	if few() {
		n = 30
	}
	for i := range n {
		b, h, l, d := 1+r.IntN(2), 2, 1+r.IntN(6), 1+r.IntN(20)
		var states [2]*State
		for j := range states {
			var err error
			states[j], err = NewState(StateConfig{b, h, l, d})
			must(t, err)
		}
		q, integers := tensor(r, normal, b, h, l, d), i%2 == 0
		for range 1 + r.IntN(6) {
			keys := Block * (1 + r.IntN(2*Segment/Block))
			k, v := tensor(r, normal, b, 1, keys, d), tensor(r, normal, b, 1, keys, d)
			lens := lengths(r, b, l)
			mask := BHLD(make([]bool, b*l*keys), b, 1, l, keys)
			for entry := range b {
				for row := range lens[entry] {
					for j := range keys {
						mask.Row(entry, 0, row)[j] = true
					}
				}
			}
			must(t, states[0].Update(q, k, v, &Options{QueryLens: lens, Integers: integers}))
			must(t, threeWorkers().Update(states[1], q, k, v, &Options{Mask: mask, Integers: integers}))
		}
		got, err := states[0].MarshalBinary()
		must(t, err)
		want, err := states[1].MarshalBinary()
		must(t, err)
		if !bytes.Equal(got, want) {
			t.Fatalf("%d×%d×%d rows of %d, integers %t: the states of %d keys differ", b, h, l, d, integers,
				states[0].Keys())
		}
	}
}

// travelPlay is calls on some states of one shape: any that succeed, with any options, queries and
// units.
type travelPlay struct {
	*testing.T
	*trial
	b, h, l, d int
	sinks      []float32
	states     [3]*State
}

// FuzzStateTravels: whatever calls have made of a State, its binary form is read, and gives an
// equal one.
func FuzzStateTravels(f *testing.F) {
	fuzzPlays(f, func(t *testing.T, c *trial) {
		p := &travelPlay{T: t, trial: c, b: 1 + c.IntN(2), h: 2 * (1 + c.IntN(2)), l: 1 + c.IntN(3),
			d: 1 + c.IntN(9)}
		if c.IntN(16) == 0 {
			*[]*int{&p.b, &p.h, &p.l}[c.IntN(3)] = 0
		}
		p.sinks = make([]float32, p.h)
		special.Fill(c.Rand, p.sinks)
		for i := range p.states {
			p.states[i] = p.newState()
		}
		for range 1 + c.IntN(8) {
			i := c.IntN(len(p.states))
			p.step(i)
			p.states[i] = p.travel(p.states[i])
		}
	})
}

func (p *travelPlay) newState() *State {
	s, err := NewState(StateConfig{p.b, p.h, p.l, p.d})
	must(p, err)
	return s
}

// step makes a call that may fail.
func (p *travelPlay) step(i int) {
	s := p.states[i]
	switch p.IntN(8) {
	case 0:
		s.Reset()
	case 1, 2:
		must(p, s.Merge(p.states[p.IntN(len(p.states))])) // which may be itself
	case 3:
		p.updateSequence(s)
	default:
		n := p.keys()
		d, kv := 1+p.IntN(9), p.kvHeads()
		q, k, v := p.tensor(p.b, p.h, p.l, d), p.tensor(p.b, kv, n, d), p.tensor(p.b, kv, n, p.d)
		p.mayUpdate(threeWorkers().Update(s, q, k, v, p.options(n)))
	}
}

// keys is how many keys a call has: none, some, or more than a segment.
func (p *travelPlay) keys() int {
	switch p.IntN(16) {
	case 0:
		return 0
	case 1:
		return Segment + p.IntN(Segment)
	}
	return 1 + p.IntN(2*Block)
}

func (p *travelPlay) kvHeads() int { return min(p.h, 1+p.IntN(2)) }

// tensor has elements of one of several kinds and sizes.
func (p *travelPlay) tensor(b, h, l, d int) Tensor {
	x := zeros(b, h, l, d)
	distribution(p.IntN(int(distributions))).Fill(p.Rand, x.Data)
	scaleBy(x.Data, float32(math.Ldexp(1, p.IntN(200)-100)))
	return x
}

func (p *travelPlay) options(n int) *Options {
	o := &Options{}
	if p.IntN(2) == 0 {
		o = randomOptions(p.Rand, p.b, p.h, p.l, n)
	}
	if o.Sinks = nil; p.IntN(3) == 0 {
		o.Sinks = p.sinks
	}
	o.Integers = p.IntN(3) > 0
	if o.BFloat16 = !o.Integers && p.IntN(2) == 0; p.IntN(2) == 0 {
		o.Scale = float32(math.Ldexp(1, p.IntN(275)-149))
	}
	return o
}

// updateSequence is an Update over a store, of which values may be rotated.
func (p *travelPlay) updateSequence(s *State) {
	c := StoreConfig{KVHeads: max(1, p.kvHeads()), HeadDim: p.d + p.IntN(9), ValueDim: p.d,
		Pages: 2*Segment/Block + 2, Format: I8, ValuesInKeys: p.IntN(3) > 0}
	n := p.keys()
	seq := sequenceOf(p.T, c)
	k, v := tensor(p.Rand, normal, 1, c.KVHeads, n, c.HeadDim), Tensor{}
	if !c.ValuesInKeys {
		v = tensor(p.Rand, normal, 1, c.KVHeads, n, p.d)
	}
	must(p, seq.Append(k, v))
	o := p.options(n)
	o.KeyLens = nil
	p.mayUpdate(s.UpdateSequence(p.tensor(p.b, p.h, p.l, c.HeadDim), seq, o))
	must(p, seq.store.Close())
}

// mayUpdate: an Update fails for its options only, or for a sequence where there are several
// entries.
func (p *travelPlay) mayUpdate(err error) {
	if err != nil {
		p.Logf("refused: %v", err)
	}
}

// travel writes and reads a state, and compares.
func (p *travelPlay) travel(s *State) *State {
	data, err := s.MarshalBinary()
	must(p, err)
	var other State
	must(p, other.UnmarshalBinary(data))
	again, err := other.MarshalBinary()
	must(p, err)
	if string(again) != string(data) {
		p.Fatalf("after %d keys: the form of what was read is\n%x, want\n%x", s.Keys(), again, data)
	}
	rows := p.b * p.h * p.l
	var dst, lse [2][]float32
	for i, s := range []*State{s, &other} {
		dst[i], lse[i] = nans(rows*p.d), nans(rows)
		must(p, s.Finish(BHLD(dst[i], p.b, p.h, p.l, p.d), lse[i]))
	}
	mustEqualBits(p, "outputs", dst[1], dst[0])
	mustEqualBits(p, "log-sum-exps", lse[1], lse[0])
	if p.IntN(2) == 0 {
		return s
	}
	return &other
}

// A binary State keeps units within float32, the smallest of which is the unit of the smallest
// query, and others are refused.
func TestStateUnitsTravel(t *testing.T) {
	s, err := NewState(StateConfig{1, 1, 1, 1})
	must(t, err)
	q, x := BHLD([]float32{math.SmallestNonzeroFloat32}, 1, 1, 1, 1), zeros(1, 1, 1, 1)
	must(t, s.Update(q, x, x, &Options{Integers: true, Scale: 0.25}))
	data, err := s.MarshalBinary()
	must(t, err)
	unit := data[stateHeader:]
	if got := binary.LittleEndian.Uint32(unit); got != 1 {
		t.Errorf("the unit is %x, want 1, the smallest number", got)
	}
	for e, want := range map[float32]error{math.SmallestNonzeroFloat32: nil, math.MaxFloat32: nil,
		0: ErrFormat, -1: ErrFormat, nan32(): ErrFormat, float32(math.Inf(1)): ErrFormat} {
		binary.LittleEndian.PutUint32(unit, math.Float32bits(e))
		if err := new(State).UnmarshalBinary(data); !errors.Is(err, want) {
			t.Errorf("a unit of %v: error is %v, want %v", e, err, want)
		}
	}
}

// Maxima that overflow in natural units keep what their rows have seen.
func TestStateUnitsThatOverflow(t *testing.T) {
	for _, int8 := range []bool{false, true} {
		for _, sign := range []float32{1, -1} {
			q, k, v := zeros(1, 1, 2, 4), zeros(1, 1, 3, 4), zeros(1, 1, 3, 4)
			fillWith(q.Data, 1e30)
			fillWith(k.Data, sign)
			fillWith(v.Data, 5)
			s, err := NewState(StateConfig{1, 1, 2, 4})
			must(t, err)
			must(t, s.Update(q, k, v, &Options{Integers: int8, Scale: 1e30}))
			masked := BHLD(make([]bool, 2*3), 1, 1, 2, 3)
			must(t, s.Update(q, k, v, &Options{Softcap: 1, Mask: masked}))
			dst, lse := zeros(1, 1, 2, 4), make([]float32, 2)
			must(t, s.Finish(dst, lse))
			for i, e := range dst.Data {
				if !(math.Abs(float64(e)-5) < 1e-3) {
					t.Fatalf("Int8 %t, keys of %v: output %d is %v, want 5", int8, sign, i, e)
				}
			}
			if want := math.MaxFloat32 * sign; lse[0] != want {
				t.Errorf("Int8 %t, keys of %v: LSE is %v, want %v", int8, sign, lse[0], want)
			}
		}
	}
}
