//go:build !race && !asan && !msan

// With the race detector sync.Pool drops memory at random, on purpose. With the
// other sanitizers the compiler moves local variables to the heap.

package attn

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
	"unsafe"

	"github.com/seed-1415985d/attn/internal/kernel/narrow"
	"github.com/seed-1415985d/attn/internal/matmul"
	"github.com/seed-1415985d/attn/internal/tuning"
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
		lens, buckets := [1]int{4}, [3]int32{1, 0, 2}
		var near [2 * 5 * 3]float32
		m, b, w := BHLD(mask[:], 1, 1, 5, 5), BHLD(bias[:], 1, 2, 5, 5), BHLD(weights[:], 1, 2, 5, 5)
		view := func(x []float32) Tensor { return BLHD(x, 1, 5, 2, 8) }
		return Attend(view(dst[:]), view(q[:]), view(k[:]), view(v[:]), &Options{
			Scale: 1, Causal: TopLeft, Offset: 1, Window: Window{3, 2}, Softcap: 5, Mask: m, Bias: b,
			Distance: Distance{Query: BHLD(near[:6], 1, 2, 1, 3), Key: BHLD(near[:], 1, 2, 5, 3),
				Buckets: buckets[:]},
			Slopes: slopes[:], Sinks: sinks[:], QueryLens: lens[:], KeyLens: lens[:], LSE: lse[:],
			Weights: w,
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
	{"Widen", func() error {
		var dst [100]float32
		var src [100]uint16
		Narrow(src[:], dst[:], F16)
		Widen(dst[:], src[:], BF16)
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
			t.Run(path.name, func(t *testing.T) { mustNotAllocate(t, path.call) })
		}
	})
}

// mustNotAllocate makes a call once, which may make memory, and fails the test if more calls need
// more.
func mustNotAllocate(t *testing.T, call func() error) {
	t.Helper()
	must(t, call())
	if n := allocations(100, func() { must(t, call()) }); n != 0 {
		t.Errorf("%d allocations in 100 calls, want 0", n)
	}
}

// mustNotAllocateInPool is mustNotAllocate for a pool, whose workers may each get their first share
// late.
func mustNotAllocateInPool(t *testing.T, call func() error) {
	t.Helper()
	for range 10 {
		must(t, call()) // until every worker has had its share
	}
	if n := allocations(10, func() { must(t, call()) }); n != 0 {
		t.Errorf("%d allocations in 10 calls, want 0", n)
	}
}

// allocations counts the allocations of some calls of f, on all processors, while the garbage
// collector rests: it would empty the pool of scratch memory. The runtime itself allocates now and
// then, so the least of a few counts is returned.
func allocations(calls int, f func()) uint64 {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	stockWaits()
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

// stockWaits makes many goroutines wait at once. The runtime keeps what describes a waiting
// goroutine at the processor where it stops waiting, some hundred at each before any are shared: a
// processor where only waits begin would otherwise have the runtime allocate for every call.
func stockWaits() {
	const waits = 1000
	var done sync.WaitGroup
	gate := make(chan struct{})
	for range waits {
		done.Go(func() { <-gate })
	}
	for range waits {
		gate <- struct{}{}
	}
	done.Wait()
}

// Few rows may read their keys and values sequentially, from views and from a cache.
func TestNoAllocationInSequentialReads(t *testing.T) {
	forEach(t, func(t *testing.T) {
		readingAs(t, tuning.SequentialReads)
		p := newProblem(random("no allocation"), normal, shape{1, 1, 1, 1, 300, 8, 8})
		c, err := filled(p.k, p.v)
		must(t, err)
		mustNotAllocate(t, func() error {
			var dst [8]float32
			o := BHLD(dst[:], 1, 1, 1, 8)
			return errors.Join(Attend(o, p.q, p.k, p.v, nil), c.Attend(o, p.q, nil))
		})
	})
}

// A call over a cache must not move buffers from the stack to the heap, be the cache itself on the
// heap or not.
func TestNoAllocationInCache(t *testing.T) {
	forEach(t, func(t *testing.T) { testNoAllocationInCache(t, 1000) })
	testNoAllocationInCache(t, 100000)
}

// Nor over a cache whose values are part of keys, in a store and by a State, with few rows and
// many.
func TestNoAllocationOverLatentVectors(t *testing.T) {
	forEach(t, func(t *testing.T) {
		for _, kind := range allFormats {
			c, err := NewCache(CacheConfig{Batch: 1, KVHeads: 1, HeadDim: 24, ValueDim: 16, Capacity: 100,
				Format: kind, ValuesInKeys: true})
			must(t, err)
			s := sequenceOf(t, StoreConfig{KVHeads: 1, HeadDim: 24, ValueDim: 16, Pages: 3, Format: kind,
				ValuesInKeys: true})
			state, err := NewState(StateConfig{1, 20, 1, 16})
			must(t, err)
			seqs, both := []*Sequence{s}, []*Sequence{s, s}
			mustNotAllocate(t, func() error {
				var q [20 * 24]float32
				var dst [20 * 16]float32
				var k [3 * 24]float32
				queries := func(n int) Tensor { return BHLD(q[:], 1, n, 1, 24) }
				out := func(n int) Tensor { return BHLD(dst[:], 1, n, 1, 16) }
				keys, opt := BHLD(k[:], 1, 1, 3, 24), &Options{Causal: BottomRight}
				state.Reset()
				return errors.Join(c.Truncate(c.Len()%90), c.Append(keys, Tensor{}),
					c.Read(keys, Tensor{}, 0), c.Attend(out(2), queries(2), opt),
					c.Attend(out(20), queries(20), opt),
					s.Truncate(s.Len()%90), s.Append(keys, Tensor{}),
					AttendSequences(out(20), queries(20), seqs, opt),
					state.UpdateSequence(queries(20), s, nil),
					state.UpdateSequences(queries(20), both, nil), state.Finish(out(20), nil))
			})
		}
	})
}

func testNoAllocationInCache(t *testing.T, capacity int) {
	c, err := NewCache(CacheConfig{Batch: 1, KVHeads: 2, HeadDim: 8, ValueDim: 8, Capacity: capacity})
	must(t, err)
	mustNotAllocate(t, func() error {
		var q, dst [4 * 3 * 8]float32
		var k, v [2 * 3 * 8]float32
		var lse [4 * 3]float32
		queries := func(x []float32) Tensor { return BHLD(x, 1, 4, 3, 8) }
		tokens := func(x []float32) Tensor { return BHLD(x, 1, 2, 3, 8) }
		return errors.Join(
			c.Truncate(c.First()+(c.Len()-c.First())%500),
			c.DropBefore(max(c.First(), c.Len()-100)),
			c.Append(tokens(k[:]), tokens(v[:])),
			c.Keep([]int{c.Len() - 3, c.Len() - 1}),
			c.Attend(queries(dst[:]), queries(q[:]), &Options{Causal: BottomRight, LSE: lse[:]}))
	})
}

// Sequences grow, share and shrink in the memory that the store has.
func TestNoAllocationInStore(t *testing.T) {
	store, err := NewStore(StoreConfig{KVHeads: 2, HeadDim: 8, ValueDim: 8, Pages: 40})
	must(t, err)
	first := store.NewSequence()
	must(t, first.Append(zeros(1, 2, 200, 8), zeros(1, 2, 200, 8)))
	seqs := []*Sequence{first, first.Fork(), store.NewSequence()}
	mustNotAllocate(t, func() error {
		var q, dst [4 * 4 * 8]float32
		var k, v [2 * 3 * 8]float32
		var lse [4 * 4]float32
		queries := func(x []float32) Tensor { return BHLD(x, 1, 4, 4, 8) }
		tokens := func(x []float32) Tensor { return BHLD(x, 1, 2, 3, 8) }
		lens := [3]int{2, 1, 1}
		opt := &Options{Causal: BottomRight, LSE: lse[:], QueryLens: lens[:]}
		return errors.Join(
			seqs[1].Truncate(200),
			seqs[1].Append(tokens(k[:]), tokens(v[:])),
			seqs[1].DropBefore(70),
			seqs[1].Keep([]int{199, 201}),
			seqs[2].Append(tokens(k[:]), tokens(v[:])),
			seqs[2].Truncate(1),
			AttendSequences(queries(dst[:]), queries(q[:]), seqs, opt))
	})
}

// A sequence that joins is a small handle: the table of its pages is one that was released.
func TestHandlesAreSmall(t *testing.T) {
	store, err := NewStore(StoreConfig{KVHeads: 2, HeadDim: 8, ValueDim: 8, Pages: 1000})
	must(t, err)
	first := store.NewSequence()
	must(t, first.Append(zeros(1, 2, 200, 8), zeros(1, 2, 200, 8)))
	join := func() {
		fork, empty := first.Fork(), store.NewSequence()
		fork.Release()
		empty.Release()
	}
	join()
	if n := allocations(100, join); n > 200 {
		t.Errorf("%d allocations for 200 sequences", n)
	}
	if size := unsafe.Sizeof(Sequence{}); size > 100 {
		t.Errorf("a handle is %d bytes", size)
	}
}

func TestNoAllocationInPoolOverSequences(t *testing.T) {
	shareSmallCalls(t)
	store, err := NewStore(StoreConfig{KVHeads: 2, HeadDim: 8, ValueDim: 8,
		Pages: 3 * Segment / Block})
	must(t, err)
	first := store.NewSequence()
	must(t, first.Append(zeros(1, 2, 2*Segment+9, 8), zeros(1, 2, 2*Segment+9, 8)))
	seqs := []*Sequence{first, first.Fork(), store.NewSequence()}
	p := NewPool(3)
	defer p.Close()
	dst, q := zeros(1, 4, 3, 8), zeros(1, 4, 3, 8)
	mustNotAllocateInPool(t, func() error { return p.AttendSequences(dst, q, seqs, nil) })
	s, err := NewState(StateConfig{1, 4, 3, 8})
	must(t, err)
	mustNotAllocateInPool(t, func() error {
		s.Reset()
		return p.UpdateSequence(s, q, first, nil)
	})
	mustNotAllocateInPool(t, func() error {
		s.Reset()
		return p.UpdateSequences(s, q, seqs, nil)
	})
}

func TestNoAllocationInPool(t *testing.T) {
	shareSmallCalls(t)
	for i, c := range poolCases(t) {
		if few() && i%5 != 0 {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			p := NewPool(3)
			defer p.Close()
			dst, _, lse := c.results()
			opt := c.opt
			opt.LSE = lse
			mustNotAllocateInPool(t, func() error { return p.Attend(dst, c.q, c.k, c.v, &opt) })
		})
	}
}

func TestNoAllocationInPoolOverCache(t *testing.T) {
	shareSmallCalls(t)
	x := newProblem(random("no allocation"), normal, shape{1, 2, 2, 1, 3 * Segment, 8, 8})
	c, err := filled(x.k, x.v)
	must(t, err)
	p := NewPool(3)
	defer p.Close()
	dst, _, _ := x.results()
	mustNotAllocateInPool(t, func() error { return p.AttendCache(dst, x.q, c, nil) })
}

// Options of a call allocate nothing, whichever are given: they point at nothing of their own.
func TestNoAllocationInPoolOptions(t *testing.T) {
	shareSmallCalls(t)
	x := newProblem(random("no allocation"), normal, shape{1, 2, 2, 5, 70, 8, 8})
	c, err := filled(x.k, x.v)
	must(t, err)
	visible, bias := make([]bool, 5*70), make([]float32, 5*70)
	fillWith(visible, true)
	dst, weights, lse := x.results()
	lens, slopes := []int{65}, []float32{0.1, 0.2, 0.3, 0.4}
	p := NewPool(2)
	defer p.Close()
	mustNotAllocateInPool(t, func() error {
		return errors.Join(
			p.Attend(dst, x.q, x.k, x.v, &Options{Causal: BottomRight, Scale: 0.5, Softcap: 20,
				Window: Window{Left: 4}, Mask: BHLD(visible, 1, 1, 5, 70), Bias: BHLD(bias, 1, 1, 5, 70),
				Slopes: slopes[:x.q.H], Sinks: slopes[:x.q.H], KeyLens: lens, LSE: lse,
				Weights: BHLD(weights.Data, 1, x.q.H, 5, 70)}),
			p.AttendCache(dst, x.q, c, &Options{Causal: BottomRight, Window: Window{Left: 4, Right: 1},
				Mask: BHLD(visible, 1, 1, 5, 70)}))
	})
}

// After Reset a state works in the memory that it has.
func TestNoAllocationInState(t *testing.T) {
	s, err := NewState(StateConfig{1, 2, 1, 8})
	must(t, err)
	part, err := NewState(StateConfig{1, 2, 1, 8})
	must(t, err)
	var longKeys [(Segment + Block) * 8]float32
	mustNotAllocate(t, func() error {
		var q, dst [2 * 8]float32
		var keys [Block * 8]float32
		var lse, sinks [2]float32
		opt := Options{Causal: TopLeft, Offset: 3 * Segment, Sinks: sinks[:]}
		s.Reset()
		part.Reset()
		queries := BHLD(q[:], 1, 2, 1, 8)
		long, short := BHLD(longKeys[:], 1, 1, Segment+Block, 8), BHLD(keys[:], 1, 1, Block, 8)
		return errors.Join(
			s.Update(queries, long, long, &opt),
			s.Update(queries, short, short, &opt),
			part.Update(queries, short, short, &opt),
			s.Merge(part),
			s.Finish(BHLD(dst[:], 1, 2, 1, 8), lse[:]))
	})
}

func TestNoAllocationInMatMul(t *testing.T) {
	m, err := PackMatrix(zeros(1, 1, 9, 20), MatrixConfig{})
	must(t, err)
	mustNotAllocate(t, func() error {
		var a [7 * 9]float32
		var b [9 * 20]float32
		var dst [7 * 20]float32
		var bias [20]float32
		return errors.Join(
			MatMul(BHLD(dst[:], 1, 1, 7, 20), BHLD(a[:], 1, 1, 7, 9), BHLD(b[:], 1, 1, 9, 20)),
			MatMulTransposed(BHLD(dst[:], 1, 1, 7, 20), BHLD(a[:], 1, 1, 7, 9), BHLD(b[:], 1, 1, 20, 9)),
			MatMulTransposed(BHLD(dst[:], 1, 1, 2, 20), BHLD(a[:], 1, 1, 2, 9), BHLD(b[:], 1, 1, 20, 9)),
			m.MatMul(BHLD(dst[:], 1, 1, 7, 20), BHLD(a[:], 1, 1, 7, 9), bias[:]))
	})
}

// Matrices of fewer bits multiply few rows, and many by way of scratch memory.
func TestNoAllocationInMatMulOfTypes(t *testing.T) {
	forEach(t, func(t *testing.T) {
		for _, typ := range matrixTypes {
			m, err := PackMatrix(zeros(1, 1, 20, 9), MatrixConfig{Format: typ, Transposed: true})
			must(t, err)
			for _, rows := range []int{1, 2 * narrow.MaxRows} {
				t.Run(fmt.Sprint(typ, rows), func(t *testing.T) {
					mustNotAllocate(t, func() error {
						var a [2 * narrow.MaxRows * 9]float32
						var dst [2 * narrow.MaxRows * 20]float32
						var bias [20]float32
						return m.MatMul(BHLD(dst[:], 1, 1, rows, 20), BHLD(a[:], 1, 1, rows, 9), bias[:])
					})
				})
			}
		}
	})
}

// Matrices of blocks, and several matrices with one input, allocate nothing either.
func TestNoAllocationInMulMatrices(t *testing.T) {
	const inputs = 256
	ms := severalMatrices(t, inputs)
	shareSmallCalls(t)
	pool := NewPool(2)
	defer pool.Close()
	shared, sharedDsts := zeros(1, 1, 3, inputs), make([]Tensor, len(ms))
	for i, m := range ms {
		sharedDsts[i] = zeros(1, 1, 3, outputsOf(m))
	}
	forEach(t, func(t *testing.T) {
		mustNotAllocate(t, func() error {
			var a [3 * inputs]float32
			var bias [64]float32
			var memory [10][3 * 64]float32
			var dsts [10]Tensor
			var biases [10][]float32
			for i, m := range ms {
				dsts[i], biases[i] = BHLD(memory[i][:3*outputsOf(m)], 1, 1, 3, outputsOf(m)),
					bias[:outputsOf(m)]
			}
			n := len(ms)
			return MulMatrices(dsts[:n], BHLD(a[:], 1, 1, 3, inputs), ms, biases[:n])
		})
		mustNotAllocateInPool(t, func() error { return pool.MulMatrices(sharedDsts, shared, ms, nil) })
	})
}

// Nor do rows of several matrices: what lies where is in scratch memory.
func TestNoAllocationInMulExperts(t *testing.T) {
	const inputs, outputs, tokens, n = 256, 20, 3, 2
	ms := expertMatrices(t, random(t.Name()), 6, inputs, outputs)
	shareSmallCalls(t)
	pool := NewPool(2)
	defer pool.Close()
	var numbers [tokens * n]int32
	for i := range numbers {
		numbers[i] = int32(i%7) - 1
	}
	shared, sharedDst := zeros(1, 1, tokens, inputs), zeros(1, n, tokens, outputs)
	sharedExperts := BHLD(append([]int32(nil), numbers[:]...), 1, 1, tokens, n)
	forEach(t, func(t *testing.T) {
		mustNotAllocate(t, func() error {
			var a [tokens * inputs]float32
			var dst [n * tokens * outputs]float32
			var bias [outputs]float32
			experts, biases := numbers, [6][]float32{1: bias[:], 3: bias[:]}
			return MulExperts(BHLD(dst[:], 1, n, tokens, outputs), BHLD(a[:], 1, 1, tokens, inputs), ms,
				BHLD(experts[:], 1, 1, tokens, n), biases[:])
		})
		mustNotAllocateInPool(t, func() error {
			return pool.MulExperts(sharedDst, shared, ms, sharedExperts, nil)
		})
	})
}

func TestNoAllocationInPoolMatMul(t *testing.T) {
	shareSmallCalls(t)
	pool := NewPool(2)
	defer pool.Close()
	rows, inner := 300, 300
	if few() {
		rows, inner = 60, matmul.Inner+1
	}
	row := tuned
	row.L2 = 0 // so that sums are gathered in scratch memory
	useTuning(t, row)
	dst, a := zeros(1, 1, rows, rows), zeros(1, 1, rows, inner)
	for _, typ := range matrixTypes {
		m, err := PackMatrix(zeros(1, 1, inner, rows), MatrixConfig{Format: typ})
		must(t, err)
		mustNotAllocateInPool(t, func() error { return pool.MulMatrix(dst, a, m, nil) })
	}
	b := zeros(1, 1, rows, inner)
	mustNotAllocateInPool(t, func() error { return pool.MatMulTransposed(dst, a, b) })
}

// Parts of an engine allocate nothing, whether they are shared or not.
func TestNoAllocationInRun(t *testing.T) {
	for _, n := range []int{1, 3} {
		p := NewPool(n)
		defer p.Close()
		done := make(counts, 50)
		var w Worker = done
		for _, parts := range []int{0, 1, len(done)} {
			mustNotAllocateInPool(t, func() error { return p.Run(parts, w) })
		}
	}
	x := new(paused) // a pointer is a Worker without memory of its own
	mustNotAllocate(t, func() error { return (*Pool)(nil).Run(0, x) })
}

// Rows allocates nothing, not even for what it decodes.
func TestNoAllocationInRows(t *testing.T) {
	forEach(t, func(t *testing.T) {
		for _, m := range severalMatrices(t, 256) {
			mustNotAllocate(t, func() error {
				var dst [3 * 256]float32
				outputs := [3]int32{0, int32(outputsOf(m) - 1), 0}
				return m.Rows(BHLD(dst[:], 1, 1, 3, 256), outputs[:])
			})
		}
	})
}

// However long a sequence or a cache is, it goes through a buffer of a block.
func TestFilesOfTokensTakeLittleMemory(t *testing.T) {
	s := newSequenceIn(t, StoreConfig{KVHeads: 1, HeadDim: 64, ValueDim: 64, Pages: 40}, 0, 20*Block)
	to, file := s.store.NewSequence(), fileOf(t, s)
	c := newCacheOf(t, CacheConfig{Batch: 1, KVHeads: 1, HeadDim: 64, ValueDim: 64,
		Capacity: 20 * Block}, 20*Block)
	r := bytes.NewReader(file)
	for name, f := range map[string]func() (int64, error){
		"Save": func() (int64, error) { return s.Save(io.Discard) },
		"Load": func() (int64, error) { r.Reset(file); return to.Load(r) },

		"Cache.Save": func() (int64, error) { return c.Save(io.Discard) },
		"Cache.Load": func() (int64, error) { r.Reset(file); c.Reset(); return c.Load(r) },
		"Cache.Load beside its tokens": func() (int64, error) {
			must(t, c.Append(zeros(1, 1, 20*Block-c.Len(), 64), zeros(1, 1, 20*Block-c.Len(), 64)))
			r.Reset(file)
			return c.Load(r)
		},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		n, err := f()
		runtime.ReadMemStats(&after)
		must(t, err)
		if got, most := int(after.TotalAlloc-before.TotalAlloc),
			2*s.store.packed.Size; n != int64(len(file)) || got > most {
			t.Errorf("%s of %d bytes allocates %d bytes, want at most %d", name, n, got, most)
		}
	}
}

func TestNoAllocationWithBlocks(t *testing.T) {
	p := newProblem(random("no allocation"), normal, shape{1, 2, 2, 70, 300, 16, 16})
	blocks, mask := make([]bool, 2*5), make([]bool, 300)
	blocks[3], mask[200] = true, true
	dst, _, _ := p.results()
	mustNotAllocate(t, func() error {
		return Attend(dst, p.q, p.k, p.v, &Options{Blocks: BHLD(blocks, 1, 1, 2, 5),
			Mask: Mask{Data: mask, B: 1, H: 1, L: 70, D: 300, SL: Broadcast, SB: 1, SH: 1}})
	})
}

// Documents use the memory of an earlier call, on the stack or not.
func TestNoAllocationOverDocuments(t *testing.T) {
	shareSmallCalls(t)
	mustNotAllocate(t, func() error {
		var q, k, v, dst [2 * 9 * 8]float32
		var lse [2 * 9]float32
		var bias [9 * 9]float32
		lens, keys := [3]int{2, 6, 1}, [3]int{4, 0, 5}
		view := func(x []float32) Tensor { return BLHD(x, 1, 9, 2, 8) }
		return errors.Join(
			Attend(view(dst[:]), view(q[:]), view(k[:]), view(v[:]), &Options{Documents: lens[:],
				Causal: BottomRight, LSE: lse[:], Bias: BHLD(bias[:], 1, 1, 9, 9)}),
			Attend(view(dst[:]), view(q[:]), view(k[:]), view(v[:]), &Options{Documents: lens[:],
				KeyDocuments: keys[:], Integers: true}),
			Attend(view(dst[:]), view(q[:]), view(k[:]), view(v[:]), &Options{Documents: lens[:],
				KeyDocuments: keys[:], BFloat16: true}))
	})
	p := NewPool(3)
	defer p.Close()
	x := newProblem(random("no allocation"), normal, shape{1, 1, 2, 1500, 1500, 8, 8})
	dst, lens := zeros(1, 2, 1500, 8), []int{200, 0, 100, 1200}
	mustNotAllocateInPool(t, func() error {
		return p.Attend(dst, x.q, x.k, x.v, &Options{Documents: lens, Causal: TopLeft})
	})
}

func TestNoAllocationWithTree(t *testing.T) {
	shareSmallCalls(t)
	r := random("no allocation")
	p := newProblem(r, normal, shape{2, 2, 2, 70, 300, 16, 16})
	dst, _, _ := p.results()
	slopes := []float32{1, 2, 3, 4}
	mustNotAllocate(t, func() error {
		var tree [70]int
		tree[0], tree[1] = -1, -1
		return Attend(dst, p.q, p.k, p.v, &Options{Tree: tree[:], Slopes: slopes,
			Window: Window{Left: 40}})
	})
	tree, pool := randomTree(r, 70), NewPool(2)
	defer pool.Close()
	mustNotAllocateInPool(t, func() error {
		return pool.Attend(dst, p.q, p.k, p.v, &Options{Tree: tree})
	})
	store, err := NewStore(StoreConfig{KVHeads: 2, HeadDim: 16, ValueDim: 16, Pages: 10})
	must(t, err)
	defer store.Close()
	s := store.NewSequence()
	must(t, s.Append(zeros(1, 2, 200, 16), zeros(1, 2, 200, 16)))
	seqs, opt := []*Sequence{s, s.Fork()}, &Options{QueryLens: []int{30, 40}}
	opt.Tree = append(randomTree(r, 30), randomTree(r, 40)...)
	mustNotAllocate(t, func() error {
		return AttendSequences(entryOf(dst, 0, 70), entryOf(p.q, 0, 70), seqs, opt)
	})
	mustNotAllocateInPool(t, func() error {
		return pool.AttendSequences(entryOf(dst, 0, 70), entryOf(p.q, 0, 70), seqs, opt)
	})
}

func TestNoAllocationWithLists(t *testing.T) {
	forEach(t, func(t *testing.T) {
		p := finiteProblem(random("no allocation"), shape{1, 2, 4, 2, 300, 16, 16})
		p.opt = Options{}
		dst, _, _ := p.results()
		for _, opt := range []Options{{}, {Integers: true}, {BFloat16: true}} {
			mustNotAllocate(t, func() error {
				list := [4]int32{7, 100, 200, -1}
				o := opt
				o.Keys = View[int32]{Data: list[:], B: 1, H: 1, L: 2, D: 4, SB: 1, SH: 1, SL: Broadcast}
				return Attend(dst, p.q, p.k, p.v, &o)
			})
		}
		for _, format := range allFormats {
			c, err := filledIn(format, p.k, p.v)
			must(t, err)
			pool := NewPool(2)
			list := [4]int32{7, 100, 200, -1}
			opt := Options{Keys: View[int32]{Data: list[:], B: 1, H: 1, L: 2, D: 4, SB: 1, SH: 1,
				SL: Broadcast}}
			mustNotAllocate(t, func() error { return c.Attend(dst, p.q, &opt) })
			mustNotAllocateInPool(t, func() error { return pool.AttendCache(dst, p.q, c, &opt) })
			must(t, pool.Close())
			must(t, c.Close())
		}
	})
}

func TestNoAllocationInTopK(t *testing.T) {
	scores := tensor(random(t.Name()), normal, 1, 1, 1, 5000).Data
	mustNotAllocate(t, func() error {
		var dst [100]int32
		TopK(dst[:], scores)
		return nil
	})
}
