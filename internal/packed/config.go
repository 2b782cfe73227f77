package packed

import (
	"fmt"

	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/views"
)

// Config is the configuration of the blocks of a cache or store, with the names of the public
// configuration.
type Config struct {
	Name           string // of the configuration
	Sizes          []Size // by name, in the order of checks
	Format, Values kernel.Format
	ValuesInKeys   bool

	Batch, Heads, D, DV int
	Blocks              int // of each head
}

// Size is a named size of a configuration.
type Size struct {
	Name string
	N    int
}

// Open validates a configuration and returns blocks with memory.
func (c *Config) Open() (s Blocks, err error) {
	values := c.Values
	switch {
	case !c.Format.Valid():
		return s, views.Fail(views.ErrOption, "%s.Format is %v, want F32, F16, BF16, I8 or I4", c.Name,
			c.Format)
	case !values.Valid():
		return s, views.Fail(views.ErrOption, "%s.ValueFormat is %v, want F16, BF16, I8, I4, or 0 for "+
			"Format", c.Name, values)
	case values == kernel.F32:
		values = c.Format
	}
	if c.ValuesInKeys && values != c.Format {
		return s, views.Fail(views.ErrOption, "%s.ValueFormat is %v with ValuesInKeys, want 0 or "+
			"Format, %v", c.Name, values, c.Format)
	}
	for _, size := range c.Sizes {
		if size.N < 1 || size.N > views.MaxLength {
			return s, views.Fail(views.ErrShape, "%s.%s is %d, want 1 to %d", c.Name, size.Name, size.N,
				views.MaxLength)
		}
	}
	if c.ValuesInKeys && c.DV > c.D {
		return s, views.Fail(views.ErrShape, "%s.ValueDim is %d with ValuesInKeys, want at most "+
			"HeadDim, %d", c.Name, c.DV, c.D)
	}
	s = New(c.Format, values, c.Heads, c.D, c.DV, c.ValuesInKeys)
	kept := c.DV
	if c.ValuesInKeys {
		kept = 0
	}
	if !s.Fits(c.Batch, c.Blocks, views.MaxElements) {
		return s, views.Fail(views.ErrShape, "%s is %d×%d×%d×%d×(%d+%d) elements of %v, want at most %d "+
			"bytes", c.Name, c.Batch, c.Heads, c.Blocks, kernel.Block, c.D, kept, s.Formats(),
			4*views.MaxElements)
	}
	if err := s.Allocate(c.Batch, c.Blocks); err != nil {
		return s, views.Fail(views.ErrMemory, "%s is %d×%d×%d×%d×(%d+%d) elements of %v: %v", c.Name,
			c.Batch, c.Heads, c.Blocks, kernel.Block, c.D, kept, s.Formats(), err)
	}
	return s, nil
}

// Formats names the formats of keys and values.
func (s *Blocks) Formats() string {
	if s.K.Format == s.V.Format {
		return s.K.Format.String()
	}
	return s.K.Format.String() + " and " + s.V.Format.String()
}

// String describes the blocks.
func (s *Blocks) String() string {
	in := ""
	if s.ValuesInKeys {
		in = ", values in keys"
	}
	return fmt.Sprintf("%d heads of %d and %d dimensions in %s%s", s.Heads, s.D, s.DV, s.Formats(),
		in)
}
