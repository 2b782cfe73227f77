package packed

import (
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/pages"
)

// Kept tokens are moved together within packed blocks, without rounding again.

// InPlace returns how many of the kept tokens, at least one, need not move.
func InPlace(indices []int) int {
	n := 1
	for n < len(indices) && indices[n] == indices[0]+n {
		n++
	}
	return n
}

// Keep moves the tokens at some positions of each batch entry together, from the first of them on.
func (s *Blocks) Keep(t *pages.Table, batch int, indices []int) {
	for i := InPlace(indices); i < len(indices); i++ {
		from, to := indices[i], indices[0]+i
		for entry := range batch {
			for h := range s.Heads {
				x := s.Data[s.OffsetOf(t, entry, h, to):][:s.Size]
				y := s.Data[s.OffsetOf(t, entry, h, from):][:s.Size]
				s.moveKey(x[:s.KeyBytes], to%kernel.Block, y[:s.KeyBytes], from%kernel.Block)
				if !s.ValuesInKeys {
					s.moveValue(x[s.KeyBytes:], to%kernel.Block, y[s.KeyBytes:], from%kernel.Block)
				}
			}
		}
	}
}

// moveKey copies key from of the keys y of a block to key to of the keys x.
func (s *Blocks) moveKey(x []byte, to int, y []byte, from int) {
	n := kernel.RoundUp(s.D, s.K.Whole) * s.K.Bits / 32 // groups are moved as one element
	if s.K.Bits == 16 {
		n = s.D
	}
	at, of := to/panel*panel*n+to%panel, from/panel*panel*n+from%panel
	if s.K.Bits == 16 {
		moveEach(kernel.Elements[uint16](x)[at:], kernel.Elements[uint16](y)[of:], n, panel)
	} else {
		moveEach(kernel.Elements[uint32](x)[at:], kernel.Elements[uint32](y)[of:], n, panel)
	}
	s.K.moveScale(x, to, y, from)
}

// moveValue copies value from of the values y of a block to value to of the values x.
func (s *Blocks) moveValue(x []byte, to int, y []byte, from int) {
	s.V.moveScale(x, to, y, from)
	switch s.V.Format {
	case kernel.I8:
		moveEach(x[to/4*4*s.Cols+to%4:], y[from/4*4*s.Cols+from%4:], s.Cols, 4)
	case kernel.I4:
		layout := s.ValueLayout(kernel.Block)
		for c := range s.Cols {
			code := kernel.CodeAt(y, kernel.PlaceOf(kernel.I4, &layout, from, c))
			kernel.SetCode(x, kernel.PlaceOf(kernel.I4, &layout, to, c), code)
		}
	default:
		for c := 0; c < s.Cols; c += panel {
			at, of := (c*kernel.Block+to*panel)*s.V.Bytes, (c*kernel.Block+from*panel)*s.V.Bytes
			copy(x[at:][:panel*s.V.Bytes], y[of:])
		}
	}
}

// moveScale copies the scale of a token, if keys or values x and y have scales.
func (s *Side) moveScale(x []byte, to int, y []byte, from int) {
	if s.Scaled {
		scales := len(x) - s.scaleBytes
		copy(x[scales+4*to:][:4], y[scales+4*from:])
	}
}

// moveEach copies n elements that are a stride apart.
func moveEach[T any](dst, src []T, n, stride int) {
	for i := range n {
		dst[i*stride] = src[i*stride]
	}
}

// Together is the number of tokens that are copied at a time.
const Together = panel / 2

// Token is the place of a token in a cache or store: its block, and its index in the block.
type Token struct {
	Block []byte
	At    int
}

// CopyTokens copies tokens to a block from token j on.
func (s *Blocks) CopyTokens(block []byte, j int, from *[Together]Token) {
	keys, scales := s.Keys(block)
	var x [Together][]byte
	for i := range from {
		k, f := s.Keys(from[i].Block)
		if x[i] = k; s.K.Scaled {
			scales[j+i] = f[from[i].At]
		}
	}
	if s.K.Bits == 16 {
		copyLanes[uint16](keys, j, s.D, &x, from)
	} else { // float32, or groups of four bytes
		copyLanes[uint32](keys, j, s.K.Bits*kernel.RoundUp(s.D, s.K.Whole)/32, &x, from)
	}
	if s.ValuesInKeys {
		return
	}
	values, scales := s.Values(block)
	for i := range from {
		v, f := s.Values(from[i].Block)
		if x[i] = v; s.V.Scaled {
			scales[j+i] = f[from[i].At]
		}
	}
	switch s.V.Bits {
	case 32:
		copyColumns[uint32](values, j, s.Cols, &x, from)
	case 16:
		copyColumns[uint16](values, j, s.Cols, &x, from)
	case 8:
		copyGroups(values, j, s.Cols, &x, from)
	default:
		copyCodes(values, j, s.Cols, &x, from)
	}
}

// copyLanes copies keys of d elements from different panels to keys from j on, adjacent in one
// panel.
func copyLanes[T uint16 | uint32](dst []byte, j, d int, from *[Together][]byte,
	at *[Together]Token) {
	n := (d-1)*panel + 1
	lane := func(i int) []T {
		return kernel.Elements[T](from[i])[at[i].At/panel*panel*d+at[i].At%panel:][:n]
	}
	x0, x1, x2, x3 := lane(0), lane(1), lane(2), lane(3)
	x4, x5, x6, x7 := lane(4), lane(5), lane(6), lane(7)
	to := kernel.Elements[T](dst)[j/panel*panel*d+j%panel:][:n-1+Together]
	for x := 0; x < n; x += panel {
		y := (*[Together]T)(to[x:])
		y[0], y[1], y[2], y[3] = x0[x], x1[x], x2[x], x3[x]
		y[4], y[5], y[6], y[7] = x4[x], x5[x], x6[x], x7[x]
	}
}

// copyColumns copies values of some columns, whole panels.
func copyColumns[T uint16 | uint32](dst []byte, j, cols int, from *[Together][]byte,
	at *[Together]Token) {
	for i := range Together {
		to, v := kernel.Elements[T](dst)[(j+i)*panel:], kernel.Elements[T](from[i])[at[i].At*panel:]
		for x := 0; x < cols*kernel.Block; x += panel * kernel.Block {
			*(*[panel]T)(to[x:]) = *(*[panel]T)(v[x:])
		}
	}
}

// copyGroups copies values whose columns are in groups of the integers of four tokens.
func copyGroups(dst []byte, j, cols int, from *[Together][]byte, at *[Together]Token) {
	const width = 4
	for first := 0; first < Together; first += width {
		lane := func(i int) []byte {
			i += first
			return from[i][at[i].At/width*width*cols+at[i].At%width:][:width*cols-width+1]
		}
		a, b, c, d := lane(0), lane(1), lane(2), lane(3)
		to := dst[(j+first)*cols:][:width*cols]
		for x := 0; x < len(a); x += width {
			y := (*[width]byte)(to[x:])
			y[0], y[1], y[2], y[3] = a[x], b[x], c[x], d[x]
		}
	}
}

// copyCodes copies values whose columns are in groups of the codes of eight tokens.
func copyCodes(dst []byte, j, cols int, from *[Together][]byte, at *[Together]Token) {
	const half = Together / 2
	lane := func(i int) (codes []byte, shift int) {
		of := at[i].At
		return from[i][of/8*half*cols+of%half:][:half*cols-half+1], of % 8 / half * 4
	}
	for i := range half {
		lower, down := lane(i)
		upper, up := lane(half + i)
		to := dst[j/8*half*cols+i:]
		for x := 0; x < len(lower); x += half {
			to[x] = lower[x]>>down&15 | upper[x]>>up&15<<4
		}
	}
}
