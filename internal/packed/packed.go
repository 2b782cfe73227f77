package attn

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/floats"
	"github.com/seed-1415985d/attn/internal/kernel/int4"
	"github.com/seed-1415985d/attn/internal/kernel/integers"
	"github.com/seed-1415985d/attn/internal/kernel/narrow"
	"github.com/seed-1415985d/attn/internal/memory"
	"github.com/seed-1415985d/attn/internal/pages"
)

// source is where the keys and values of a call come from: views of the caller, or blocks of a
// cache or store, which are packed already.
type source struct {
	k, v   Tensor
	packed *packedKV    // if not nil, instead of views
	table  *pages.Table // of the call's only sequence, nil if there is none or there are several
	first  int          // tokens before this position of the cache or sequence were dropped
}

// packedKV is packed blocks of keys and values, those of a head side by side. In a cache the
// heads are those of each batch entry in turn, and their blocks form a ring: a token has the block
// of its position, modulo all of a head.
//
//	[head][block] × (keys, values)
//	keys    F32, F16, BF16: [Block/panel][HeadDim][panel]
//	        I8: [Block/panel][HeadDim/4][panel][4], then float32 scales [Block]
//	        I4: [Block/panel][HeadDim/8][panel][4], two codes a byte (kernel_int4.go), then scales
//	values  F32, F16, BF16: [ValueDim/panel][Block][panel]
//	        I8: [Block/4][ValueDim][4], then float32 scales [Block]
//	        I4: [Block/8][ValueDim][4], two codes a byte, then scales
//	        none where values are part of keys, see kind_latent.go
//
// ValueDim goes up to a multiple of panel, and HeadDim/4 and HeadDim/8 to a whole number.
//
// Whoever reads or writes data keeps the cache or store alive until the last access, by
// [runtime.KeepAlive] if nothing else does: data alone does not keep the memory.
type packedKV struct {
	memory *memory.Mapping // what data is in; nil if it was given back
	data   []byte

	k, v     packedSide
	heads    int // of a batch entry
	d, dv    int // HeadDim and ValueDim
	cols     int // ValueDim in whole panels
	rotation int // size of the Walsh–Hadamard matrix that keys are multiplied by; 1: as they are

	valuesInKeys bool // values are the first ValueDim channels of keys, which are rotated apart:
	rotationRest int  // those behind, by a matrix of this size
	rotates      bool // keys are rotated
	unrotate     int  // size of the matrix that outputs are rotated back by; 1: by none

	keyBytes   int // of a block's keys, scales included
	block      int // of a block
	headStride int // of all blocks of a head
	blocks     int // their number
}

// packedSide is the format of keys, or of values.
type packedSide struct {
	format Format
	formatTraits
	read       Format // as kernels read it
	scaleBytes int    // of the scales of a block
}

func newPackedSide(f Format) packedSide {
	s := packedSide{format: f, formatTraits: *f.traits(), read: f.readAs()}
	if s.scaled {
		s.scaleBytes = 4 * Block
	}
	return s
}

// bytesOf is what a block of some elements a token takes, scales included.
func (s *packedSide) bytesOf(elements int) int { return Block/8*s.bits*elements + s.scaleBytes }

// newPackedKV describes blocks of keys and values in formats; they have no memory yet.
func newPackedKV(keys, values Format, heads, d, dv int, valuesInKeys bool) packedKV {
	s := packedKV{k: newPackedSide(keys), v: newPackedSide(values), heads: heads, d: d, dv: dv,
		rotation: 1, valuesInKeys: valuesInKeys, rotationRest: 1, unrotate: 1}
	s.cols = roundUp(dv, panel)
	switch {
	case s.k.rotated && valuesInKeys:
		s.rotation, s.rotationRest = dv&-dv, max(1, (d-dv)&-(d-dv))
		s.unrotate = s.rotation
	case s.k.rotated:
		s.rotation = d & -d
	}
	if values == I4 {
		s.unrotate = dv & -dv
	}
	s.rotates = s.rotation > 1 || s.rotationRest > 1
	s.keyBytes = s.k.bytesOf(roundUp(d, s.k.whole))
	if s.block = s.keyBytes; !valuesInKeys {
		s.block += s.v.bytesOf(s.cols)
	}
	return s
}

// allocate takes memory for some blocks of each head of a batch.
func (s *packedKV) allocate(batch, blocks int) (err error) {
	s.headStride, s.blocks = blocks*s.block, blocks
	if s.memory, err = memory.Allocate(batch * s.heads * s.headStride); err == nil {
		s.data = s.memory.Bytes()
	}
	return err
}

// alike reports whether blocks have the same shape and format.
func (s *packedKV) alike(t *packedKV) bool {
	return s.heads == t.heads && s.d == t.d && s.dv == t.dv && s.k.format == t.k.format &&
		s.v.format == t.v.format && s.valuesInKeys == t.valuesInKeys
}

// shape says of what the blocks are.
func (s *packedKV) shape() string {
	in := ""
	if s.valuesInKeys {
		in = ", values in keys"
	}
	return fmt.Sprintf("%d heads of %d and %d dimensions in %s%s", s.heads, s.d, s.dv, s.formats(), in)
}

// formats names the formats of keys and values.
func (s *packedKV) formats() string {
	if s.k.format == s.v.format {
		return s.k.format.String()
	}
	return s.k.format.String() + " and " + s.v.format.String()
}

// at is the memory of a block.
func (s *packedKV) at(head, block int) []byte {
	return s.data[head*s.headStride+block*s.block:][:s.block]
}

// offsetOf is where the block with token j begins: in the page of a table, or if there is none, in
// the ring of blocks of a cache's head.
func (s *packedKV) offsetOf(t *pages.Table, entry, head, j int) int {
	block := j / Block
	if t != nil {
		block = t.Page(j)
	} else if block >= s.blocks { // only then: a division takes longer than all else here
		block %= s.blocks
	}
	return (entry*s.heads+head)*s.headStride + block*s.block
}

// keys returns the packed keys of a block, and their scales if they have some.
func (s *packedKV) keys(x []byte) (keys []byte, scales []float32) {
	return s.k.split(x[:s.keyBytes])
}

// values returns the packed values of a block, and their scales if they have some.
func (s *packedKV) values(x []byte) (values []byte, scales []float32) {
	return s.v.split(x[s.keyBytes:s.block])
}

// split takes the scales from the end of a block's keys or values.
func (s *packedSide) split(x []byte) (packed []byte, scales []float32) {
	if !s.scaled {
		return x, nil
	}
	end := len(x) - s.scaleBytes
	return x[:end], elements[float32](x[end:])
}

// valueLayout is the layout of the first keys values of a block, as they are kept and as kernels
// read them: that of I4 and I8 is in the same numbers.
func (s *packedKV) valueLayout(keys int) kernel.PanelLayout {
	l := kernel.PanelLayout{Keys: keys, Cols: s.cols, Stride: panel, PanelStride: Block * panel}
	if s.v.group > 1 {
		l.Stride, l.PanelStride = s.v.group*s.cols, s.v.group*panel
	}
	return l
}

// elements is memory as elements of another type.
func elements[T any](x []byte) []T {
	var e T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(x))), len(x)/int(unsafe.Sizeof(e)))
}

// rotate rotates keys, or back, in rows that follow each other.
func (s *packedKV) rotate(x []float32) {
	if !s.valuesInKeys {
		integers.Rotate(tuned.ISA, x, x, 1, len(x), len(x), len(x), s.rotation)
		return
	}
	rows := len(x) / s.d
	if s.rotation > 1 {
		integers.Rotate(tuned.ISA, x, x, rows, s.dv, s.d, s.d, s.rotation)
	}
	if s.rotationRest > 1 {
		integers.Rotate(tuned.ISA, x[s.dv:], x[s.dv:], rows, s.d-s.dv, s.d, s.d, s.rotationRest)
	}
}

// close gives the memory back.
func (s *packedKV) close() error {
	m := s.memory
	s.memory, s.data = nil, nil
	return m.Close()
}

// Tokens on their way into packed blocks, and back. A row of a head is rotated if its format says
// so, encoded, and laid where the kernels read it.

// tokenWriter is memory for rows of one head on their way.
type tokenWriter struct {
	row    []float32 // rotated
	half   []uint16
	bytes  []int8    // integers, or codes
	folded []byte    // codes as they are kept
	panel  []float32 // panel keys of HeadDim
}

// fit makes the memory large enough for a format and its dimensions.
func (w *tokenWriter) fit(s *packedKV) {
	if s.k.scaled {
		w.row = grow(w.row, Block*s.d)
		w.bytes = grow(w.bytes, Block*roundUp(s.d, s.k.whole))
	}
	if s.v.scaled {
		w.bytes = grow(w.bytes, Block*s.cols)
	}
	if s.v.format == I4 {
		w.row = grow(w.row, Block*s.dv)
	}
	if s.k.format == I4 || s.v.format == I4 {
		w.folded = grow(w.folded, max(panel*roundUp(s.d, 8)/2, Block*s.cols))
	}
	if s.k.bytes == 2 {
		w.half, w.panel = grow(w.half, s.d), grow(w.panel, s.d*panel)
	}
	if s.v.bytes == 2 {
		w.half = grow(w.half, s.cols)
	}
}

// write writes the tokens of one batch entry of k and v from position at on: to the pages of a
// table, or where there is none, to the blocks of the batch entry.
func (w *tokenWriter) write(s *packedKV, t *pages.Table, k, v *Tensor, entry, at int) {
	w.fit(s)
	for h := range k.H {
		for i := 0; i < k.L; {
			j := at + i
			n := min(k.L-i, Block-j%Block)
			x := s.data[s.offsetOf(t, entry, h, j):][:s.block]
			w.writeKeys(s, x, j%Block, k.Data[k.offset(entry, h, i):], k.SL, n)
			if !s.valuesInKeys {
				w.writeValues(s, x, j%Block, v.Data[v.offset(entry, h, i):], v.SL, n)
			}
			i += n
		}
	}
}

// writeKeys writes n keys of block x from key at on; rows are stride apart.
func (w *tokenWriter) writeKeys(s *packedKV, x []byte, at int, k []float32, stride, n int) {
	keys, scales := s.keys(x)
	const few = 4 // keys that are faster to store one by one
	for i := 0; i < n; {
		j := at + i
		m := min(n-i, panel-j%panel)
		if j%panel == 0 && m >= few {
			if all := n - i; s.k.format == I8 && all > panel { // whole panels, or a last one of enough
				if m = all; all%panel < few {
					m -= all % panel
				}
			}
			w.writePanels(s, keys, scales, j, k[i*stride:], stride, m)
		} else {
			for r := range m {
				w.writeKey(s, keys, scales, j+r, k[(i+r)*stride:][:s.d])
			}
		}
		i += m
	}
}

// writePanels writes m keys from the panel on that key j begins, of I8 of more than one.
func (w *tokenWriter) writePanels(s *packedKV, keys []byte, scales []float32, j int, k []float32,
	stride, m int) {
	switch s.k.format {
	case F32:
		floats.PackKeys(&tuned, elements[float32](keys)[j*s.d:], k, stride, m, s.d)
	case F16, BF16:
		floats.PackKeys(&tuned, w.panel, k, stride, m, s.d)
		narrow.Narrow(tuned.ISA, kernel.Format(s.k.format), elements[uint16](keys)[j*s.d:][:panel*s.d],
			w.panel[:panel*s.d])
	case I8:
		width, done := roundUp(s.d, 4), 0
		if s.rotates && !s.valuesInKeys {
			done = integers.QuantizeRotated(&tuned, elements[int8](keys)[j*width:], scales[j:], nil, k, m,
				s.d, stride,
				s.rotation)
		}
		if rest := m - done; rest > 0 {
			k, stride = w.rotateKeys(s, k[done*stride:], stride, rest)
			if s.d < width {
				clear(w.bytes[:rest*width])
			}
			integers.QuantizeRows(tuned.ISA, w.bytes, scales[j+done:], nil, k, rest, s.d, width, stride)
			w.packGroups(keys[(j+done)*width:], rawBytes(w.bytes), width, rest)
		}
	case I4:
		width := roundUp(s.d, 8)
		k, stride = w.rotateKeys(s, k, stride, m)
		int4.EncodeRows(tuned.ISA, rawBytes(w.bytes), scales[j:], k, m, s.d, width, stride)
		kernel.FoldCodes(w.folded, rawBytes(w.bytes)[:m*width])
		w.packGroups(keys[j*width/2:], w.folded, width/2, m)
	}
}

// rotateKeys copies m keys and rotates them, if keys are rotated. They are stride apart then.
func (w *tokenWriter) rotateKeys(s *packedKV, k []float32, stride, m int) ([]float32, int) {
	if !s.rotates {
		return k, stride
	}
	rows := w.row[:m*s.d]
	if s.valuesInKeys {
		integers.CopyRows(tuned.ISA, rows, k, m, s.d, stride)
		s.rotate(rows)
	} else {
		integers.Rotate(tuned.ISA, rows, k, m, s.d, s.d, stride, s.rotation)
	}
	return rows, s.d
}

// packGroups packs m keys, rows of some bytes, of which four are moved as one element.
func (w *tokenWriter) packGroups(dst, rows []byte, width, m int) {
	floats.PackKeys(&tuned, elements[float32](dst), elements[float32](rows), width/4, m, width/4)
}

// writeKey writes key j of a block.
func (w *tokenWriter) writeKey(s *packedKV, keys []byte, scales []float32, j int, k []float32) {
	if s.rotates {
		copy(w.row, k)
		k = w.row[:s.d]
		s.rotate(k)
	}
	switch s.k.format {
	case F32:
		spread(elements[float32](keys)[j/panel*panel*s.d+j%panel:], k)
	case F16, BF16:
		narrow.Narrow(tuned.ISA, kernel.Format(s.k.format), w.half[:s.d], k)
		spread(elements[uint16](keys)[j/panel*panel*s.d+j%panel:], w.half[:s.d])
	case I8:
		scales[j] = integers.QuantizeToken(tuned.ISA, w.bytes[:s.d], k)
		spreadGroups(keys[j/panel*panel*roundUp(s.d, 4)+j%panel*4:], rawBytes(w.bytes[:s.d]))
	case I4:
		width := roundUp(s.d, 8)
		int4.EncodeRows(tuned.ISA, rawBytes(w.bytes), scales[j:], k, 1, s.d, width, s.d)
		kernel.FoldCodes(w.folded, rawBytes(w.bytes)[:width])
		spreadGroups(keys[j/panel*panel*width/2+j%panel*4:], w.folded[:width/2])
	}
}

// spreadGroups writes a row of integers, in groups of four, to one lane of a panel.
func spreadGroups(dst, row []byte) {
	whole := len(row) / 4 * 4
	for x := 0; x < whole; x += 4 {
		binary.NativeEndian.PutUint32(dst[x*panel:], binary.NativeEndian.Uint32(row[x:]))
	}
	if whole < len(row) {
		copy(dst[whole*panel:][:len(row)-whole], row[whole:])
	}
}

// spread writes a row to one lane of a panel.
func spread[T any](dst, row []T) {
	for x, e := range row {
		dst[x*panel] = e
	}
}

// writeValues writes n values of block x from key j on; rows are stride apart.
func (w *tokenWriter) writeValues(s *packedKV, x []byte, j int, v []float32, stride, n int) {
	values, scales := s.values(x)
	if s.v.format == F32 {
		floats.PackValues(&tuned, elements[float32](values)[j*panel:], v, stride, n, s.dv)
		return
	}
	if s.v.format == I4 && s.unrotate > 1 {
		rows := w.row[:n*s.dv]
		integers.CopyRows(tuned.ISA, rows, v, n, s.dv, stride)
		integers.Rotate(tuned.ISA, rows, rows, 1, len(rows), len(rows), len(rows), s.unrotate)
		v, stride = rows, s.dv
	}
	for i := 0; i < n; {
		if whole := (n - i) / 4 * 4; s.v.scaled && (j+i)%4 == 0 && whole > 0 {
			w.writeGroups(s, values, scales, j+i, v[i*stride:], stride, whole)
			i += whole
			continue
		}
		w.writeValue(s, values, scales, j+i, v[i*stride:][:s.dv])
		i++
	}
}

// writeGroups writes n values of I8 or I4 from value j on, whole groups. Those of I4 are rotated.
func (w *tokenWriter) writeGroups(s *packedKV, values []byte, scales []float32, j int, v []float32,
	stride, n int) {
	if s.v.format == I4 {
		rows := w.bytes[:n*s.cols]
		int4.EncodeRows(tuned.ISA, rawBytes(rows), scales[j:], v, n, s.dv, s.cols, stride)
		integers.Interleave(tuned.ISA, w.folded, rawBytes(rows), s.cols, n)
		for group := range n / 4 {
			at, size := j/4+group, 4*s.cols
			kernel.PutCodes(values[at/2*size:], w.folded[group*size:][:size], at%2 == 1)
		}
		return
	}
	integers.QuantizeGroups(tuned.ISA, elements[int8](values)[j*s.cols:], scales[j:], v, n, s.dv,
		s.cols, stride, w.bytes)
}

// writeValue writes value j of a block of fewer bits. Columns that the value does not have are 0.
func (w *tokenWriter) writeValue(s *packedKV, values []byte, scales []float32, j int, v []float32) {
	switch s.v.format {
	case I8:
		row := w.bytes[:s.cols]
		scales[j] = integers.QuantizeToken(tuned.ISA, row[:len(v)], v)
		clear(row[len(v):])
		to := elements[int8](values)[j/4*4*s.cols+j%4:]
		for c, e := range row {
			to[4*c] = e
		}
		return
	case I4:
		row := rawBytes(w.bytes[:s.cols])
		int4.EncodeRows(tuned.ISA, row, scales[j:], v, 1, s.dv, s.cols, s.dv)
		layout := s.valueLayout(Block)
		for c, code := range row {
			kernel.SetCode(values, kernel.PlaceOf(kernel.I4, &layout, j, c), code)
		}
		return
	}
	row := w.half[:s.cols]
	narrow.Narrow(tuned.ISA, kernel.Format(s.v.format), row[:len(v)], v)
	clear(row[len(v):])
	to := elements[uint16](values)[j*panel:]
	for c := 0; c < s.cols; c += panel {
		copy(to[c*Block:][:panel], row[c:])
	}
}

// read decodes tokens from position from on into one batch entry of k and v.
func (s *packedKV) read(t *pages.Table, k, v *Tensor, entry, from int) {
	for h := range k.H {
		for i := range k.L {
			j := from + i
			x := s.data[s.offsetOf(t, entry, h, j):][:s.block]
			s.readKey(k.row(entry, h, i), x, j%Block)
			if !s.valuesInKeys {
				s.readValue(v.row(entry, h, i), x, j%Block)
			}
		}
	}
}

// readKey decodes key j of block x.
func (s *packedKV) readKey(k []float32, x []byte, j int) {
	keys, scales := s.keys(x)
	layout := kernel.ScoreLayout(kernel.Format(s.k.format), s.d, Block)
	for x := range k {
		k[x] = narrow.ElementOf(kernel.Format(s.k.format), keys,
			kernel.PlaceOf(kernel.Format(s.k.format), &layout, x, j))
	}
	if scales != nil {
		scaleBy(k, scales[j])
	}
	if s.rotates {
		s.rotate(k)
	}
}

// readValue decodes value j of block x.
func (s *packedKV) readValue(v []float32, x []byte, j int) {
	values, scales := s.values(x)
	layout := s.valueLayout(Block)
	for c := range v {
		v[c] = narrow.ElementOf(kernel.Format(s.v.format), values,
			kernel.PlaceOf(kernel.Format(s.v.format), &layout, j, c))
	}
	if scales != nil {
		scaleBy(v, scales[j])
	}
	if s.unrotate > 1 {
		integers.Rotate(tuned.ISA, v, v, 1, len(v), len(v), len(v), s.unrotate)
	}
}

// scaleBy multiplies by the scale of a token.
func scaleBy(x []float32, scale float32) {
	for i := range x {
		x[i] *= scale
	}
}

// rotateCopy brings rows of queries together, stride apart, and rotates them as rotateQueries does.
func (p *plan) rotateCopy(dst, q []float32, rows, stride int) {
	if rotation := p.d & -p.d; p.packed == nil && rotation > 1 && !p.flip {
		integers.Rotate(tuned.ISA, dst, q, rows, p.d, p.d, stride, rotation)
		return
	}
	integers.CopyRows(tuned.ISA, dst, q, rows, p.d, stride)
	if p.flip {
		floats.Scale(tuned.ISA, dst, dst, -1)
	}
	p.rotateQueries(dst)
}

// rotateQueries rotates rows that follow each other as the call's keys are rotated.
func (p *plan) rotateQueries(q []float32) {
	switch rotation := p.d & -p.d; {
	case p.packed != nil && p.packed.rotates:
		p.packed.rotate(q)
	case p.packed == nil && p.integers && rotation > 1:
		integers.RotateAll(tuned.ISA, q, rotation)
	}
}
