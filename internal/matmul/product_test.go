package matmul

import (
	"testing"

	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// Rows are divided into about equal parts, of whole tiles but for the last.
func TestPartOfRows(t *testing.T) {
	for _, even := range []int{kernel.SplitRows, tuning.AMXRows} {
		for rows := range 5 * Rows {
			step := partOfRows(rows, Rows, even)
			if step <= 0 || step > Rows || step < Rows && step%even != 0 {
				t.Fatalf("%d rows: %d at a time", rows, step)
			}
			parts, least := (rows+step-1)/step, (rows+Rows-1)/Rows
			last := rows - (parts-1)*step
			if parts != least || parts > 1 && last <= step-even*parts {
				t.Errorf("%d rows are %d parts of %d, the last one of %d; want %d parts", rows, parts, step,
					last, least)
			}
		}
	}
}
