package attn

import (
	"fmt"
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/seed-1415985d/attn/internal/memory"
)

// large is a cache whose memory is the system's and in huge pages, if there are any.
var large = CacheConfig{Batch: 1, KVHeads: 2, HeadDim: 64, ValueDim: 64, Capacity: 3 * 4096}

// A cache or matrix that the system has no memory for is an error, and the program goes on.
func TestMemoryIsRefused(t *testing.T) {
	const size = 1 << 20
	config := CacheConfig{Batch: 1, KVHeads: 1, HeadDim: size, ValueDim: size, Capacity: 1 << 22}
	matrix := Tensor{Data: make([]float32, size), B: 1, H: 1, L: 1 << 23, D: size} // 8 Mi times the same row
	if math.MaxInt == math.MaxInt32 {
		_, err := NewCache(config)
		mustFail(t, "a cache of 32 TiB", err, ErrShape)
		_, err = PackMatrix(matrix)
		mustFail(t, "a matrix of 32 TiB", err, ErrShape)
		return
	}
	if m, err := memory.Allocate(math.MaxInt>>18 + 1); err == nil {
		must(t, m.Close())
		return // this system grants any address there is, so packing would begin
	}
	_, err := NewCache(config)
	mustFail(t, "a cache of 32 TiB", err, ErrMemory)
	mustSay(t, err, "1×1×4194304×(1048576+1048576)", "35184372088832 bytes")
	_, err = PackMatrix(matrix)
	mustFail(t, "a matrix of 32 TiB", err, ErrMemory)
	mustSay(t, err, "[1 1 8388608 1048576]", "35184372088832 bytes")
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
		before := memory.Mapped()
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
			"Close": c.Close(), "Append": c.Append(x(3, 64), x(3, 64)), "Append nothing": c.Append(x(0, 64), x(0, 64)), "Truncate": c.Truncate(0),
			"Attend": c.Attend(dst, x(1, 64), nil), "Pool.AttendCache": pool.AttendCache(dst, x(1, 64), c, nil),
		} {
			mustFail(t, name, err, ErrClosed, "the cache was closed, or is not from NewCache")
		}
		mustBeUntouched(t, dst)
	}
	for _, n := range []int{10, 1 << 17} {
		before := memory.Mapped()
		m, err := PackMatrix(zeros(1, 2, 64, n))
		must(t, err)
		must(t, m.Close())
		if got := memory.Mapped(); got > before { // less, if something of another test was collected
			t.Errorf("%d bytes are left of the matrix", got-before)
		}
		dst := BHLD(nans(2*n), 1, 2, 1, n)
		for name, err := range map[string]error{
			"Close": m.Close(), "MatMul": m.MatMul(dst, x(1, 64), nil), "Pool.MatMul": pool.MatMul(dst, x(1, 64), m, nil),
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
	before := memory.Mapped()
	func() {
		c, err := NewCache(large)
		must(t, err)
		must(t, c.Append(zeros(1, 2, 1, 64), zeros(1, 2, 1, 64)))
		_, err = PackMatrix(zeros(1, 1, 1<<10, 1<<10))
		must(t, err)
		if got := memory.Mapped() - before; got < int64(4*(2*64*2*large.Capacity+1<<20)) {
			t.Errorf("%d bytes are mapped, want the cache and the matrix", got)
		}
	}()
	for deadline := time.Now().Add(20 * time.Second); memory.Mapped() > before; time.Sleep(time.Millisecond) {
		if runtime.GC(); time.Now().After(deadline) {
			t.Fatalf("%d bytes are left", memory.Mapped()-before)
		}
	}
}

// Memory is there until the end of a call, even if the call is the last that knows of the cache or matrix: it must not be collected
// while workers read it. If it were, a read would end the program.
func TestMemoryOutlivesCalls(t *testing.T) {
	shareSmallCalls(t)
	stop := collectAlways()
	defer stop()
	pool := NewPool(3)
	defer pool.Close()
	r := random("memory outlives calls")
	const n = 8 * Segment
	rows, times := 256, 10 // calls last longer than collections
	if tuned.isa == generic {
		rows, times = 8, 2
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
			"Pool":   func(dst Tensor, m *Matrix) error { return pool.MatMul(dst, a, m, nil) },
		} {
			m, err := PackMatrix(w)
			must(t, err)
			dst := zeros(1, 1, rows, 1<<10)
			must(t, multiply(dst, m))
			mustEqualBits(t, fmt.Sprint(name, i), dst.Data, wantP.Data)
		}
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
