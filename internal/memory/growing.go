package memory

import "github.com/seed-1415985d/attn/internal/stop"

const (
	// firstTaken bytes are allocated at first.
	firstTaken = 1 << 20

	// ahead is the ratio of allocated to received bytes. Growing copies the earlier bytes, which are
	// then at most a third of all.
	ahead = 4
)

// Growing is memory for bytes that are still to be read. The size in a file may be wrong, so memory
// is allocated as bytes arrive: a few times as much, and Most at the end.
type Growing struct {
	Most     int
	Together bool // it is memory of AllocateTogether
	mapping  *Mapping
	used     int
}

// Next returns the next n bytes; all together are at most Most. Earlier results must not be used
// any more. The error is the one of [Allocate], and then nothing has changed.
func (g *Growing) Next(n int) ([]byte, error) {
	from, need := g.used, g.used+n
	if g.mapping == nil || need > len(g.mapping.bytes) {
		size := g.Most
		if need < size/ahead {
			size = min(size, max(firstTaken, ahead*need))
		}
		if err := g.grow(size); err != nil {
			return nil, err
		}
	}
	g.used = need
	return g.mapping.bytes[from:need:need], nil
}

// grow replaces the memory by a larger one, and copies the bytes.
func (g *Growing) grow(bytes int) error {
	allocate := Allocate
	if g.Together {
		allocate = AllocateTogether
	}
	m, err := allocate(bytes)
	if err != nil {
		return err
	}
	if g.mapping != nil {
		stop.Copy(m.bytes, g.mapping.bytes[:g.used])
		g.Close()
	}
	g.mapping = m
	return nil
}

// Mapping returns the memory, nil if there is none.
func (g *Growing) Mapping() *Mapping { return g.mapping }

// Close releases the memory.
func (g *Growing) Close() error {
	if g.mapping == nil {
		return nil
	}
	return g.mapping.Close()
}
