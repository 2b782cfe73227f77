package attn

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/seed-1415985d/attn/internal/tuning"
)

// levelKinds are data with the errors, in per cent, that a model of the definition in float64 gives
// for D = 64 and 128, and for each 512 and 4096 keys: of I8 with values in I4, and of I4.
var levelKinds = []struct {
	outliers
	spread         float32 // of queries
	values         float32 // of values in channels with outliers
	mixed, levels  [4]float64
	mixedI, levelI [4]float64 // with integers
}{
	{outliers{"normal", 1, 1}, 1, 1, [4]float64{8.96, 8.77, 9.14, 9.16},
		[4]float64{12.84, 12.83, 12.91, 13.13}, [4]float64{8.98, 8.80, 9.16, 9.18},
		[4]float64{12.85, 12.84, 12.94, 13.14}},
	{outliers{"peaked: queries ×4", 1, 1}, 4, 1, [4]float64{8.97, 9.07, 9.27, 9.36},
		[4]float64{22.76, 26.61, 22.61, 23.20}, [4]float64{9.06, 9.17, 9.37, 9.48},
		[4]float64{22.79, 26.61, 22.58, 23.26}},
	{outliers{"keys ×10", 10, 1}, 1, 1, [4]float64{8.97, 8.93, 9.27, 9.43},
		[4]float64{23.04, 27.01, 21.97, 25.45}, [4]float64{9.00, 8.98, 9.33, 9.50},
		[4]float64{23.06, 27.00, 22.01, 25.27}},
	{outliers{"keys ×10, queries ÷10", 10, 0.1}, 1, 1, [4]float64{9.07, 8.87, 9.27, 9.07},
		[4]float64{18.92, 19.39, 19.42, 19.48}, [4]float64{9.14, 8.96, 9.36, 9.15},
		[4]float64{18.96, 19.45, 19.47, 19.51}},
	{outliers{"values ×10", 1, 1}, 1, 10, [4]float64{8.53, 8.04, 9.04, 8.49},
		[4]float64{12.78, 12.25, 13.16, 12.71}, [4]float64{8.56, 8.07, 9.06, 8.51},
		[4]float64{12.79, 12.25, 13.19, 12.73}},
}

// What levels of four bits do to outputs. The table of docs/low-precision.md is what this test
// prints.
func TestLowPrecisionLevels(t *testing.T) {
	var table strings.Builder
	table.WriteString("| data | D | keys | I8 | I8, values in I4 | I4 | I8, values in I4, Integers " +
		"| I4, Integers |\n|---|---:|---:|---:|---:|---:|---:|---:|\n")
	for _, kind := range levelKinds {
		for i, size := range [][2]int{{64, 512}, {64, 4096}, {128, 512}, {128, 4096}} {
			d, keys := size[0], size[1]
			if keys > 512 && (few() || tuned.ISA == tuning.Generic) { // which would take minutes
				continue
			}
			p := newProblem(random(fmt.Sprint("levels ", d, keys)), normal, shape{1, 8, 1, 96, keys, d, d})
			scaleChannels(&p.k, kind.factor)
			scaleChannels(&p.q, kind.queries)
			scaleChannels(&p.v, kind.values)
			scaleBy(p.q.Data, kind.spread)
			want := p.solve(t, Attend).o
			fmt.Fprintf(&table, "| %s | %d | %d |", kind.name, d, keys)
			for _, c := range []struct {
				pair     formatPair
				integers bool
				model    float64
			}{{formatPair{I8, I8}, false, 0}, {formatPair{I8, I4}, false, kind.mixed[i]},
				{formatPair{I4, I4}, false, kind.levels[i]}, {formatPair{I8, I4}, true, kind.mixedI[i]},
				{formatPair{I4, I4}, true, kind.levelI[i]}} {
				p.opt.Integers = c.integers
				e := 100 * relativeError(p.solve(t, waysIn(c.pair)["Cache"]).o, want)
				fmt.Fprintf(&table, " %.2f %% |", e)
				if c.model > 0 && math.Abs(e-c.model) > 0.15*c.model {
					t.Errorf("%s, D = %d, %d keys, %v, Integers %t: the error is %.2f %%, the model's %.2f %%",
						kind.name, d, keys, c.pair, c.integers, e, c.model)
				}
			}
			p.opt.Integers = false
			table.WriteString("\n")
		}
	}
	t.Logf("relative errors of outputs (root mean square):\n%s", table.String())
	documented(t, table.String(), " D | keys |", " 128 | 512 |")
}
