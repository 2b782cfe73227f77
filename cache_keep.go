package attn

import (
	"runtime"

	"github.com/seed-1415985d/attn/internal/pages"
)

// Tokens that stay are moved together, as they are in packed blocks: nothing is rounded once more.

// Keep keeps some of the last tokens of every sequence and drops the others, as after the
// verification of a tree of proposed tokens, of which one path is accepted: of the tokens from
// position indices[0] on, exactly those at the positions in indices stay, moved together. It is
// what truncating to indices[0] and appending them again would give, bit for bit. No index changes
// nothing.
//
// Indices are positions, First to Len−1, in ascending order, or the error is [ErrLength] and
// nothing has changed.
func (c *Cache) Keep(indices []int) error {
	if err := c.checkOpen(); err != nil {
		return err
	}
	if err := checkKept(indices, c.first, c.length); err != nil || len(indices) == 0 {
		return err
	}
	c.packed.keep(nil, c.config.Batch, indices)
	c.length = indices[0] + len(indices)
	runtime.KeepAlive(c) // and with it its memory
	return nil
}

// Keep is [Cache.Keep] for a sequence. Pages that are shared with others are copied before tokens
// are moved to them. If the store has too few free pages for that, the error is [ErrCapacity], says
// how many are missing, and nothing has changed.
func (s *Sequence) Keep(indices []int) error {
	if err := s.beginCall(); err != nil {
		return err
	}
	defer s.endCall()
	err := checkKept(indices, s.table.First(), s.table.Len())
	if err != nil || len(indices) == 0 {
		return err
	}
	from, to := indices[0]+inPlace(indices), indices[0]+len(indices)
	if from < to {
		need, free, ok := s.store.pages.Unshare(&s.table, from, to, s.store.copyPage)
		if !ok {
			return s.store.errPages("len(indices) is %d, which", len(indices), need, free)
		}
	}
	s.store.packed.keep(&s.table, 1, indices)
	s.store.pages.Truncate(&s.table, to)
	return nil
}

// checkKept makes sure that indices are ascending positions of tokens.
func checkKept(indices []int, first, length int) error {
	for i, j := range indices {
		if j < first || j >= length {
			return fail(ErrLength, "indices[%d] is %d, want %d to %d, the positions of the tokens", i, j,
				first, length-1)
		}
		if i > 0 && j <= indices[i-1] {
			return fail(ErrLength, "indices[%d] is %d after %d, want ascending positions", i, j,
				indices[i-1])
		}
	}
	return nil
}

// inPlace is how many of the tokens that are kept, at least one, stay where they are.
func inPlace(indices []int) int {
	n := 1
	for n < len(indices) && indices[n] == indices[0]+n {
		n++
	}
	return n
}

// keep moves the tokens at some positions of each batch entry together, from the first of them on.
func (s *packedKV) keep(t *pages.Table, batch int, indices []int) {
	for i := inPlace(indices); i < len(indices); i++ {
		from, to := indices[i], indices[0]+i
		for entry := range batch {
			for h := range s.heads {
				x := s.data[s.offsetOf(t, entry, h, to):][:s.block]
				y := s.data[s.offsetOf(t, entry, h, from):][:s.block]
				s.moveKey(x[:s.keyBytes], to%Block, y[:s.keyBytes], from%Block)
				if !s.valuesInKeys {
					s.moveValue(x[s.keyBytes:], to%Block, y[s.keyBytes:], from%Block)
				}
			}
		}
	}
}

// moveKey copies key from of the keys y of a block to key to of the keys x.
func (s *packedKV) moveKey(x []byte, to int, y []byte, from int) {
	n := roundUp(s.d, s.k.whole) * s.k.bits / 32 // groups are moved as one element
	if s.k.bits == 16 {
		n = s.d
	}
	at, of := to/panel*panel*n+to%panel, from/panel*panel*n+from%panel
	if s.k.bits == 16 {
		moveEach(elements[uint16](x)[at:], elements[uint16](y)[of:], n, panel)
	} else {
		moveEach(elements[uint32](x)[at:], elements[uint32](y)[of:], n, panel)
	}
	s.k.moveScale(x, to, y, from)
}

// moveValue copies value from of the values y of a block to value to of the values x.
func (s *packedKV) moveValue(x []byte, to int, y []byte, from int) {
	s.v.moveScale(x, to, y, from)
	switch s.v.format {
	case I8:
		moveEach(x[to/4*4*s.cols+to%4:], y[from/4*4*s.cols+from%4:], s.cols, 4)
	case I4:
		layout := s.valueLayout(Block)
		for c := range s.cols {
			setCode(x, placeOf(I4, &layout, to, c), codeAt(y, placeOf(I4, &layout, from, c)))
		}
	default:
		for c := 0; c < s.cols; c += panel {
			at, of := (c*Block+to*panel)*s.v.bytes, (c*Block+from*panel)*s.v.bytes
			copy(x[at:][:panel*s.v.bytes], y[of:])
		}
	}
}

// moveScale copies the scale of a token, if keys or values x and y of blocks have scales.
func (s *packedSide) moveScale(x []byte, to int, y []byte, from int) {
	if s.scaled {
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
