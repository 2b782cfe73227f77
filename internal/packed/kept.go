package packed

import "github.com/seed-1415985d/attn/internal/kernel"

// Kept is keys and values of a head of a caller's views as integers, block by block in format I8.
// As many blocks as fit in maxKeptBytes stay until the head changes, because all chunks of its rows
// read them; later ones replace each other in the last place.
type Kept struct {
	Format Blocks
	data   []byte
	kept   []bool // blocks of the head that are integers
	head   Head
	last   int // the block in the last place, -1 if there is none
}

// Head is a head of a batch entry, and the beginning of its document.
type Head struct{ B, KV, Base int }

// maxKeptBytes bounds the memory of a head: 32768 tokens of two times 128 elements.
const maxKeptBytes = 8 << 20

// Fit allocates memory for a call whose heads have some blocks, and forgets the blocks of the call
// before.
func (x *Kept) Fit(d, dv, blocks int) {
	if x.Format.D != d || x.Format.DV != dv || x.Format.Size == 0 {
		x.Format = New(kernel.I8, kernel.I8, 1, d, dv, false)
	}
	n := min(blocks, maxKeptBytes/x.Format.Size)
	x.data, x.kept = kernel.Grow(x.data, (n+1)*x.Format.Size), kernel.Grow(x.kept, n)[:n]
	x.Forget()
}

// Forget makes all places free.
func (x *Kept) Forget() { x.setHead(Head{B: -1}) }

// setHead begins with another head.
func (x *Kept) setHead(head Head) {
	x.head, x.last = head, -1
	clear(x.kept)
}

// Has reports whether a head's block with a number is kept.
func (x *Kept) Has(head Head, block int) bool {
	return x.head == head && block < len(x.kept) && x.kept[block]
}

// Place returns the place of a head's block, and whether the block is there.
func (x *Kept) Place(head Head, block int) (to []byte, made bool) {
	if x.head != head {
		x.setHead(head)
	}
	place := min(block, len(x.kept))
	if place == len(x.kept) {
		made, x.last = x.last == block, block
	} else {
		made, x.kept[place] = x.kept[place], true
	}
	return x.data[place*x.Format.Size:][:x.Format.Size], made
}

// Only returns the place of a block that belongs to no head.
func (x *Kept) Only() []byte { return x.data[:x.Format.Size] }
