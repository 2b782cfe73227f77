package attn

import (
	"fmt"
	"runtime"

	"github.com/seed-1415985d/attn/internal/online"
	"github.com/seed-1415985d/attn/internal/packed"
	"github.com/seed-1415985d/attn/internal/segment"
	"github.com/seed-1415985d/attn/internal/views"
)

// State is attention over keys that arrive in chunks: the online softmax of every query row, namely
// the running maximum, sum and output. The keys of one sequence may be spread over goroutines or
// machines, each with a State for its part; Merge puts the parts together and Finish writes the
// result.
//
// The result has the bits of one call of [Attend] over all keys if
//
//   - every chunk but the last ends at a multiple of [Block] keys;
//   - every merged part but the last holds a multiple of [Segment] keys, and its first segment,
//     counted from the first key of the whole, is a multiple of a power of two that is at least its
//     number of segments: for example parts of 4 segments each, with a last one of up to 4;
//   - all Updates have their scores in the same unit, see [State.Update], and the values of all or
//     of none are rotated, as they are in a [Store] of I4, and of I8 with ValuesInKeys.
//
// Otherwise it is the same sum in another order, with rounding errors of the same size. (And where
// a sum overflows, or a score of −Inf meets a value that is NaN or infinite, it may be NaN in one
// order only.)
//
// Segments merge as a binary tree, so a State holds one state for each bit of the number of its
// segments: its memory is 4·(d+2) bytes for each row of each batch and head, once for 2ᵏ segments,
// and at most as often as the number of segments has bits. From 256 KiB on, each of these is memory
// of the operating system, like a [Cache]'s: it is released by Close, or some time after the State
// has become unreachable.
//
// A State is not safe for concurrent use.
type State struct {
	stateShape

	tree  online.Tree
	units online.Units // of the maxima: the unit of the first Update's scores

	rotated bool // outputs are sums of rotated values, see kind_latent.go

	sinks []float32 // one per head, empty if there are none

	closed bool
}

// stateShape is the shape of a State, and the number of keys that it has seen.
type stateShape struct {
	b, h, l, d int
	keys       int
}

// StateConfig is the shape of a [State].
type StateConfig struct {
	Batch    int // batch entries
	Heads    int // query heads
	Queries  int // of each batch entry
	ValueDim int // dimension of values and outputs, at least 1
}

// NewState returns an empty state for queries [Batch, Heads, Queries, …]. The error is [ErrShape]
// for a size outside 0 to 2²⁸, and for a state larger than the address space.
func NewState(c StateConfig) (*State, error) {
	if fault := c.fault(); fault != "" {
		return nil, fail(ErrShape, "StateConfig%s", fault)
	}
	return &State{stateShape: stateShape{b: c.Batch, h: c.Heads, l: c.Queries, d: c.ValueDim}}, nil
}

// fault says what is wrong with the sizes, or is empty.
func (c *StateConfig) fault() string {
	for i, size := range [...]packed.Size{{Name: "Batch", N: c.Batch},
		{Name: "Heads", N: c.Heads}, {Name: "Queries", N: c.Queries},
		{Name: "ValueDim", N: c.ValueDim}} {
		if size.N < i/3 || size.N > maxLength {
			return fmt.Sprintf(".%s is %d, want %d to %d", size.Name, size.N, i/3, maxLength)
		}
	}
	if _, ok := views.Product(c.Batch, c.Heads, c.Queries, c.ValueDim+2); !ok {
		return fmt.Sprintf(" is %d×%d×%d×(%d+2) elements, want at most %d", c.Batch, c.Heads, c.Queries,
			c.ValueDim, maxElements)
	}
	return ""
}

// Close releases the state's memory. Later calls, Close among them, return [ErrClosed]; Keys is 0,
// and Reset does nothing.
func (s *State) Close() error {
	if s == nil {
		return nil
	}
	if err := s.checkOpen(); err != nil {
		return err
	}
	err := s.tree.Close()
	*s = State{closed: true}
	return err
}

// checkOpen verifies that the state was not closed.
func (s *State) checkOpen() error {
	if s == nil {
		return fail(ErrOption, "s is nil, want a state")
	}
	if s.closed {
		return fail(ErrClosed, "the state was closed")
	}
	return nil
}

// Config returns the shape of the state; the zero value after Close.
func (s *State) Config() StateConfig {
	return StateConfig{Batch: s.b, Heads: s.h, Queries: s.l, ValueDim: s.d}
}

// Keys returns the number of keys that the state has seen, including keys beyond KeyLens.
func (s *State) Keys() int { return s.keys }

// Reset empties the state and keeps its memory.
func (s *State) Reset() {
	s.tree.Reset()
	s.keys, s.units.All, s.units.Own, s.sinks = 0, 0, s.units.Own[:0], s.sinks[:0]
	s.rotated = false
}

func (s *State) keepSinks(sinks []float32) {
	if len(s.sinks) == 0 {
		s.sinks = append(s.sinks, sinks...)
	}
}

// rows is the number of rows of all batches and heads.
func (s *State) rows() int { return s.b * s.h * s.l }

// load copies the rows of a chunk out of a node.
func (s *State) load(dst, node *online.State, p *plan, c *chunk) {
	dst.Overwrite = false // its outputs continue the node's
	for r := range c.heads * c.rows {
		dst.CopyRow(r, p.oStride, node, p.rowIndex(c, r), s.d, s.d)
	}
}

// store copies the rows of a chunk into a node.
func (s *State) store(node, src *online.State, p *plan, c *chunk) {
	for r := range c.heads * c.rows {
		node.CopyRow(p.rowIndex(c, r), s.d, src, r, p.oStride, s.d)
	}
}

// Merge adds the keys of t, which come after the keys of s. It does not change t. If the parts are
// divided as [State] says, the merged state is as if s had seen the keys of t itself; otherwise it
// is the same sum in another order. States in different units are converted to natural units, and
// outputs of t are rotated, or not, like those of s, as in [State.Update]. The error is [ErrShape]
// if the shapes differ, [ErrOption] if both have sinks and these differ or t is nil, and
// [ErrMemory] if the system has too little memory. Then s has not changed.
func (s *State) Merge(t *State) error {
	if err := s.checkOpen(); err != nil {
		return err
	}
	if t == nil {
		return fail(ErrOption, "t is nil, want a state")
	}
	if t.closed {
		return fail(ErrClosed, "the state t was closed")
	}
	switch {
	case s.b != t.b || s.h != t.h || s.l != t.l || s.d != t.d:
		return fail(ErrShape, "t is [%d %d %d %d], want [%d %d %d %d]",
			t.b, t.h, t.l, t.d, s.b, s.h, s.l, s.d)
	case t.keys > maxLength-s.keys:
		return fail(ErrLength, "t has %d keys, want at most %d after %d",
			t.keys, maxLength-s.keys, s.keys)
	}
	if err := checkSinks("t's sink", t.sinks, s.sinks); err != nil {
		return err
	}
	if err := s.reserve(len(t.tree.Rows)); err != nil {
		return err
	}
	s.keepSinks(t.sinks)
	s.mergeNodes(t)
	runtime.KeepAlive(s) // and with them their memory
	runtime.KeepAlive(t)
	return nil
}

// mergeNodes appends copies of t's nodes, which may be s itself, and merges nodes that are halves
// of a larger one.
func (s *State) mergeNodes(t *State) {
	var keys [segment.Most]segment.Node
	var copies [segment.Most]online.Node
	nodes := copies[:len(t.tree.Rows)]
	copy(keys[:], t.tree.Shape)
	for i := range nodes {
		nodes[i] = s.tree.Reserved()
		nodes[i].Copy(&t.tree.Rows[i].State, s.rows(), s.d)
	}
	s.fixRotations(t, nodes)
	switch {
	case s.units.All == 0:
		s.units.Set(&t.units)
	case t.units.All != 0 && !s.units.Equal(&t.units):
		s.toNatural()
	}
	for i := range nodes {
		if !s.units.Equal(&t.units) {
			nodes[i].ToNatural(s.rows(), &t.units)
		}
	}
	s.tree.Append(tuned.ISA, keys[:len(nodes)], nodes, s.keys, s.rows(), s.d, &s.units)
	s.keys += t.keys
}

// Finish writes the attention over all keys so far to dst [B, H, L, d] and, if lse is not nil, the
// B×H×L natural logarithms of the sums of exp(score), in the order of Options.LSE. The state does
// not change, and more Updates may follow.
func (s *State) Finish(dst Tensor, lse []float32) error {
	if err := s.checkOpen(); err != nil {
		return err
	}
	opt := Options{LSE: lse, Scale: s.units.All}
	if s.units.All == 0 {
		opt.Scale = 1
	}
	if len(s.sinks) > 0 {
		opt.Sinks = s.sinks
	}
	p := newPlan(dst, Tensor{}, Tensor{}, Tensor{}, &opt)
	p.batch, p.heads, p.lq, p.dv = s.b, s.h, s.l, s.d
	p.kvHeads, p.group = s.h, 1
	if err := p.initOutput(); err != nil {
		return err
	}
	if err := p.initOptions(&opt); err != nil {
		return err
	}
	if s.rotated {
		p.unrotate = s.rotation()
	}
	if !dst.empty() {
		s.finish(&p)
	}
	runtime.KeepAlive(s) // and with it its memory
	return nil
}

// finish merges the nodes, the last ones first as the tree does, and writes the results.
func (s *State) finish(p *plan) {
	p.decide(&tuned, 1)
	w := scratches.Get().(*scratch)
	w.fit(p)
	var c chunk
	for i := range p.chunks {
		p.chunk(i, &c)
		s.unitsOf(w, p, &c)
		w.total.Reset(c.heads*c.rows, p.oStride)
		for j := len(s.tree.Rows) - 1; j >= 0; j-- {
			s.load(&w.partial, &s.tree.Rows[j].State, p, &c)
			w.partial.Merge(tuned.ISA, &w.total, c.heads*c.rows, p.oStride, &w.units)
			w.partial, w.total = w.total, w.partial
		}
		w.finish(p, &c)
	}
	scratches.Put(w)
}

// unitsOf sets the units of scratch to the units of a chunk's rows.
func (s *State) unitsOf(w *scratch, p *plan, c *chunk) {
	w.units.All, w.units.Own = p.unit, w.units.Own[:0]
	if len(s.units.Own) > 0 {
		for r := range c.heads * c.rows {
			w.units.Own = append(w.units.Own, s.units.Own[p.rowIndex(c, r)])
		}
	}
}

// MarshalBinary returns the state in a format that any machine can read with UnmarshalBinary,
// without a change of bits. The error is [ErrShape] for the zero State, which has no shape, and
// [ErrUnsupported] for more numbers than UnmarshalBinary can read on this architecture.
func (s *State) MarshalBinary() ([]byte, error) { return s.AppendBinary(nil) }

// AppendBinary appends the result of MarshalBinary to data.
func (s *State) AppendBinary(data []byte) ([]byte, error) {
	if err := s.checkOpen(); err != nil {
		return nil, err
	}
	if s.d == 0 {
		return nil, fail(ErrShape, "the State is the zero value, want one from NewState or "+
			"UnmarshalBinary")
	}
	f := s.form()
	size, ok := f.Size()
	if !ok || size > maxInt-len(data) {
		return nil, fail(ErrUnsupported, "the State is %d×%d×%d×%d×(%d+2) numbers after %d bytes, "+
			"want at most %d numbers and %d bytes in all",
			len(s.tree.Rows), s.b, s.h, s.l, s.d, len(data), maxElements, maxInt)
	}
	data = f.Append(data, size)
	runtime.KeepAlive(s) // and with it its memory
	return data, nil
}

// form returns the state in the form that is marshaled.
func (s *State) form() online.Form {
	return online.Form{B: s.b, H: s.h, L: s.l, D: s.d, Keys: s.keys, Tree: s.tree, Units: s.units,
		Rotated: s.rotated, Sinks: s.sinks}
}

// UnmarshalBinary replaces the state by one that MarshalBinary wrote. The error is [ErrFormat] for
// data that MarshalBinary cannot have written, and [ErrMemory] if the system has too little memory;
// the state has not changed then. It cannot check that keys and values with these maxima, sums and
// outputs exist: a row that has seen a key may have any numbers, with a sum of at least 1.
func (s *State) UnmarshalBinary(data []byte) error {
	if err := s.checkOpen(); err != nil {
		return err
	}
	h, err := online.ReadHeader(data)
	if err != nil {
		return err
	}
	c := StateConfig{Batch: h.B, Heads: h.H, Queries: h.L, ValueDim: h.D}
	if fault := c.fault(); fault != "" {
		return fail(ErrFormat, "the data's StateConfig%s", fault)
	}
	t, err := NewState(c)
	if err != nil {
		return err
	}
	f, err := h.ReadBody(t.reserve, t.tree.Reserved)
	if err != nil {
		return err
	}
	t.keys, t.units, t.rotated, t.sinks = f.Keys, f.Units, f.Rotated, f.Sinks
	t.tree.Shape, t.tree.Rows = f.Tree.Shape, f.Tree.Rows
	*s = *t
	return nil
}
