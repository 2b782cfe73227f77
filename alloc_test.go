//go:build !race && !asan && !msan

// With the race detector sync.Pool drops memory at random, on purpose; for the
// other sanitizers the compiler moves local variables to the heap.

package attn

import (
	"math"
	"runtime"
	"runtime/debug"
	"testing"
)

// hotPaths calls every public function that a program calls again and again,
// with buffers on its own stack.
var hotPaths = []struct {
	name string
	call func() error
}{
	{"Attend", func() error {
		var q, k, v, dst [2 * 5 * 8]float32
		view := func(x []float32) Tensor { return BHLD(x, 1, 2, 5, 8) }
		return Attend(view(dst[:]), view(q[:]), view(k[:]), view(v[:]), nil)
	}},
	{"Attend with options", func() error {
		var q, k, v, dst [2 * 5 * 8]float32
		mask := [5 * 5]bool{0: true, 5: true, 6: true, 11: true, 12: true}
		var bias, weights [2 * 5 * 5]float32
		var slopes, sinks [2]float32
		var lse [2 * 5]float32
		lens := [1]int{4}
		m, b, w := BHLD(mask[:], 1, 1, 5, 5), BHLD(bias[:], 1, 2, 5, 5), BHLD(weights[:], 1, 2, 5, 5)
		view := func(x []float32) Tensor { return BLHD(x, 1, 5, 2, 8) }
		return Attend(view(dst[:]), view(q[:]), view(k[:]), view(v[:]), &Options{
			Scale: 1, Causal: TopLeft, Offset: 1, Window: &Window{2, 1}, Softcap: 5, Mask: &m, Bias: &b,
			Slopes: slopes[:], Sinks: sinks[:], QueryLens: lens[:], KeyLens: lens[:], LSE: lse[:], Weights: &w,
		})
	}},
	{"Attend on large buffers", func() error {
		var q, k, v, dst [1 * 70 * 24]float32
		view := func(x []float32) Tensor { return BHLD(x, 1, 1, 70, 24) }
		return Attend(view(dst[:]), view(q[:]), view(k[:]), view(v[:]), &Options{Causal: BottomRight})
	}},
	{"Dot", func() error {
		var a, b [100]float32
		return use32(Dot(a[:], b[:]))
	}},
	{"Max", func() error {
		var x [100]float32
		return use32(Max(x[:]))
	}},
	{"Exp", func() error {
		var dst, x [100]float32
		Exp(dst[:], x[:])
		return use32(dst[0])
	}},
	{"ExpSum", func() error {
		var dst, x [100]float32
		return use32(ExpSum(dst[:], x[:], 1))
	}},
	{"Softmax", func() error {
		var dst, x [100]float32
		Softmax(dst[:], x[:])
		return use32(dst[0])
	}},
	{"LogSumExp", func() error {
		var x [100]float32
		return use32(LogSumExp(x[:]))
	}},
	{"Implementation", func() error { return use32(float32(len(Implementation()))) }},
}

func TestNoAllocation(t *testing.T) {
	forEach(t, func(t *testing.T) {
		for _, path := range hotPaths {
			t.Run(path.name, func(t *testing.T) { mustRunWithoutAllocation(t, path.call) })
		}
	})
}

func mustRunWithoutAllocation(t *testing.T, call func() error) {
	t.Helper()
	if err := call(); err != nil { // makes the scratch memory
		t.Fatal(err)
	}
	if n := allocations(200, func() { call() }); n != 0 {
		t.Errorf("%d allocations in 200 calls, want 0", n)
	}
}

// allocations of some calls of f, on all processors, without the garbage collector, which empties the
// pool of scratch memory. The runtime allocates now and then, so the least of a few counts.
func allocations(calls int, f func()) uint64 {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	least := uint64(math.MaxUint64)
	for range 5 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range calls {
			f()
		}
		runtime.ReadMemStats(&after)
		if least = min(least, after.Mallocs-before.Mallocs); least == 0 {
			break
		}
	}
	return least
}

// Attending over a cache and appending to it need no memory either.
func TestNoAllocationOverCache(t *testing.T) {
	forEach(t, func(t *testing.T) {
		c, err := NewCache(CacheConfig{Batch: 1, KVHeads: 2, HeadDim: 8, ValueDim: 8, Capacity: 1000})
		if err != nil {
			t.Fatal(err)
		}
		mustRunWithoutAllocation(t, func() error {
			var q, k, v, dst [2 * 3 * 8]float32
			view := func(x []float32) Tensor { return BHLD(x, 1, 2, 3, 8) }
			if err := c.Append(view(k[:]), view(v[:])); err != nil {
				return err
			}
			if c.Len() > 500 {
				if err := c.Truncate(10); err != nil {
					return err
				}
			}
			return c.Attend(view(dst[:]), view(q[:]), &Options{Causal: BottomRight})
		})
	})
}
