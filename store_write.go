package attn

import "math"

// Tokens on their way into a store, and back. A row of a head is rotated if the store says so, made fewer bits, and laid where the kernels
// read it.

// tokenWriter is memory for a row of one head on its way.
type tokenWriter struct {
	row   []float32 // rotated, or decoded
	half  []uint16
	bytes []int8
	panel []float32 // panel keys of HeadDim
}

func newTokenWriter(s *blockStore) tokenWriter {
	n := max(s.d, s.dv)
	w := tokenWriter{row: make([]float32, n)}
	switch s.kind {
	case F16, BF16:
		w.half, w.panel = make([]uint16, n), make([]float32, s.d*panel)
	case I8:
		w.bytes = make([]int8, n)
	}
	return w
}

// write writes n tokens of a head, k[i] and v[i], from token at on to its block x.
func (s *blockStore) write(w *tokenWriter, x []byte, at int, k, v []float32, kStride, vStride, n, dv int) {
	s.writeKeys(w, x, at, k, kStride, n)
	s.writeValues(w, x, at, v, vStride, n, dv)
}

// writeKeys writes n keys of block x from key at on; rows are stride apart.
func (s *blockStore) writeKeys(w *tokenWriter, x []byte, at int, k []float32, stride, n int) {
	keys, scales := s.keys(x)
	const few = 4 // keys that are faster to store one by one
	for i := 0; i < n; {
		j := at + i
		m := min(n-i, panel-j%panel)
		if s.kind != I8 && s.rotation == 1 && j%panel == 0 && m >= few {
			s.writePanel(w, keys, j, k[i*stride:], stride, m)
		} else {
			for r := range m {
				s.writeKey(w, keys, scales, j+r, k[(i+r)*stride:][:s.d])
			}
		}
		i += m
	}
}

// writePanel writes the first m keys of the panel of key j.
func (s *blockStore) writePanel(w *tokenWriter, keys []byte, j int, k []float32, stride, m int) {
	if s.kind == F32 {
		packKeys(elements[float32](keys)[j*s.d:], k, stride, m, s.d)
		return
	}
	packKeys(w.panel, k, stride, m, s.d)
	narrow(s.kind, elements[uint16](keys)[j*s.d:][:panel*s.d], w.panel)
}

// writeKey writes key j of a block.
func (s *blockStore) writeKey(w *tokenWriter, keys []byte, scales []float32, j int, k []float32) {
	if s.rotation > 1 {
		copy(w.row, k)
		k = w.row[:s.d]
		rotate(k, 1, s.d, s.d, s.rotation)
	}
	switch s.kind {
	case F32:
		spread(elements[float32](keys)[j/panel*panel*s.d+j%panel:], k)
	case F16, BF16:
		narrow(s.kind, w.half, k)
		spread(elements[uint16](keys)[j/panel*panel*s.d+j%panel:], w.half[:s.d])
	case I8:
		scales[j] = scaleOf(largest(k))
		quantize(w.bytes, k, scales[j])
		to := elements[int8](keys)[j/panel*panel*roundUp(s.d, 4)+j%panel*4:]
		for x := 0; x < s.d; x += 4 {
			copy(to[x*panel:][:4], w.bytes[x:s.d])
		}
	}
}

// scaleOf is the scale of a token whose largest element is most: most/127, and so much more where that is subnormal and rounds down that no
// element becomes more than 127. Where 127 scales would be infinite, it is the next smaller number.
func scaleOf(most float32) float32 {
	scale := most / 127
	for scale > 0 && most/scale >= 127.5 {
		scale = math.Nextafter32(scale, 1)
	}
	if most > 0 && scale == 0 {
		scale = math.SmallestNonzeroFloat32
	}
	if 127*scale > math.MaxFloat32 {
		scale = math.Nextafter32(scale, 0)
	}
	return scale
}

// spread writes a row to one lane of a panel.
func spread[T any](dst, row []T) {
	for x, e := range row {
		dst[x*panel] = e
	}
}

// writeValues writes n values of block x from key j on; rows are stride apart.
func (s *blockStore) writeValues(w *tokenWriter, x []byte, j int, v []float32, stride, n, dv int) {
	values, scales := s.values(x)
	if s.kind == F32 {
		packValues(elements[float32](values)[j*panel:], v, stride, n, dv)
		return
	}
	for i := range n {
		s.writeValue(w, values, scales, j+i, v[i*stride:][:dv])
	}
}

// writeValue writes value j of a block of fewer bits. Columns that the value does not have are 0.
func (s *blockStore) writeValue(w *tokenWriter, values []byte, scales []float32, j int, v []float32) {
	if s.kind == I8 {
		scales[j] = scaleOf(largest(v))
		quantize(w.bytes, v, scales[j])
		clear(w.bytes[len(v):s.dv])
		to := elements[int8](values)[j/4*4*s.dv+j%4:]
		for c, e := range w.bytes[:s.dv] {
			to[4*c] = e
		}
		return
	}
	narrow(s.kind, w.half, v)
	clear(w.half[len(v):s.dv])
	to := elements[uint16](values)[j*panel:]
	for c := 0; c < s.dv; c += panel {
		copy(to[c*Block:][:panel], w.half[c:])
	}
}

// read decodes token j of block x.
func (s *blockStore) read(k, v []float32, x []byte, j int) {
	keys, scales := s.keys(x)
	s.readKey(k, keys, scales, j)
	values, scales := s.values(x)
	s.readValue(v, values, scales, j)
}

// readKey decodes key j of a block.
func (s *blockStore) readKey(dst []float32, keys []byte, scales []float32, j int) {
	l := scoreLayout(s.kind, s.d, Block)
	for x := range dst {
		dst[x] = elementAt(s.kind, keys, &l, x, j)
	}
	if scales != nil {
		scaleBy(dst, scales[j])
	}
	if s.rotation > 1 {
		rotate(dst, 1, s.d, s.d, s.rotation)
	}
}

// readValue decodes value j of a block.
func (s *blockStore) readValue(dst []float32, values []byte, scales []float32, j int) {
	l := s.valueLayout(Block)
	for c := range dst {
		dst[c] = elementAt(s.kind, values, &l, j, c)
	}
	if scales != nil {
		scaleBy(dst, scales[j])
	}
}

// scaleBy multiplies by the scale of a token.
func scaleBy(x []float32, scale float32) {
	for i := range x {
		x[i] *= scale
	}
}

// elementAt is step k of column c in any type.
func elementAt(t Format, v []byte, b *panelLayout, k, c int) float32 {
	if t == F32 {
		return elements[float32](v)[placeOf(t, b, k, c)]
	}
	return elementOf(t, v, placeOf(t, b, k, c))
}
