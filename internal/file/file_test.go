package file

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/seed-1415985d/attn/internal/blocks"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/packed"
	"github.com/seed-1415985d/attn/internal/views"
)

// A header of blocks says of which type they are, or is refused. What Save writes and readers
// refuse of whole files is tested in package attn.
func TestHeadersOfBlocks(t *testing.T) {
	for typ := blocks.Type(1); typ.Valid(); typ++ {
		inputs, f := typ.Traits().Inputs, firstBlockFormat+kernel.Format(typ)
		if typ.Halves() {
			refused(t, Header{Format: f, ValueFormat: f, Batch: 1, Heads: 1, Inputs: 1, Outputs: 1},
				views.ErrFormat, fmt.Sprintf("of %v, want that of numbers that lie alone, 1 or 2", typ))
			continue
		}
		for _, way := range [][2]bool{{}, {true, false}, {false, true}} {
			want := Matrix{packed.Matrix{Blocks: typ, Batch: 1, Heads: 1, Inputs: inputs, Outputs: 17},
				way[0], way[1]}
			h := want.header()
			if got, err := h.Matrix(); err != nil || got != want {
				t.Errorf("%v is read as %v, error %v", want, got, err)
			}
		}
		g := bfloat16Formats + f
		refused(t, Header{Format: g, ValueFormat: g, Mark: true, Batch: 1, Heads: 1, Inputs: inputs,
			Outputs: 17}, views.ErrFormat, fmt.Sprintf("of %v in bfloat16, with Integers, want one", typ))
		refused(t, Header{Format: f, ValueFormat: f, Batch: 1, Heads: 2, Inputs: inputs, Outputs: 17},
			views.ErrFormat, fmt.Sprintf("1 batch entries and 2 heads of %v, want 1", typ))
		refused(t, Header{Format: f, ValueFormat: f, Batch: 1, Heads: 1, Inputs: inputs + 1, Outputs: 1},
			views.ErrFormat, fmt.Sprintf("is %d, want a multiple of %d for %v", inputs+1, inputs, typ))
		refused(t, Header{Format: f, ValueFormat: f, Batch: 1, Heads: 1, Inputs: views.MaxLength,
			Outputs: views.MaxLength}, views.ErrShape, "268435456×268435456, want at most")
	}
}

// Headers of formats that no matrix has are refused, and name what came as users know it.
func TestHeadersOfMatrices(t *testing.T) {
	for _, c := range []struct {
		keys, values kernel.Format
		integers     bool
		text         string
	}{
		{kernel.I4, kernel.I4, false, "Format is 4, want 0 to 3, 5, or 33 to"},
		{firstBlockFormat, firstBlockFormat, false, "Format is 32, want"},
		{64 + 5, 64 + 5, false, "Format is 69, want"},
		{60, 60, false, "want 0 to 3, 5, or 33 to"},
		{kernel.F16, kernel.I8, false, "ValueFormat is I8, want F16 as Format"},
		{kernel.F16, 33, false, "ValueFormat is Format(33), want F16"},
		{kernel.BF16, kernel.BF16, true, "Format is BF16 with Integers, want I8"},
	} {
		refused(t, Header{Format: c.keys, ValueFormat: c.values, Mark: c.integers, Batch: 1, Heads: 1,
			Inputs: 4, Outputs: 4}, views.ErrFormat, c.text)
	}
	refused(t, Header{Batch: views.MaxLength, Heads: views.MaxLength, Inputs: 4, Outputs: 4},
		views.ErrShape, "[268435456 268435456 4 4], want at most")
}

// refused fails unless a header is no matrix, for a reason.
func refused(t *testing.T, h Header, kind error, text string) {
	t.Helper()
	if m, err := h.Matrix(); !errors.Is(err, kind) || !strings.Contains(err.Error(), text) {
		t.Errorf("%+v is %+v, error %v, want %v: … %s", h, m, err, kind, text)
	}
}
