//go:build !purego

package integers

import (
	"testing"

	"github.com/seed-1415985d/attn/internal/tuning"
)

// AVX-512 without VNNI has no kernels of products in integers: such a CPU takes those of AVX2 for
// any number of rows, and rows as these take them.
func TestWithoutVNNI(t *testing.T) {
	for _, cpu := range tuning.Table() {
		if cpu.ISA != tuning.AVX512 {
			continue
		}
		for _, cpu.DotProduct = range []bool{false, true} {
			for rows := 1; rows <= tuning.MaxTileRows; rows++ {
				var x Rows
				x.Fit(&cpu, 64, 1, rows)
				want := cpu.DotProduct && rows >= cpu.MinInt8Rows16
				if got := int8Lanes16(&cpu, rows); got != want || (x.Bytes != nil) != want ||
					(x.Magnitudes != nil) == want {
					t.Errorf("%s, VNNI %t, %d rows: 16 lanes %t, bytes %t, magnitudes %t, want 16 lanes %t",
						cpu.CPU, cpu.DotProduct, rows, got, x.Bytes != nil, x.Magnitudes != nil, want)
				}
			}
		}
	}
}
