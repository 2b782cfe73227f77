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

// mustNotAllocate runs f until its memory is there and then checks that it needs no more.
func mustNotAllocate(t *testing.T, what string, f func()) {
	t.Helper()
	f()
	if n := allocations(20, f); n != 0 {
		t.Errorf("%s: %d allocations in 20 calls, want 0", what, n)
	}
}

// mustHardlyAllocate is mustNotAllocate for a pool. The runtime has memory for each goroutine that
// waits, which it keeps for each processor, and gets more now and then.
func mustHardlyAllocate(t *testing.T, what string, f func()) {
	t.Helper()
	for range 10 {
		f() // until every worker has had its share
	}
	if n := allocations(10, f); n > 3 {
		t.Errorf("%s: %d allocations in 10 calls, want none, or a few of the runtime", what, n)
	}
}

// The buffers are on the stack: a cache call must not move them to the heap.
func TestCacheDoesNotAllocate(t *testing.T) {
	c, err := NewCache(CacheConfig{Batch: 1, KVHeads: 2, HeadDim: 8, ValueDim: 8, Capacity: 3000})
	must(t, err)
	mustNotAllocate(t, "Append and Attend", func() {
		var q, dst [4 * 8]float32
		var k, v [2 * 8]float32
		var lse [4]float32
		for range 3 {
			if c.Append(BHLD(k[:], 1, 2, 1, 8), BHLD(v[:], 1, 2, 1, 8)) != nil {
				t.Error("Append failed")
			}
		}
		if c.Attend(BHLD(dst[:], 1, 4, 1, 8), BHLD(q[:], 1, 4, 1, 8), &Options{LSE: lse[:]}) != nil {
			t.Error("Attend failed")
		}
		if c.Truncate(c.Len()-2) != nil {
			t.Error("Truncate failed")
		}
	})
}

func TestPoolDoesNotAllocate(t *testing.T) {
	shareSmallCalls(t)
	for i, c := range poolCases(t) {
		if testing.Short() && i%3 != 0 {
			continue
		}
		p := NewPool(3)
		dst, lse := BHLD(nans(len(c.want)), c.b, c.h, c.lq, c.dv), nans(len(c.wantLSE))
		opt := c.opt
		opt.LSE = lse
		call := func() {
			if p.Attend(dst, c.q, c.k, c.v, &opt) != nil {
				t.Error("Attend failed")
			}
		}
		mustHardlyAllocate(t, c.name, call)
		must(t, p.Close())
	}
}

func TestPoolDoesNotAllocateOverCache(t *testing.T) {
	shareSmallCalls(t)
	c, err := filled(tensor(random("cache"), normal, 1, 2, 3*Segment, 8), tensor(random("cache"), normal, 1, 2, 3*Segment, 8))
	must(t, err)
	p := NewPool(3)
	defer p.Close()
	q, dst := make([]float32, 4*8), make([]float32, 4*8)
	mustHardlyAllocate(t, "AttendCache", func() {
		if p.AttendCache(BHLD(dst, 1, 4, 1, 8), BHLD(q, 1, 4, 1, 8), c, nil) != nil {
			t.Error("AttendCache failed")
		}
	})
}

// After Reset a state works in the memory that it has.
func TestStateDoesNotAllocate(t *testing.T) {
	s, err := NewState(1, 2, 1, 8)
	must(t, err)
	part, err := NewState(1, 2, 1, 8)
	must(t, err)
	var kData [(Segment + Block) * 8]float32
	mustNotAllocate(t, "State", func() {
		var q, dst [2 * 8]float32
		var k [Block * 8]float32
		var lse, sinks [2]float32
		opt := Options{Causal: TopLeft, Offset: 3 * Segment, Sinks: sinks[:]}
		s.Reset()
		part.Reset()
		keys, more := BHLD(kData[:], 1, 1, Segment+Block, 8), BHLD(k[:], 1, 1, Block, 8)
		if s.Update(BHLD(q[:], 1, 2, 1, 8), keys, keys, &opt) != nil || s.Update(BHLD(q[:], 1, 2, 1, 8), more, more, &opt) != nil {
			t.Error("Update failed")
		}
		if part.Update(BHLD(q[:], 1, 2, 1, 8), more, more, &opt) != nil || s.Merge(part) != nil {
			t.Error("Merge failed")
		}
		if s.Finish(BHLD(dst[:], 1, 2, 1, 8), lse[:]) != nil {
			t.Error("Finish failed")
		}
	})
}

func TestMatMulDoesNotAllocate(t *testing.T) {
	m, err := PackMatrix(BHLD(make([]float32, 9*20), 1, 1, 9, 20))
	must(t, err)
	mustNotAllocate(t, "MatMul", func() {
		var a [7 * 9]float32
		var b [9 * 20]float32
		var dst [7 * 20]float32
		var bias [20]float32
		if MatMul(BHLD(dst[:], 1, 1, 7, 20), BHLD(a[:], 1, 1, 7, 9), BHLD(b[:], 1, 1, 9, 20)) != nil ||
			m.MatMul(BHLD(dst[:], 1, 1, 7, 20), BHLD(a[:], 1, 1, 7, 9), bias[:]) != nil {
			t.Error("MatMul failed")
		}
	})
	pool := NewPool(2)
	defer pool.Close()
	size := 300
	if testing.Short() {
		size = 150
	}
	square := func() Tensor { return BHLD(make([]float32, size*size), 1, 1, size, size) }
	large, err := PackMatrix(square())
	must(t, err)
	dst, a := square(), square()
	mustHardlyAllocate(t, "Pool.MatMul", func() {
		if pool.MatMul(dst, a, large, nil) != nil {
			t.Error("MatMul failed")
		}
	})
}

// Reading in order does not allocate, from views or from a cache.
func TestNoAllocationInOrder(t *testing.T) {
	readingAs(t, sequentialReads)
	forEach(t, func(t *testing.T) {
		p := newProblem(random("no allocation"), normal, shape{1, 1, 1, 1, 300, 8, 8})
		c, err := NewCache(CacheConfig{Batch: 1, KVHeads: 1, HeadDim: 8, ValueDim: 8, Capacity: 300})
		must(t, err)
		must(t, c.Append(p.k, p.v))
		mustRunWithoutAllocation(t, func() error {
			var dst [8]float32
			o := BHLD(dst[:], 1, 1, 1, 8)
			if err := Attend(o, p.q, p.k, p.v, nil); err != nil {
				return err
			}
			return c.Attend(o, p.q, nil)
		})
	})
}
