package attn

import (
	"fmt"
	"math"
	"runtime"
	"runtime/metrics"
	"slices"
	"testing"
	"time"

	"github.com/seed-1415985d/attn/internal/memory"
	"github.com/seed-1415985d/attn/internal/online"
	"github.com/seed-1415985d/attn/internal/segment"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// large is a cache whose memory is the system's and in huge pages, if there are any.
var large = CacheConfig{Batch: 1, KVHeads: 2, HeadDim: 64, ValueDim: 64, Capacity: 3 * 4096}

// A cache or matrix that the system has no memory for is an error, and the program goes on.
func TestMemoryIsRefused(t *testing.T) {
	const size = 1 << 20
	config := CacheConfig{Batch: 1, KVHeads: 1, HeadDim: size, ValueDim: size, Capacity: 1 << 22}
	// 8 Mi times the same row
	matrix := repeated(make([]float32, size), 1, 1, 1<<23, size)
	if math.MaxInt == math.MaxInt32 {
		_, err := NewCache(config)
		mustFail(t, "a cache of 32 TiB", err, ErrShape)
		_, err = PackMatrix(matrix, MatrixConfig{})
		mustFail(t, "a matrix of 32 TiB", err, ErrShape)
		return
	}
	if m, err := memory.Allocate(math.MaxInt>>18 + 1); err == nil {
		must(t, m.Close())
		return // this system grants any address there is, so packing would begin
	}
	_, err := NewCache(config)
	mustFail(t, "a cache of 32 TiB", err, ErrMemory)
	mustSay(t, err, "1×1×65536×64×(1048576+1048576)", "35184372088832 bytes")
	_, err = PackMatrix(matrix, MatrixConfig{})
	mustFail(t, "a matrix of 32 TiB", err, ErrMemory)
	mustSay(t, err, "[1 1 8388608 1048576]", "35184372088832 bytes")
}

// A State asks for memory in Update and Merge, and is as it was if there is none.
func TestMemoryOfStateIsRefused(t *testing.T) {
	// 16 TiB a node, if all rows are different: they need not be
	newState := func() (*State, error) { return NewState(StateConfig{1 << 20, 1 << 10, 1 << 8, 14}) }
	_, err := newState()
	if math.MaxInt == math.MaxInt32 {
		mustFail(t, "a state of 16 TiB", err, ErrShape)
		return
	}
	if m, err := memory.Allocate(math.MaxInt>>19 + 1); err == nil {
		must(t, m.Close())
		return // this system grants any address there is, so computing would begin
	}
	must(t, err)
	refused := func(what string, err error) {
		mustFail(t, what, err, ErrMemory)
		mustSay(t, err, "1048576×1024×256×(14+2)", "17592186044416 bytes")
	}
	view := func(l, d int) Tensor {
		return repeated(make([]float32, d), 1<<20, 1<<10, l, d)
	}
	// its rows must not be touched
	full := func(keys int) segment.List {
		return segment.List{{Keys: keys, Open: keys%Segment != 0}}
	}
	for _, nodes := range []segment.List{nil, full(Segment), full(5), full(3 * Segment)} {
		s, err := newState()
		must(t, err)
		s.tree = online.Tree{Shape: slices.Clone(nodes), Rows: make([]online.Node, len(nodes))}
		if len(nodes) > 0 {
			s.keys, s.units.All = nodes[0].Keys, 3
		}
		keys := s.keys
		more := Segment + 1 // so that there is a node more
		q, k, v := view(1<<8, 1), view(more, 1), view(more, 14)
		refused("Update", s.Update(q, k, v, &Options{Sinks: make([]float32, 1<<10)}))
		refused("Merge", s.Merge(&State{stateShape: stateShape{s.b, s.h, s.l, s.d, 1},
			units: online.Units{All: 1}, tree: online.Tree{Shape: full(1), Rows: make([]online.Node, 1)},
			sinks: make([]float32, 1<<10)}))
		if nodes != nil {
			refused("Merge with itself", s.Merge(s))
		}
		if s.Keys() != keys || len(s.sinks) != 0 || !slices.Equal(s.tree.Shape, nodes) ||
			len(nodes) > 0 && s.units.All != 3 {
			t.Errorf("the state of %d keys has %d, unit %v, %d nodes and %d sinks after a refusal", keys,
				s.Keys(), s.units.All, len(s.tree.Shape), len(s.sinks))
		}
	}
}

func mustSay(t *testing.T, err error, parts ...string) {
	t.Helper()
	m := misuse{kind: ErrMemory, mentions: parts}
	m.judge(t, err)
}

// A closed cache or matrix has no memory, and says so in every call.
func TestClosed(t *testing.T) {
	pool := NewPool(2)
	defer pool.Close()
	x := func(l, d int) Tensor { return zeros(1, 2, l, d) }
	for _, capacity := range []int{10, large.Capacity} {
		before := memoryInUse()
		config := large
		config.Capacity = capacity
		c, err := NewCache(config)
		must(t, err)
		must(t, c.Append(x(3, 64), x(3, 64)))
		must(t, c.Close())
		if got := memory.Mapped(); got > before { // less, if something of another test was collected
			t.Errorf("%d bytes are left of the cache", got-before)
		}
		if c.Len() != 0 {
			t.Errorf("Len is %d, want 0", c.Len())
		}
		c.Reset()
		dst := BHLD(nans(2*64), 1, 2, 1, 64)
		for name, err := range map[string]error{
			"Close": c.Close(), "Append": c.Append(x(3, 64), x(3, 64)), "Append nothing": c.Append(x(0, 64),
				x(0, 64)), "Truncate": c.Truncate(0),
			"DropBefore": c.DropBefore(0), "Keep": c.Keep(nil),
			"Attend": c.Attend(dst, x(1, 64), nil), "Pool.AttendCache": pool.AttendCache(dst, x(1, 64), c,
				nil),
		} {
			mustFail(t, name, err, ErrClosed, "the cache was closed, or is not from NewCache")
		}
		mustBeUntouched(t, dst)
	}
	for _, n := range []int{10, 1 << 17} {
		before := memoryInUse()
		m, err := PackMatrix(zeros(1, 2, 64, n), MatrixConfig{})
		must(t, err)
		must(t, m.Close())
		if got := memory.Mapped(); got > before { // less, if something of another test was collected
			t.Errorf("%d bytes are left of the matrix", got-before)
		}
		dst := BHLD(nans(2*n), 1, 2, 1, n)
		for name, err := range map[string]error{
			"Close": m.Close(), "MatMul": m.MatMul(dst, x(1, 64), nil), "Pool.MulMatrix": pool.MulMatrix(dst,
				x(1, 64), m, nil),
		} {
			mustFail(t, name, err, ErrClosed, "the matrix was closed, or is not from PackMatrix")
		}
		mustBeUntouched(t, dst)
	}
}

func mustBeUntouched(t *testing.T, x Tensor) {
	t.Helper()
	for i, e := range x.Data {
		if e == e {
			t.Fatalf("element %d was written by a failed call", i)
		}
	}
}

// Memory goes back when a cache or matrix is out of reach.
func TestMemoryIsCollected(t *testing.T) {
	before := memoryInUse()
	func() {
		c, err := NewCache(large)
		must(t, err)
		must(t, c.Append(zeros(1, 2, 1, 64), zeros(1, 2, 1, 64)))
		m, err := PackMatrix(zeros(1, 1, 1<<10, 1<<10), MatrixConfig{})
		must(t, err)
		if got := memory.Mapped() - before; got < int64(4*(2*64*2*large.Capacity+1<<20)) {
			t.Errorf("%d bytes are mapped, want the cache and the matrix", got)
		}
		runtime.KeepAlive(c)
		runtime.KeepAlive(m)
	}()
	deadline := time.Now().Add(20 * time.Second)
	for ; memory.Mapped() > before; time.Sleep(time.Millisecond) {
		if runtime.GC(); time.Now().After(deadline) {
			t.Fatalf("%d bytes are left", memory.Mapped()-before)
		}
	}
}

// memoryInUse is what is mapped when the mappings that other tests have dropped are gone.
func memoryInUse() int64 {
	for {
		before := memory.Mapped()
		runtime.GC()
		awaitCleanups()
		if runtime.GC(); memory.Mapped() == before {
			return before
		}
	}
}

// awaitCleanups returns when the cleanups have run that are due: they do in goroutines of their
// own.
func awaitCleanups() {
	x := []metrics.Sample{{Name: "/gc/cleanups/executed:cleanups"},
		{Name: "/gc/cleanups/queued:cleanups"}}
	for metrics.Read(x); x[0].Value.Uint64() < x[1].Value.Uint64(); metrics.Read(x) {
		time.Sleep(time.Millisecond)
	}
}

// Memory is there until the end of a call, even if the call is the last that knows of the cache or
// matrix: it must not be collected while workers read it. If it were, a read would end the program.
func TestMemoryOutlivesCalls(t *testing.T) {
	shareSmallCalls(t)
	stop := collectAlways()
	defer stop()
	pool := NewPool(3)
	defer pool.Close()
	r := random("memory outlives calls")
	n, rows, times := 8*Segment, 512, 8 // calls last longer than collections
	if few() {
		n, rows, times = 2*Segment, 64, 2
	}
	if tuned.ISA == tuning.Generic {
		rows, times = 8, 1
	}
	config := large
	config.Capacity = n
	k, v := tensor(r, normal, 1, 2, n, 64), tensor(r, normal, 1, 2, n, 64)
	q := tensor(r, normal, 1, 2, rows, 64)
	w, a := tensor(r, normal, 1, 1, 1<<10, 1<<10), tensor(r, normal, 1, 1, rows, 1<<10)
	wantO, wantP := zeros(1, 2, rows, 64), zeros(1, 1, rows, 1<<10)
	must(t, Attend(wantO, q, k, v, nil))
	must(t, MatMul(wantP, a, w))
	for i := range times {
		for name, attend := range map[string]func(dst Tensor, c *Cache) error{
			"Cache": func(dst Tensor, c *Cache) error { return c.Attend(dst, q, nil) },
			"Pool":  func(dst Tensor, c *Cache) error { return pool.AttendCache(dst, q, c, nil) },
		} {
			c, err := NewCache(config)
			must(t, err)
			must(t, c.Append(k, v))
			dst := zeros(1, 2, rows, 64)
			must(t, attend(dst, c))
			mustEqualBits(t, fmt.Sprint(name, i), dst.Data, wantO.Data)
		}
		for name, multiply := range map[string]func(dst Tensor, m *Matrix) error{
			"Matrix": func(dst Tensor, m *Matrix) error { return m.MatMul(dst, a, nil) },
			"Pool":   func(dst Tensor, m *Matrix) error { return pool.MulMatrix(dst, a, m, nil) },
		} {
			m, err := PackMatrix(w, MatrixConfig{})
			must(t, err)
			dst := zeros(1, 1, rows, 1<<10)
			must(t, multiply(dst, m))
			mustEqualBits(t, fmt.Sprint(name, i), dst.Data, wantP.Data)
		}
	}
}

// The memory of a State is there until the end of its last call, that of merged ones and of copies,
// too.
func TestMemoryOutlivesStates(t *testing.T) {
	stop := collectAlways()
	defer stop()
	const rows = 600 // so that nodes are the system's
	x := newProblem(random("memory outlives states"), normal,
		shape{1, 2, 1, rows, Segment + Block, 8, 64})
	want, _, _ := x.results()
	must(t, Attend(want, x.q, x.k, x.v, nil))
	times := 4
	if few() {
		times = 1
	}
	for i := range times {
		s := x.stateOf(t, 0, Segment, &Options{})
		if memory.Mapped() == 0 {
			t.Fatal("no node is the system's")
		}
		must(t, s.Merge(x.stateOf(t, Segment, Segment+Block, &Options{})))
		data, err := s.MarshalBinary()
		must(t, err)
		var again State
		must(t, again.UnmarshalBinary(data))
		got, _, _ := x.results()
		must(t, again.Finish(got, nil))
		mustEqualBits(t, fmt.Sprint("states", i), got.Data, want.Data)
	}
}

// collectAlways runs the garbage collector over and over until stop is called.
func collectAlways() (stop func()) {
	done, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		for {
			select {
			case <-done:
				return
			default:
				runtime.GC()
			}
		}
	}()
	return func() { close(done); <-over }
}
