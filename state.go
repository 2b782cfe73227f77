package attn

import (
	"encoding/binary"
	"math"
)

// State is attention over keys that arrive in chunks: the online softmax of
// every query row, namely the running maximum, sum and output. The keys of one
// sequence may be spread over goroutines or machines, each with a State for
// its part; Merge puts the parts together and Finish writes the result.
//
// If every chunk but the last ends at a multiple of [Block] keys, and every
// merged state but the last holds a multiple of [Segment] keys, the result has
// the bits of one call of [Attend] over all keys. Otherwise it is the same sum
// in another order, with rounding errors of the same size. (And where a sum overflows, or a
// score of −Inf meets a value that is NaN or infinite, it may be NaN in one order only.)
//
// To be exact a State keeps the segments apart until Finish: its memory is
// 4·(d+2) bytes for each row of each batch and head, for every Segment keys.
//
// A State is not safe for concurrent use.
type State struct {
	b, h, l, d int
	keys       int

	// segments[:n] are in use; the last may take more keys. Their rows are
	// (b·H + h)·L + i, their outputs d apart.
	segments []state
	n        int

	sinks []float32 // one per head, empty if there are none
}

// NewState returns an empty state for queries [b, h, l, …] and values of
// dimension d. The error is [ErrShape].
func NewState(b, h, l, d int) (*State, error) {
	for i, n := range [...]int{b, h, l, d} {
		if n < 0 || n > maxLength || i == 3 && n == 0 {
			return nil, fail(ErrShape, "%c is %d, want %d to %d", "bhld"[i], n, i/3, maxLength)
		}
	}
	if _, ok := product(b, h, l, d+2); !ok {
		return nil, fail(ErrShape, "the state has %d×%d×%d×(%d+2) elements, want at most %d", b, h, l, d, maxElements)
	}
	return &State{b: b, h: h, l: l, d: d}, nil
}

// Keys returns the number of keys that the state has seen, with those beyond KeyLens.
func (s *State) Keys() int { return s.keys }

// Reset empties the state and keeps its memory.
func (s *State) Reset() { s.keys, s.n, s.sinks = 0, 0, s.sinks[:0] }

// Update adds a chunk of any number of keys, which follow those of the Updates
// before:
//
//	q [B, H, L, D]      the same queries each time
//	k [B, KVH, n, D]    the keys at positions Keys() to Keys()+n−1
//	v [B, KVH, n, Dv]
//
// Options mean what they mean to [Attend], with these differences. Mask and
// Bias [B or 1, H or 1, L, n] cover the chunk, and KeyLens says how many keys
// of the chunk exist. Rows beyond QueryLens do not see the chunk. Offset, and
// with it TopLeft, Window and Slopes, counts from the first key of the state; a
// state that begins with key j of a longer sequence takes Offset = position of
// query 0 − j. BottomRight is an error because the number of keys is not known
// yet: use TopLeft and Offset. Sinks
// are remembered until Finish counts them once; they must be the same in every
// Update that has them. LSE belongs to Finish. Weights are not supported: they
// need the final maximum.
//
// Update allocates for every [Segment] keys that the state has not held before.
// If it returns an error, the state has not changed.
func (s *State) Update(q, k, v Tensor, opt *Options) error {
	p := newPlan(Tensor{}, q, k, v, opt)
	if err := s.initUpdate(&p, opt); err != nil {
		return err
	}
	s.keepSinks(p.sinks)
	if p.lk > 0 && !q.empty() {
		s.addSegments(p.lk)
		s.update(&p)
	}
	s.keys += p.lk
	return nil
}

// initUpdate validates the arguments of an Update.
func (s *State) initUpdate(p *plan, opt *Options) error {
	if err := p.initKeys(); err != nil {
		return err
	}
	if err := p.initQueries(p.k.B); err != nil {
		return err
	}
	if err := p.initOptions(opt); err != nil {
		return err
	}
	switch {
	case p.batch != s.b || p.heads != s.h || p.lq != s.l:
		return fail(ErrShape, "q is [%d %d %d …], want the state's [%d %d %d …]", p.batch, p.heads, p.lq, s.b, s.h, s.l)
	case p.dv != s.d:
		return fail(ErrShape, "v.D is %d, want the state's %d", p.dv, s.d)
	case p.lk > maxLength-s.keys:
		return fail(ErrLength, "k.L is %d after %d keys, want at most %d in all", p.lk, s.keys, maxLength)
	case p.causal == BottomRight:
		return fail(ErrOption, "Causal is BottomRight, want TopLeft with Offset: the number of keys is not known yet")
	case p.lse != nil:
		return fail(ErrOption, "LSE is set in an Update, want nil: Finish returns it")
	case opt != nil && opt.Weights != nil:
		return fail(ErrUnsupported, "Weights are set in an Update, want nil: they need the maximum over all keys")
	}
	if err := s.checkSinks("Sinks", p.sinks); err != nil {
		return err
	}
	p.offset -= s.keys // the chunk's keys count from 0
	return nil
}

// checkSinks makes sure that sinks, if any, are the ones that the state has.
func (s *State) checkSinks(name string, sinks []float32) error {
	if len(s.sinks) == 0 {
		return nil
	}
	for h, e := range sinks {
		if e != s.sinks[h] && (e == e || s.sinks[h] == s.sinks[h]) {
			return fail(ErrOption, "%s[%d] is %v, want %v as before", name, h, e, s.sinks[h])
		}
	}
	return nil
}

func (s *State) keepSinks(sinks []float32) {
	if len(s.sinks) == 0 {
		s.sinks = append(s.sinks, sinks...)
	}
}

// segmentOf returns the index of the segment that takes the key at a position
// ≥ Keys(). A segment is full when the position is a multiple of Segment.
func (s *State) segmentOf(position int) int {
	i := s.n + position/Segment - s.keys/Segment
	if s.keys%Segment != 0 {
		i-- // the last one is not full
	}
	return i
}

// addSegments makes room for more keys. The new segments are empty, and in use
// once update has run; s.n still counts those before.
func (s *State) addSegments(keys int) {
	for i := s.n; i <= s.segmentOf(s.keys+keys-1); i++ {
		s.segment(i).reset(s.b*s.h*s.l, s.d)
	}
}

// segment returns segment i ≤ len(segments), allocated.
func (s *State) segment(i int) *state {
	if i == len(s.segments) {
		rows := s.b * s.h * s.l
		x := make([]float32, rows*(s.d+2))
		s.segments = append(s.segments, state{m: x[:rows], l: x[rows : 2*rows], o: x[2*rows:]})
	}
	return &s.segments[i]
}

// update adds the keys of a validated call to the segments.
func (s *State) update(p *plan) {
	p.decide(&tuned, 1)
	w := scratches.Get().(*scratch)
	w.fit(p)
	var c chunk
	for i := range p.chunks() {
		if p.chunk(i, &c); c.rows > 0 {
			s.updateChunk(w, p, &c)
		}
	}
	scratches.Put(w)
	s.n = s.segmentOf(s.keys+p.lk-1) + 1
}

// updateChunk adds the keys to the rows of one chunk, segment by segment.
func (s *State) updateChunk(w *scratch, p *plan, c *chunk) {
	w.loadQueries(p, c)
	for lo := c.lo; lo < c.hi; {
		at := s.keys + lo
		end := min(c.hi, (at/Segment+1)*Segment-s.keys)
		segment := &s.segments[s.segmentOf(at)]
		s.load(&w.part, segment, p, c)
		w.segment(p, c, &w.part, lo, end)
		s.store(segment, &w.part, p, c)
		lo = end
	}
}

// load copies the rows of a chunk out of a segment.
func (s *State) load(dst, segment *state, p *plan, c *chunk) {
	dst.overwrite = false // its outputs go on from what the segment holds
	for r := range c.allRows() {
		row := p.rowIndex(c, r)
		dst.m[r], dst.l[r] = segment.m[row], segment.l[row]
		copy(dst.o[r*p.oStride:], segment.o[row*s.d:][:s.d])
	}
}

// store copies the rows of a chunk into a segment.
func (s *State) store(segment, src *state, p *plan, c *chunk) {
	for r := range c.allRows() {
		row := p.rowIndex(c, r)
		segment.m[row], segment.l[row] = src.m[r], src.l[r]
		copy(segment.o[row*s.d:][:s.d], src.o[r*p.oStride:])
	}
}

// Merge adds the keys of t, which follow those of s. It does not change t. If
// Keys is a multiple of [Segment] the merged state is what s would be had it
// seen the keys of t itself; otherwise it is the same sum in another order. The states must
// be of the same shape, or the error is [ErrShape], and have the same sinks, if they have any,
// or it is [ErrOption].
func (s *State) Merge(t *State) error {
	switch {
	case s.b != t.b || s.h != t.h || s.l != t.l || s.d != t.d:
		return fail(ErrShape, "t is [%d %d %d %d], want [%d %d %d %d]", t.b, t.h, t.l, t.d, s.b, s.h, s.l, s.d)
	case t.keys > maxLength-s.keys:
		return fail(ErrLength, "t has %d keys, want at most %d after %d", t.keys, maxLength-s.keys, s.keys)
	}
	if err := s.checkSinks("t's sink", t.sinks); err != nil {
		return err
	}
	s.keepSinks(t.sinks)
	for i := range t.n { // t may be s
		to := s.segment(s.n)
		from := &t.segments[i]
		copy(to.m, from.m)
		copy(to.l, from.l)
		copy(to.o, from.o)
		s.n++
	}
	s.keys += t.keys
	return nil
}

// Finish writes the attention over all keys so far to dst [B, H, L, d] and, if
// lse is not nil, the B×H×L natural logarithms of the sums of exp(score), in the order of
// Options.LSE. The state stays as it is and can take more keys.
func (s *State) Finish(dst Tensor, lse []float32) error {
	opt := Options{LSE: lse}
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
	if !dst.empty() {
		s.finish(&p)
	}
	return nil
}

// finish merges the segments from left to right and writes the results.
func (s *State) finish(p *plan) {
	p.decide(&tuned, 1)
	w := scratches.Get().(*scratch)
	w.fit(p)
	var c chunk
	for i := range p.chunks() {
		p.chunk(i, &c)
		w.total.reset(c.allRows(), p.oStride)
		for j := range s.n {
			s.load(&w.part, &s.segments[j], p, &c)
			w.merge(&w.total, &w.part, c.allRows(), p.oStride)
		}
		w.finish(p, &c)
	}
	scratches.Put(w)
}

// The binary form of a state, little-endian:
//
//	8 bytes   stateMagic; its last byte is the version
//	4 × u32   b, h, l, d
//	u32       keys
//	u32       segments
//	u32       1 if sinks follow, else 0
//	f32       sinks, h of them
//	f32       for each segment: m and l of all rows, then o of all rows
//
// Version 1 belongs to version 1 of the numeric contract, which fixes Block and
// Segment.
const (
	stateMagic  = "attnSta\x01"
	stateHeader = len(stateMagic) + 7*4
)

// MarshalBinary returns the state in a form that any machine can read with
// UnmarshalBinary. A state that travels gives the same bits as one that stays.
// The zero State has no shape, so it has no such form: that is an error that wraps [ErrShape].
func (s *State) MarshalBinary() ([]byte, error) {
	size := stateHeader + 4*len(s.sinks) + 4*s.n*s.b*s.h*s.l*(s.d+2)
	return s.AppendBinary(make([]byte, 0, size))
}

// AppendBinary appends what MarshalBinary returns to data.
func (s *State) AppendBinary(data []byte) ([]byte, error) {
	if s.d == 0 {
		return nil, fail(ErrShape, "the State is the zero value, want one from NewState or UnmarshalBinary")
	}
	data = append(data, stateMagic...)
	for _, n := range [...]int{s.b, s.h, s.l, s.d, s.keys, s.n, min(1, len(s.sinks))} {
		data = binary.LittleEndian.AppendUint32(data, uint32(n))
	}
	data = appendFloats(data, s.sinks)
	for i := range s.n {
		data = appendFloats(data, s.segments[i].m)
		data = appendFloats(data, s.segments[i].l)
		data = appendFloats(data, s.segments[i].o)
	}
	return data, nil
}

// appendFloats writes −0 as +0: the sign of a zero depends on how the rows were
// cut, and no result on it.
func appendFloats(data []byte, x []float32) []byte {
	for _, e := range x {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(e+0))
	}
	return data
}

// UnmarshalBinary replaces the state by one that MarshalBinary wrote. Data that
// it cannot have written is an error that wraps [ErrFormat], and leaves the
// state as it is.
func (s *State) UnmarshalBinary(data []byte) error {
	if len(data) < stateHeader || string(data[:len(stateMagic)]) != stateMagic {
		return fail(ErrFormat, "data is %d bytes and begins with %q, want a header of %d bytes that begins with %q",
			len(data), data[:min(len(data), len(stateMagic))], stateHeader, stateMagic)
	}
	var head [7]int
	for i := range head {
		n := binary.LittleEndian.Uint32(data[len(stateMagic)+4*i:])
		if n > maxLength {
			return fail(ErrFormat, "header field %d is %d, want at most %d", i, n, maxLength)
		}
		head[i] = int(n)
	}
	t, err := NewState(head[0], head[1], head[2], head[3])
	if err != nil {
		return fail(ErrFormat, "%v", err)
	}
	keys, segments, sinks := head[4], head[5], head[6]
	if err := t.checkBody(keys, segments, sinks, len(data)-stateHeader); err != nil {
		return err
	}
	// From here on the data is as long as what it asks to allocate.
	data = data[stateHeader:]
	if sinks == 1 {
		t.sinks = make([]float32, t.h)
		data = readFloats(t.sinks, data)
	}
	for i := range segments {
		segment := t.segment(i)
		data = readFloats(segment.m, data)
		data = readFloats(segment.l, data)
		data = readFloats(segment.o, data)
	}
	t.keys, t.n = keys, segments
	*s = *t
	return nil
}

// checkBody compares the numbers in a header with each other and with the
// length of what follows.
func (s *State) checkBody(keys, segments, sinks, length int) error {
	least, most := (keys+Segment-1)/Segment, keys
	if s.b == 0 || s.h == 0 || s.l == 0 {
		least, most = 0, 0
	}
	if segments < least || segments > most {
		return fail(ErrFormat, "%d segments for %d keys, want %d to %d", segments, keys, least, most)
	}
	if sinks > 1 || sinks == 1 && s.h == 0 {
		return fail(ErrFormat, "the mark of sinks is %d, want 0, or 1 with at least one head", sinks)
	}
	elements, ok := product(segments, s.b, s.h, s.l, s.d+2)
	if !ok || length%4 != 0 || length/4 != elements+sinks*s.h {
		return fail(ErrFormat, "%d bytes follow the header, want 4 × (%d×%d×%d×%d×(%d+2) + %d)",
			length, segments, s.b, s.h, s.l, s.d, sinks*s.h)
	}
	return nil
}

func readFloats(dst []float32, data []byte) (rest []byte) {
	for i := range dst {
		dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return data[4*len(dst):]
}
