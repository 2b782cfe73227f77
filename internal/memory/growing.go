package memory

import "github.com/seed-1415985d/attn/internal/stop"

const (
	// firstTaken bytes are taken at first.
	firstTaken = 1 << 20

	// ahead is how many times the bytes that have come are taken: what was taken before is copied,
	// which is then a third of all at most.
	ahead = 4
)

// Growing is memory for bytes that are still to come. What a file says of its size need not be
// true, so memory is taken as bytes come: a few times as much, and Most at the end.
type Growing struct {
	Most     int
	Together bool // it is memory of AllocateTogether
	mapping  *Mapping
	used     int
}

// Next returns the next n bytes; all together are at most Most. What was returned before may not be
// used any more. The error is that of [Allocate], and nothing has changed then.
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

// grow takes a number of bytes in place of those that there are.
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

// Mapping is the memory that was taken, nil if there is none.
func (g *Growing) Mapping() *Mapping { return g.mapping }

// Close gives the memory back.
func (g *Growing) Close() error {
	if g.mapping == nil {
		return nil
	}
	return g.mapping.Close()
}
