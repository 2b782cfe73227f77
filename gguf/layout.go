package gguf

import (
	"cmp"
	"fmt"
	"slices"
)

// checkLayout makes sure that names are unique and that tensors are aligned, within the file, and
// do not overlap: a file may number its types in another way, with blocks of other sizes. It turns
// offsets in the data into offsets in the file.
func (h *header) checkLayout(size int64) error {
	names := map[string]bool{}
	for _, t := range h.tensors {
		if names[t.Name] {
			return fmt.Errorf("tensor %q is there twice, want it once", t.Name)
		}
		names[t.Name] = true
		if t.Offset%h.align != 0 {
			return fmt.Errorf("tensor %q begins at byte %d of the data, want a multiple of %d, the "+
				"alignment", t.Name, t.Offset, h.align)
		}
	}
	sorted := slices.Clone(h.tensors)
	slices.SortStableFunc(sorted, func(a, b *Tensor) int { // empty ones first
		return cmp.Or(cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.Size, b.Size))
	})
	for i, t := range sorted {
		limit, where := size, fmt.Sprintf("within the file, which has %d", size)
		if i+1 < len(sorted) {
			next := sorted[i+1]
			if at := h.data + next.Offset; at < limit {
				limit, where = at, fmt.Sprintf("before tensor %q, at byte %d", next.Name, at)
			}
		}
		t.Offset += h.data
		if end := t.Offset + t.Size; end > limit {
			return fmt.Errorf("tensor %q has %d bytes as %v, but room for %d: it is to be bytes %d to %d, "+
				"want them %s", t.Name, t.Size, t.Type, max(0, limit-t.Offset), t.Offset, end, where)
		}
	}
	return nil
}
