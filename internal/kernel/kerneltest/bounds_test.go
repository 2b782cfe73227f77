package kerneltest

import (
	"testing"

	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/stop"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// The slowest CPU that the assembly is for, see kernel.go.
const (
	slowestHertz   = 1.5e9
	slowestLanes   = 4
	slowestRead    = 3 // cycles for 4 bytes: 2 GB/s
	longestSeconds = 100e-6
)

// What a kernel call may do at most takes no longer than 100 µs on the slowest CPU.
func TestAssemblyCallsAreShort(t *testing.T) {
	for _, c := range []struct {
		name   string
		cycles float64
	}{
		{"products", SlowestFMA() * kernel.CallProducts / slowestLanes},
		{"products with 16 lanes", SlowestFMA() * kernel.CallProducts16 / (2 * slowestLanes)},
		{"masked products", 3 * SlowestFMA() * kernel.CallMasked / slowestLanes},
		{"elements that few rows read", slowestRead * kernel.CallProducts / kernel.CallRows},
		// transposed and multiplied, and read; 8 touched beside 16
		{"keys in rows",
			kernel.CallInPlaceProducts * (3.0/slowestLanes + 1.5*slowestRead/kernel.InPlaceRows)},
		{"one chain of products", 4 * kernel.CallInner},
		{"elements packed", 2 * slowestRead * kernel.CallCopies},
		{"rows added up", (slowestRead + SlowestFMA()) * kernel.CallSums},
		{"elements of a vector function", 8 * kernel.CallElements}, // exp of 4 lanes: 32 cycles
		{"the same, subnormal on Intel", 30 * kernel.CallElements}, // exp: 30, scale and merge: 22
		{"softcaps, subnormal on Intel", 150 * kernel.CallSoftcaps},
		{"merged sums", 32 * kernel.CallElements},
		{"bytes copied or searched", 2 * slowestRead * stop.Bytes / 4},
		{"biases of a tile", (slowestRead + 2) * tuning.MaxTileRows * kernel.Block},
		{"softmax of rows", 16 * kernel.SoftmaxRows * kernel.Block},
	} {
		if s := c.cycles / slowestHertz; s > longestSeconds {
			t.Errorf("%s: %.0f µs, want at most %.0f", c.name, s*1e6, longestSeconds*1e6)
		}
	}
}
