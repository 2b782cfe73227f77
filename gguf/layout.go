package gguf

import (
	"cmp"
	"fmt"
	"slices"
)

// checkLayout makes sure that names are unique and that tensors are aligned, within the file, and
// do not overlap. It turns offsets in the data into offsets in the file.
func (h *header) checkLayout(size int64) error {
	names := map[string]bool{}
	for _, t := range h.tensors {
		if names[t.Name] {
			return fmt.Errorf("tensor %q is there twice, want it once", t.Name)
		}
		names[t.Name] = true
	}
	end := h.data
	sorted := slices.Clone(h.tensors)
	slices.SortStableFunc(sorted, func(a, b *Tensor) int { // empty ones first
		return cmp.Or(cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.Size, b.Size))
	})
	for _, t := range sorted {
		start := h.data + t.Offset
		switch {
		case t.Offset%h.align != 0:
			return fmt.Errorf("tensor %q begins at byte %d of the data, want a multiple of %d, the "+
				"alignment", t.Name, t.Offset, h.align)
		case start < end:
			return fmt.Errorf("tensor %q begins at byte %d, want %d or more, where the one before it ends",
				t.Name, start, end)
		case t.Size > size-start:
			return fmt.Errorf("tensor %q is to be bytes %d to %d, want them within the file, which has %d",
				t.Name, start, start+t.Size, size)
		}
		t.Offset, end = start, start+t.Size
	}
	return nil
}
