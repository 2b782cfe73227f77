package attn

import (
	"github.com/seed-1415985d/attn/internal/packed"
	"github.com/seed-1415985d/attn/internal/pages"
)

// source is where the keys and values of a call come from: views of the caller, or blocks of a
// cache or store, which are packed already.
type source struct {
	k, v   Tensor
	packed *packed.Blocks // if not nil, instead of views
	table  *pages.Table   // of the call's only sequence, nil if there is none or there are several
	first  int            // tokens before this position of the cache or sequence were dropped
}

// writeTokens writes the tokens of one batch entry of k and v from position at on: to the pages of
// a table, or where there is none, to the blocks of the batch entry.
func writeTokens(w *packed.Writer, s *packed.Blocks, t *pages.Table, k, v *Tensor, entry, at int) {
	w.Fit(s)
	for h := range k.H {
		for i := 0; i < k.L; {
			j := at + i
			n := min(k.L-i, Block-j%Block)
			x := s.Data[s.OffsetOf(t, entry, h, j):][:s.Size]
			w.WriteKeys(&tuned, s, x, j%Block, k.Data[k.offset(entry, h, i):], k.SL, n)
			if !s.ValuesInKeys {
				w.WriteValues(&tuned, s, x, j%Block, v.Data[v.offset(entry, h, i):], v.SL, n)
			}
			i += n
		}
	}
}

// readTokens decodes tokens from position from on into one batch entry of k and v.
func readTokens(s *packed.Blocks, t *pages.Table, k, v *Tensor, entry, from int) {
	for h := range k.H {
		for i := range k.L {
			j := from + i
			x := s.Data[s.OffsetOf(t, entry, h, j):][:s.Size]
			s.ReadKey(tuned.ISA, k.row(entry, h, i), x, j%Block)
			if !s.ValuesInKeys {
				s.ReadValue(tuned.ISA, v.row(entry, h, i), x, j%Block)
			}
		}
	}
}
