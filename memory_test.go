package attn

import (
	"fmt"
	"io"
	"math"
	"reflect"
	"runtime"
	"runtime/metrics"
	"slices"
	"testing"
	"testing/iotest"
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

// The memory of a State stays until the end of its last call, also for states that were merged or
// copied.
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

// poolOperands are the operands of a pool's calls.
type poolOperands struct {
	*problem
	cache *Cache
	seqs  []*Sequence
	state *State
}

func newPoolOperands(t *testing.T) *poolOperands {
	x := &poolOperands{problem: newProblem(random("by a pool"), normal,
		shape{1, 2, 2, 3, Segment + 70, 8, 8})}
	x.opt.Causal = BottomRight
	var err error
	x.cache, err = filled(x.k, x.v)
	must(t, err)
	s := sequenceOf(t, StoreConfig{KVHeads: 2, HeadDim: 8, ValueDim: 8, Pages: 20})
	must(t, s.Append(x.k, x.v))
	x.seqs = []*Sequence{s, s.Fork(), s}
	x.state, err = NewState(StateConfig{1, 4, 3, 8})
	must(t, err)
	return x
}

// poolCalls are the methods of a pool, and what computes the same without one. Those of a state
// leave outputs to Finish.
var poolCalls = []struct {
	name        string
	pooled      func(p *Pool, x *poolOperands, dst Tensor, opt *Options) error
	alone       func(x *poolOperands, dst Tensor, opt *Options) error
	changeState bool
}{
	{name: "Attend",
		pooled: func(p *Pool, x *poolOperands, dst Tensor, opt *Options) error {
			return p.Attend(dst, x.q, x.k, x.v, opt)
		},
		alone: func(x *poolOperands, dst Tensor, opt *Options) error {
			return Attend(dst, x.q, x.k, x.v, opt)
		}},
	{name: "AttendCache",
		pooled: func(p *Pool, x *poolOperands, dst Tensor, opt *Options) error {
			return p.AttendCache(dst, x.q, x.cache, opt)
		},
		alone: func(x *poolOperands, dst Tensor, opt *Options) error {
			return x.cache.Attend(dst, x.q, opt)
		}},
	{name: "AttendSequences",
		pooled: func(p *Pool, x *poolOperands, dst Tensor, opt *Options) error {
			return p.AttendSequences(dst, x.q, x.seqs, opt)
		},
		alone: func(x *poolOperands, dst Tensor, opt *Options) error {
			return AttendSequences(dst, x.q, x.seqs, opt)
		}},
	{name: "Update", changeState: true,
		pooled: func(p *Pool, x *poolOperands, _ Tensor, _ *Options) error {
			return p.Update(x.state, x.q, x.k, x.v, nil)
		},
		alone: func(x *poolOperands, _ Tensor, _ *Options) error {
			return x.state.Update(x.q, x.k, x.v, nil)
		}},
	{name: "UpdateSequence", changeState: true,
		pooled: func(p *Pool, x *poolOperands, _ Tensor, _ *Options) error {
			return p.UpdateSequence(x.state, x.q, x.seqs[0], nil)
		},
		alone: func(x *poolOperands, _ Tensor, _ *Options) error {
			return x.state.UpdateSequence(x.q, x.seqs[0], nil)
		}},
	{name: "UpdateSequences", changeState: true,
		pooled: func(p *Pool, x *poolOperands, _ Tensor, _ *Options) error {
			return p.UpdateSequences(x.state, x.q, x.seqs[:1], nil)
		},
		alone: func(x *poolOperands, _ Tensor, _ *Options) error {
			return x.state.UpdateSequences(x.q, x.seqs[:1], nil)
		}},
}

// Every method of a Pool is in the tests of nil and closed ones.
func TestPoolCallsAreComplete(t *testing.T) {
	known := []string{"Close", "MatMul", "MatMulTransposed", "MulExperts", "MulMatrices", "MulMatrix",
		"PackBlocks", "PackMatrix", "Run", "AppendCache", "AppendSequence"} // see their tests
	for _, c := range poolCalls {
		known = append(known, c.name)
	}
	methods := reflect.TypeFor[*Pool]()
	for i := range methods.NumMethod() {
		if name := methods.Method(i).Name; !slices.Contains(known, name) {
			t.Errorf("poolCalls has no %s", name)
		}
	}
}

// A nil pool computes on the calling goroutine: the same bits, the same errors.
func TestNilPool(t *testing.T) {
	forEach(t, func(t *testing.T) {
		var p *Pool
		must(t, p.Close())
		must(t, p.Close())
		x := newPoolOperands(t)
		for _, c := range poolCalls {
			var got [2][]float32
			for i, call := range []func(dst Tensor, opt *Options) error{
				func(dst Tensor, opt *Options) error { return c.pooled(p, x, dst, opt) },
				func(dst Tensor, opt *Options) error { return c.alone(x, dst, opt) },
			} {
				dst, _, lse := x.results()
				opt := Options{Causal: BottomRight, LSE: lse}
				x.state.Reset()
				must(t, call(dst, &opt))
				if c.changeState {
					must(t, x.state.Finish(dst, lse))
				}
				got[i] = slices.Concat(dst.Data, lse)
			}
			mustEqualBits(t, c.name, got[0], got[1])
		}
		dst, bad, _ := x.results()
		for name, err := range map[string][2]error{
			"Attend":      {p.Attend(bad, x.q, x.k, x.v, nil), Attend(bad, x.q, x.k, x.v, nil)},
			"AttendCache": {p.AttendCache(bad, x.q, x.cache, nil), x.cache.Attend(bad, x.q, nil)},
			"AttendSequences": {p.AttendSequences(dst, x.q, x.seqs[:1], nil),
				AttendSequences(dst, x.q, x.seqs[:1], nil)},
			"Update": {p.Update(x.state, x.q, x.k, bad, nil), x.state.Update(x.q, x.k, bad, nil)},
			"UpdateSequence": {p.UpdateSequence(x.state, x.q, nil, nil),
				x.state.UpdateSequence(x.q, nil, nil)},
			"UpdateSequences": {p.UpdateSequences(x.state, x.q, nil, nil),
				x.state.UpdateSequences(x.q, nil, nil)},
		} {
			if err[0] == nil || fmt.Sprint(err[0]) != fmt.Sprint(err[1]) {
				t.Errorf("%s: error is %v, want %v", name, err[0], err[1])
			}
		}
	})
}

// A closed pool stays closed, and writes nothing, whatever it is asked to.
func TestClosedPool(t *testing.T) {
	x := newPoolOperands(t)
	closed := []*Pool{NewPool(1), NewPool(3)}
	for _, p := range closed {
		must(t, p.Close())
	}
	other := NewPool(3)
	defer other.Close()
	for range 2 {
		for _, p := range closed {
			mustFail(t, "Close", p.Close(), ErrClosed, "the pool was closed")
			for _, c := range poolCalls {
				dst := BHLD(nans(4*3*8), 1, 4, 3, 8)
				mustFail(t, c.name, c.pooled(p, x, dst, nil), ErrClosed, "the pool was closed")
				mustBeUntouched(t, dst)
			}
		}
		must(t, other.Attend(zeros(1, 4, 3, 8), x.q, x.k, x.v, nil))
	}
	if x.state.Keys() != 0 {
		t.Errorf("the state has %d keys", x.state.Keys())
	}
}

// A closed cache stays closed when another one has its memory, and calls over it touch neither that
// nor their outputs.
func TestClosedCache(t *testing.T) {
	config := CacheConfig{Batch: 1, KVHeads: 2, HeadDim: 8, ValueDim: 8, Capacity: 2 * Block}
	for _, config.Format = range allFormats {
		c, err := NewCache(config)
		must(t, err)
		r := random("closed cache")
		k, v := tensor(r, normal, 1, 2, Block+3, 8), tensor(r, normal, 1, 2, Block+3, 8)
		must(t, c.Append(k, v))
		must(t, c.Close())
		var others []*Cache // of which one has the memory, most likely
		for range 4 {
			other, err := NewCache(config)
			must(t, err)
			must(t, other.Append(k, v))
			others = append(others, other)
		}
		q, dst := zeros(1, 2, 1, 8), BHLD(nans(2*8), 1, 2, 1, 8)
		readK, readV := BHLD(nans(2*8), 1, 2, 1, 8), BHLD(nans(2*8), 1, 2, 1, 8)
		for name, call := range map[string]func() error{
			"Append":      func() error { return c.Append(v, k) },
			"Grow":        func() error { return c.Grow(1 << 10) },
			"Load":        func() error { _, err := c.Load(iotest.ErrReader(errBroken)); return err },
			"Save":        func() error { _, err := c.Save(io.Discard); return err },
			"Truncate":    func() error { return c.Truncate(0) },
			"Read":        func() error { return c.Read(readK, readV, 0) },
			"Attend":      func() error { return c.Attend(dst, q, nil) },
			"Pool":        func() error { return threeWorkers().AttendCache(dst, q, c, nil) },
			"AppendCache": func() error { return threeWorkers().AppendCache(c, v, k) },
			"nil Pool":    func() error { return (*Pool)(nil).AttendCache(dst, q, c, nil) },
			"Close":       func() error { return c.Close() },
		} {
			for range 2 {
				c.Reset()
				mustFail(t, name, call(), ErrClosed, "the cache was closed, or is not from NewCache")
				if c.Len() != 0 || c.MemoryUse() != 0 {
					t.Errorf("Len is %d and MemoryUse %d, want 0", c.Len(), c.MemoryUse())
				}
			}
		}
		mustBeUntouched(t, dst)
		mustBeUntouched(t, readK)
		mustBeUntouched(t, readV)
		gotK, gotV := zeros(1, 2, Block+3, 8), zeros(1, 2, Block+3, 8)
		wantK, wantV := zeros(1, 2, Block+3, 8), zeros(1, 2, Block+3, 8)
		for i, other := range others {
			must(t, other.Read(gotK, gotV, 0))
			if i == 0 {
				copy(wantK.Data, gotK.Data)
				copy(wantV.Data, gotV.Data)
			}
			mustEqualBits(t, "keys of another cache", gotK.Data, wantK.Data)
			mustEqualBits(t, "values of another cache", gotV.Data, wantV.Data)
			must(t, other.Close())
		}
	}
}

// Sequences of a closed store stay closed when another store has its memory.
func TestClosedStore(t *testing.T) {
	g := StoreConfig{KVHeads: 2, HeadDim: 8, ValueDim: 8, Pages: 4}
	u := newSequenceUser(t, g, Block+3)
	s := sequenceOf(t, g)
	must(t, s.Append(u.k, u.v))
	fork := s.Fork()
	must(t, s.store.Close())
	other := sequenceOf(t, g)
	must(t, other.Append(u.k, u.v))
	file := fileOf(t, other)
	for what, s := range map[string]*Sequence{"with tokens": s, "fork": fork,
		"new": s.store.NewSequence()} {
		for _, c := range sequenceMethods {
			before := u.written()
			err := c.call(u, s)
			text := "the sequence is of a store that was closed"
			switch c.name {
			case "AttendSequences", "Pool.AttendSequences", "nil Pool.AttendSequences",
				"State.UpdateSequences", "Pool.UpdateSequences":
				text = "seqs[0] is of a store that was closed"
			case "Fork":
				text = "the sequence was released, or is not from NewSequence"
			}
			mustFail(t, what+", "+c.name, err, ErrClosed, text)
			mustEqualBits(t, what+", "+c.name, u.written(), before)
		}
		s.Release()
	}
	mustFail(t, "Close", s.store.Close(), ErrClosed, "the store was closed, or is not from NewStore")
	if s.store.MemoryUse() != 0 {
		t.Errorf("MemoryUse is %d, want 0", s.store.MemoryUse())
	}
	mustEqualFiles(t, "of another store", fileOf(t, other), file)
}

// A closed State gives its memory back at once, and every call of it is an error that changes
// nothing.
func TestClosedState(t *testing.T) {
	before := memoryInUse()
	const heads, queries, dim = 8, 64, 128
	s, err := NewState(StateConfig{Batch: 1, Heads: heads, Queries: queries, ValueDim: dim})
	must(t, err)
	open, err := NewState(StateConfig{Batch: 1, Heads: heads, Queries: queries, ValueDim: dim})
	must(t, err)
	q, k := zeros(1, heads, queries, dim), zeros(1, heads, 5, dim)
	must(t, s.Update(q, k, k, nil))
	form, err := s.MarshalBinary()
	must(t, err)
	must(t, s.Close())
	if got := memory.Mapped(); got > before { // less, if something of another test was collected
		t.Errorf("%d bytes are left of the state", got-before)
	}
	store, err := NewStore(StoreConfig{KVHeads: heads, HeadDim: dim, ValueDim: dim, Pages: 1})
	must(t, err)
	defer store.Close()
	seq, pool, dst := store.NewSequence(), NewPool(2), BHLD(nans(q.end()), 1, heads, queries, dim)
	defer pool.Close()
	_, marshal := s.MarshalBinary()
	for name, err := range map[string]error{
		"Close": s.Close(), "Update": s.Update(q, k, k, nil), "Merge": s.Merge(open),
		"Merge with": open.Merge(s), "Finish": s.Finish(dst, nil), "MarshalBinary": marshal,
		"UnmarshalBinary": s.UnmarshalBinary(form), "UpdateSequence": s.UpdateSequence(q, seq, nil),
		"Pool.Update":          pool.Update(s, q, k, k, nil),
		"Pool.UpdateSequence":  pool.UpdateSequence(s, q, seq, nil),
		"UpdateSequences":      s.UpdateSequences(q, []*Sequence{seq}, nil),
		"Pool.UpdateSequences": pool.UpdateSequences(s, q, []*Sequence{seq}, nil),
	} {
		mustFail(t, name, err, ErrClosed)
	}
	s.Reset()
	if s.Config() != (StateConfig{}) || open.Config() != (StateConfig{1, heads, queries, dim}) {
		t.Errorf("the states are %+v and %+v", s.Config(), open.Config())
	}
	if s.Keys() != 0 || open.Keys() != 0 {
		t.Errorf("the states have %d and %d keys, want none", s.Keys(), open.Keys())
	}
	mustBeUntouched(t, dst)
	must(t, open.Update(q, k, k, nil))
	must(t, open.Close())
}

// Closing what there is not does nothing, so a deferred Close needs no question before it.
func TestCloseOfNil(t *testing.T) {
	must(t, (*Cache)(nil).Close())
	must(t, (*Store)(nil).Close())
	must(t, (*Matrix)(nil).Close())
	must(t, (*State)(nil).Close())
	must(t, (*Pool)(nil).Close())
	(*Sequence)(nil).Release()
}

// The zero values are closed: no method panics, and those that return errors return ErrClosed. A
// Pool that is not from NewPool has no workers, so it computes on the calling goroutine, and a zero
// State has no rows: their errors are of other kinds.
func TestZeroValuesAreClosed(t *testing.T) {
	for _, zero := range []any{new(Cache), new(Store), new(Sequence), new(Matrix), new(State),
		new(Pool)} {
		v := reflect.ValueOf(zero)
		for i := range v.NumMethod() {
			name := v.Type().String() + "." + v.Type().Method(i).Name
			m := v.Method(i)
			var args []reflect.Value
			for a := range m.Type().NumIn() {
				args = append(args, zeroArgument(m.Type().In(a)))
			}
			func() {
				defer func() {
					if r := recover(); r != nil {
						t.Errorf("%s of a zero value panics: %v", name, r)
					}
				}()
				for k, result := range m.Call(args) {
					_, state := zero.(*State)
					_, pool := zero.(*Pool)
					if m.Type().Out(k) == reflect.TypeFor[error]() && !state && !pool {
						err, _ := result.Interface().(error)
						mustFail(t, name, err, ErrClosed)
					}
				}
			}()
		}
	}
	s := new(Store).NewSequence()
	mustFail(t, "a sequence of a zero Store", s.Append(Tensor{}, Tensor{}), ErrClosed,
		"the sequence was released, or is not from NewSequence")
	s.Release()
}

// zeroArgument is a zero value, or where nil is no argument, one that points to a zero value.
func zeroArgument(of reflect.Type) reflect.Value {
	switch of {
	case reflect.TypeFor[*Cache](), reflect.TypeFor[*Matrix](), reflect.TypeFor[*State](),
		reflect.TypeFor[*Sequence]():
		return reflect.New(of.Elem())
	case reflect.TypeFor[io.Writer]():
		return reflect.ValueOf(io.Discard)
	}
	return reflect.Zero(of)
}
