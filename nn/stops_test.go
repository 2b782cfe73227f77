package nn

import (
	"bytes"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/sanitize"
	"github.com/seed-1415985d/attn/internal/stop/stoptest"
)

// shortFunctions need no more time for more memory, or are measured by their operations: Conv.Fork
// copies as Conv.Checkpoint does, but to new memory, whose pages the system clears in one go.
const shortFunctions = `NewRope NewRopeTables NewConv Conv.Len Conv.Fork RopeScalingType.String
	Activation.String Log`

// TestStopsOfTheWorld measures how long a stop of the world waits for each public function that may
// run long.
func TestStopsOfTheWorld(t *testing.T) {
	if testing.Short() || sanitize.Enabled || !isa.SIMD() {
		t.Skip("an emulated CPU has other times, a sanitizer looks at all of an operand at once, and " +
			"Go code may stop anywhere")
	}
	r := rand.New(rand.NewPCG(1, 1))
	const d = 1 << 18
	x, dst, huge := randomTensor(r, 1, 1, 4, d), zeros(1, 1, 4, d), zeros(1, 1, 4, d)
	for i := range huge.Data {
		huge.Data[i] = 0x1p+60
	}
	pool := attn.NewPool(0)
	stoptest.Check(t, shortFunctions, func(yield func(function, of string, run func() error)) {
		for _, c := range calls(t, r, d/64, 256) {
			a, to := attn.BHLD(x.Data, 1, 1, 256, d/64), attn.BHLD(dst.Data, 1, 1, 256, d/64)
			name := c.name
			for _, of := range []string{"Activate", "Gate"} {
				if len(name) > len(of) && name[:len(of)+1] == of+" " {
					name = of
				}
			}
			yield(name, c.name, func() error { return c.run(nil, to, a, a) })
			yield(name, c.name+" on a pool", func() error { return c.run(pool, to, a, a) })
		}
		convCalls(t, r, yield)
		maxSimCalls(t, r, yield)
		yield("Combine", "", func() error {
			return Combine(nil, attn.BHLD(dst.Data, 1, 2, 1, d), attn.BHLD(x.Data, 1, 4, 1, d),
				attn.BHLD(huge.Data, 1, 2, 1, 4))
		})
		yield("Combine", "many rows", func() error {
			return Combine(nil, attn.BHLD(dst.Data, 1, 4, 1, 8), attn.BHLD(x.Data, 1, d/2, 1, 8),
				attn.BHLD(huge.Data, 1, 4, 1, d/2))
		})
		yield("RMSNorm", "long rows", func() error { return RMSNorm(nil, dst, x, nil, 1e-5) })
		yield("L2Norm", "rows that are scaled", func() error { return L2Norm(nil, dst, huge, 1e-5) })
		yield("LayerNorm", "rows that are scaled", func() error {
			return LayerNorm(nil, dst, huge, nil, nil, 1e-5)
		})
	})
	must(t, pool.Close())
}

// convCalls are calls with so many channels that each row has megabytes.
func convCalls(t *testing.T, r *rand.Rand, yield func(function, of string, run func() error)) {
	const channels, width, l = 1 << 18, 4, 4
	c := convOf(t, r, channels, width, SiLU)
	x, dst, last := randomTensor(r, 1, 1, l, channels), zeros(1, 1, l, channels),
		zeros(1, 1, width-1, channels)
	convs, lens := []*Conv{c}, []int{l}
	c.Checkpoint()
	var file bytes.Buffer
	_, err := c.Save(&file)
	must(t, err)
	yield("Conv.Append", "", func() error { return c.Append(nil, dst, x) })
	yield("AppendConvs", "", func() error { return AppendConvs(nil, dst, x, convs, lens) })
	yield("Conv.Start", "", func() error { c.Reset(); return c.Start(last) })
	yield("Conv.Read", "", func() error { return c.Read(last) })
	yield("Conv.Checkpoint", "", func() error { c.Checkpoint(); return nil })
	yield("Conv.Truncate", "", func() error { return c.Truncate(0) })
	yield("Conv.Save", "", func() error { _, err := c.Save(io.Discard); return err })
	yield("Conv.Load", "", func() error {
		_, err := c.Load(bytes.NewReader(file.Bytes()))
		return err
	})
	yield("Conv.Reset", "", func() error { c.Reset(); return nil })
}

// maxSimCalls have long vectors, and many documents.
func maxSimCalls(t *testing.T, r *rand.Rand, yield func(function, of string, run func() error)) {
	long, many := randomTensor(r, 1, 1, 70, 1<<14), randomTensor(r, 1, 1, 1<<15, 32)
	query := attn.BHLD(many.Data, 1, 1, 40, 32)
	dst, lens := make([]float32, 1<<14), make([]int, 1<<14)
	for i := range lens {
		lens[i] = 2
	}
	matrix, err := attn.PackMatrix(many, attn.MatrixConfig{Transposed: true})
	must(t, err)
	yield("MaxSim", "long vectors", func() error { return MaxSim(nil, dst[:1], long, long, nil) })
	yield("MaxSim", "many documents", func() error { return MaxSim(nil, dst, query, many, lens) })
	yield("MaxSimMatrix", "", func() error { return MaxSimMatrix(nil, dst, query, matrix, lens) })
}
