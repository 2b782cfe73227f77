package attn

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// shortShapes are calls of about 20 µs to 0.5 ms, by views and over a cache.
var shortShapes = []struct {
	name  string
	cache bool
	shape shape
}{
	{"H4_L48_D32", false, shape{1, 4, 1, 48, 48, 32, 32}},
	{"H12_L40_D32", false, shape{1, 12, 1, 40, 40, 32, 32}},
	{"H12_L64_D32", false, shape{1, 12, 1, 64, 64, 32, 32}},
	{"H5_L100_D64", false, shape{1, 5, 1, 100, 100, 64, 64}},
	{"H12_L128_D32", false, shape{1, 12, 1, 128, 128, 32, 32}},
	{"H12_L128_D64", false, shape{1, 12, 1, 128, 128, 64, 64}},
	{"decode_KVH8_L256_D64", true, shape{1, 8, 4, 1, 256, 64, 64}},
	{"decode_KVH8_L1024_D64", true, shape{1, 8, 4, 1, 1024, 64, 64}},
	{"decode_KVH8_L1024_D128", true, shape{1, 8, 4, 1, 1024, 128, 128}},
}

// between is what a program does from one call to the next.
var between = []struct {
	name string
	load bool // and every core has another goroutine that never stops
	wait func()
}{
	{"nothing", false, func() {}},
	{"work=20us", false, func() { compute(20 * time.Microsecond) }},
	{"work=200us", false, func() { compute(200 * time.Microsecond) }},
	{"work=2ms", false, func() { compute(2 * time.Millisecond) }},
	{"sleep=1ms", false, func() { time.Sleep(time.Millisecond) }},
	{"load", true, func() {}},
	{"load,work=200us", true, func() { compute(200 * time.Microsecond) }},
}

// compute keeps the caller's core busy for a time.
func compute(d time.Duration) {
	for start := time.Now(); time.Since(start) < d; {
	}
}

// loadCores keeps every core busy until the returned function is called.
func loadCores() (stop func()) {
	var ended atomic.Bool
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for !ended.Load() {
			}
		})
	}
	return func() { ended.Store(true); all.Wait() }
}

// BenchmarkShortCalls compares a Pool of two with Attend, by what lies between calls. It reports
// medians of both, and how many times faster the Pool is. The two take turns of a few calls, so
// that what else the machine does meets both.
func BenchmarkShortCalls(b *testing.B) {
	for _, s := range shortShapes {
		for _, gap := range between {
			b.Run(fmt.Sprintf("%s/%s", s.name, gap.name), func(b *testing.B) {
				alone, pooled := shortCalls(b, s.shape, s.cache)
				if gap.load {
					defer loadCores()()
				}
				var times [2][]float64
				for b.Loop() {
					for i, call := range []func(){alone, pooled} {
						for turn := range 12 {
							gap.wait()
							start := time.Now()
							call()
							if took := time.Since(start); turn > 1 {
								times[i] = append(times[i], float64(took)/1e3)
							}
						}
					}
				}
				for i := range times {
					slices.Sort(times[i])
				}
				one, two := times[0][len(times[0])/2], times[1][len(times[1])/2]
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(one, "µs-Attend")
				b.ReportMetric(two, "µs-Pool")
				b.ReportMetric(one/two, "times")
			})
		}
	}
}

// shortCalls returns a problem's call by itself and by a pool of two.
func shortCalls(b *testing.B, s shape, cached bool) (alone, pooled func()) {
	x := newProblem(random("short calls"), normal, s)
	dst := zeros(s.b, s.kvh*s.group, s.lq, s.dv)
	pool := NewPool(2)
	b.Cleanup(func() { pool.Close() })
	check := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	if !cached {
		return func() {
			check(Attend(dst, x.q, x.k, x.v, nil))
		}, func() { check(pool.Attend(dst, x.q, x.k, x.v, nil)) }
	}
	c := x.benchCache(b, F32)
	check(c.Append(x.k, x.v))
	return func() {
		check(c.Attend(dst, x.q, nil))
	}, func() { check(pool.AttendCache(dst, x.q, c, nil)) }
}
