package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"regexp"
	"runtime"
	"slices"
	"time"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/cmd/attn/internal/limits"
)

// benchCase is one row of the benchmark. Decode reads each key and value once, so
// memory limits it; the others are limited by multiply-adds.
type benchCase struct {
	Name   string // as in the tables of the documentation
	Bench  string // as in Go's benchmark format
	Shape  string
	cached bool // keys and values in a Cache
	causal bool

	b, h, kvh, lq, lk, d int
}

var benchCases = []benchCase{
	{"prefill_d64", "prefill/d=64/causal=false", "B1 H8 L1024 D64", false, false, 1, 8, 8, 1024, 1024, 64},
	{"prefill_d64_causal", "prefill/d=64/causal=true", "B1 H8 L1024 D64", false, true, 1, 8, 8, 1024, 1024, 64},
	{"prefill_d128", "prefill/d=128/causal=false", "B1 H8 L2048 D128", false, false, 1, 8, 8, 2048, 2048, 128},
	{"prefill_d128_causal", "prefill/d=128/causal=true", "B1 H8 L2048 D128", false, true, 1, 8, 8, 2048, 2048, 128},
	{"bert", "bert/d=64", "B8 H12 L128 D64", false, false, 8, 12, 12, 128, 128, 64},
	{"decode", "decode/d=128", "H32 KV32 Lk4096 D128", false, false, 1, 32, 32, 1, 4096, 128},
	{"decode, cache", "decode/d=128", "H32 KV32 Lk4096 D128", true, false, 1, 32, 32, 1, 4096, 128},
	{"decode_gqa", "decode_gqa/d=128", "H32 KV8 Lk4096 D128", false, false, 1, 32, 8, 1, 4096, 128},
	{"decode_gqa, cache", "decode_gqa/d=128", "H32 KV8 Lk4096 D128", true, false, 1, 32, 8, 1, 4096, 128},
	{"tiny", "tiny/d=64", "B1 H1 L16 D64", false, false, 1, 1, 1, 16, 16, 64},
}

// work is useful floating-point operations, or bytes of keys and values where memory is the limit.
func (c *benchCase) work() float64 {
	if c.memory() {
		return 2 * 4 * float64(c.b*c.kvh) * float64(c.lk*c.d)
	}
	flops := 4 * float64(c.b*c.h) * float64(c.lq) * float64(c.lk) * float64(c.d)
	if c.causal {
		flops /= 2
	}
	return flops
}

func (c *benchCase) memory() bool { return c.lq == 1 }

// result is what was measured of one case.
type result struct {
	Implementation string  `json:"implementation"`
	Case           string  `json:"case"`
	Benchmark      string  `json:"benchmark"`
	Shape          string  `json:"shape"`
	Threads        int     `json:"threads"`
	Nanoseconds    float64 `json:"ns_per_call"`                    // least of all repetitions
	Median         float64 `json:"median_ns"`                      // far above the least on a noisy machine
	Rate           float64 `json:"rate"`                           // work per second
	Limit          float64 `json:"limit"`                          // best of all repetitions
	Unit           string  `json:"unit"`                           // of rate and limit
	LimitOf        string  `json:"limit_of"`                       // FMA or DRAM
	Percent        float64 `json:"percent"`                        // rate to limit
	AtItsClock     float64 `json:"percent_at_its_clock,omitempty"` // FMA: rate to peak at the clock of the moment, median of the fastest tenth of those that are quiet
	Repetitions    int     `json:"repetitions"`
	Quiet          int     `json:"quiet_repetitions"` // FMA: nobody else used the core just before and after; else all
	Calls          int     `json:"calls_per_repetition"`
	AllocsPerCall  float64 `json:"allocs_per_call"`
}

// machine is the limits of one thread.
type machine struct {
	Vectors  string             `json:"measured_with"`
	FMA      float64            `json:"fma_gflops"`
	Clock    float64            `json:"clock_ghz"`
	PerCycle float64            `json:"fma_flops_per_cycle"`
	Read     map[string]float64 `json:"read_gbs"`
}

// report is what attn measure prints for one implementation.
type report struct {
	Implementation string   `json:"implementation"`
	Machine        machine  `json:"machine"`
	Results        []result `json:"results"`
}

// effort is how much time measuring may take.
type effort struct {
	perCase time.Duration // for each case and number of threads
	least   int           // quiet repetitions, if there are fewer by then
	most    time.Duration // for these
}

// defaultTime is long enough to meet some quiet moments on most machines.
const defaultTime = 5 * time.Second

var quickEffort = effort{200 * time.Millisecond, 3, 2 * time.Second}

// effortOf waits for quiet repetitions up to four times as long.
func effortOf(perCase time.Duration) effort { return effort{perCase, 8, 4 * perCase} }

// enough reports whether there are enough repetitions: one at least.
func (e *effort) enough(repetitions, quiet int, spent time.Duration) bool {
	return repetitions > 0 && spent >= e.perCase && (quiet >= e.least || spent >= e.most)
}

// measureCommand measures the implementation in use, and prints a report as
// JSON. attn bench runs it in a process for each implementation.
func measureCommand(args []string, stdout, stderr io.Writer) error {
	fs := newFlags("measure", "attn measure [flags]\n\nUsed by attn bench: measures the implementation in use.\n\n")
	quick := fs.Bool("quick", false, "measure for a shorter time")
	perCase := fs.Duration("time", defaultTime, "measure each case for this long")
	pattern := fs.String("run", "", "only cases that match this regular expression")
	threads := fs.Int("threads", 0, "more than one thread: this many")
	name := fs.Bool("name", false, "print the implementation's name and nothing else")
	if err := parse(fs, args, stdout); err != nil {
		return err
	}
	if *name {
		_, err := fmt.Fprintln(stdout, attn.Implementation())
		return err
	}
	match, err := regexp.Compile(*pattern)
	if err != nil {
		return usageError{err}
	}
	m := measurement{effort: effortOf(*perCase), match: match, threads: *threads, stderr: stderr}
	if *quick {
		m.effort = quickEffort
	}
	r, err := m.run()
	if err != nil {
		return err
	}
	return json.NewEncoder(stdout).Encode(r)
}

// measurement is one run over all cases.
type measurement struct {
	effort  effort
	match   *regexp.Regexp
	threads int
	stderr  io.Writer

	vectors  limits.Vectors
	perCycle float64 // floating-point operations at the FMA peak
	dram     *limits.Memory
}

func (m *measurement) run() (*report, error) {
	r := &report{Implementation: attn.Implementation(), Results: []result{}}
	m.vectors = limits.For(r.Implementation)
	cases := m.cases()
	p := newProgress(m.stderr, r.Implementation, len(cases)+1)
	defer p.finish()
	r.Machine = m.machine()
	m.perCycle = r.Machine.PerCycle
	p.add(1)
	for _, c := range cases {
		got, err := m.measure(c.benchCase, c.threads)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.Name, err)
		}
		r.Results = append(r.Results, got)
		p.add(1)
	}
	return r, nil
}

type threadedCase struct {
	benchCase
	threads int
}

// cases are all cases on one thread, and those worth sharing on several.
func (m *measurement) cases() []threadedCase {
	var list []threadedCase
	counts := []int{1}
	if m.threads > 1 {
		counts = append(counts, m.threads)
	}
	for _, threads := range counts {
		for _, c := range benchCases {
			if m.match.MatchString(c.Name) && (threads == 1 || c.Name != "tiny") {
				list = append(list, threadedCase{c, threads})
			}
		}
	}
	return list
}

// machine measures the limits of one thread.
func (m *measurement) machine() machine {
	got := machine{Vectors: m.vectors.String(), Read: map[string]float64{}}
	got.FMA = m.best(func() float64 {
		got.Clock = max(got.Clock, limits.Cycles(1, limits.Burst)/1e9) // in the same moments
		return limits.FMA(m.vectors, 1, limits.Burst)
	})
	got.PerCycle = operationsPerCycle(m.vectors, got.FMA, got.Clock)
	for _, level := range limits.Levels() {
		memory := limits.NewMemory(m.vectors, 1, level.Bytes)
		got.Read[level.Name] = m.best(memory.Read)
		if level.Name == "DRAM" {
			memory.ReadStreams() // takes what Read has left in the caches
			got.Read["DRAM, 8 streams"] = m.best(memory.ReadStreams)
		}
	}
	return got
}

// best returns the most of several measurements, in units of 10⁹.
func (m *measurement) best(measure func() float64) float64 {
	top, start := 0.0, time.Now()
	for n := 0; n < 3 || time.Since(start) < m.effort.perCase/10; n++ {
		top = max(top, measure()/1e9)
	}
	return top
}

// limit measures the limit of a case: multiply-adds in short bursts, or reading as many
// bytes as the case.
func (m *measurement) limit(c *benchCase, threads int) (top float64) {
	if !c.memory() {
		for range 6 * threads * threads { // the more threads, the rarer a moment in which all run
			top = max(top, limits.FMA(m.vectors, threads, limits.Burst))
		}
		return top
	}
	if m.dram == nil || m.dram.Threads() != threads {
		m.dram = limits.NewMemory(m.vectors, threads, limits.DRAM())
	}
	m.dram.ReadStreams() // leaves nothing of the case's data in the caches, nor of the part
	return m.dram.ReadPart(int(c.work()))
}

// measure alternates between the case and its limit, so that both see the
// same machine, and takes the best of each.
func (m *measurement) measure(c benchCase, threads int) (result, error) {
	call, _, release, err := c.prepare(threads)
	if err != nil {
		return result{}, err
	}
	defer release()
	if err := call(); err != nil {
		return result{}, err
	}
	r := c.result(threads)
	r.Calls = callsPerRepetition(&c, call)
	var samples []sample
	for start := time.Now(); !m.effort.enough(len(samples), r.Quiet, time.Since(start)); {
		r.Limit = max(r.Limit, m.limit(&c, threads)/1e9)
		s := m.sample(&c, call, r.Calls, threads)
		samples = append(samples, s)
		if s.quiet {
			r.Quiet++
		}
	}
	r.Repetitions = len(samples)
	r.summarize(samples)
	r.AllocsPerCall = allocations(call, r.Calls)
	r.Rate = c.work() / r.Nanoseconds
	r.Percent = 100 * r.Rate / r.Limit
	return r, nil
}

// result is all of a result that needs no measuring.
func (c *benchCase) result(threads int) result {
	r := result{Implementation: attn.Implementation(), Case: c.Name, Shape: c.Shape, Threads: threads,
		Unit: "GFLOP/s", LimitOf: "FMA"}
	if c.memory() {
		r.Unit, r.LimitOf = "GB/s", "DRAM"
	}
	function := "Attend"
	if c.cached {
		function = "Cache"
	}
	r.Benchmark = fmt.Sprintf("Benchmark%s/%s/impl=%s/threads=%d", function, c.Bench, r.Implementation, threads)
	return r
}

// prepare returns the call to measure and where it writes.
func (c *benchCase) prepare(threads int) (call func() error, dst attn.Tensor, release func(), err error) {
	random := rand.New(rand.NewPCG(1, 2))
	input := func(h, l int) attn.Tensor {
		x := make([]float32, c.b*h*l*c.d)
		for i := range x {
			x[i] = float32(random.NormFloat64())
		}
		return attn.BHLD(x, c.b, h, l, c.d)
	}
	q, k, v := input(c.h, c.lq), input(c.kvh, c.lk), input(c.kvh, c.lk)
	dst = attn.BHLD(make([]float32, len(q.Data)), c.b, c.h, c.lq, c.d)
	opt := new(attn.Options)
	if c.causal {
		opt.Causal = attn.TopLeft
	}
	release = func() {}
	var pool *attn.Pool
	if threads > 1 {
		pool = attn.NewPool(threads)
		release = func() { pool.Close() }
	}
	if !c.cached {
		if pool != nil {
			return func() error { return pool.Attend(dst, q, k, v, opt) }, dst, release, nil
		}
		return func() error { return attn.Attend(dst, q, k, v, opt) }, dst, release, nil
	}
	cache, err := attn.NewCache(attn.CacheConfig{Batch: c.b, KVHeads: c.kvh, HeadDim: c.d, ValueDim: c.d, Capacity: c.lk})
	if err == nil {
		err = cache.Append(k, v)
	}
	if err != nil {
		release()
		return nil, dst, nil, err
	}
	if pool != nil {
		return func() error { return pool.AttendCache(dst, q, cache, opt) }, dst, release, nil
	}
	return func() error { return cache.Attend(dst, q, opt) }, dst, release, nil
}

// callsPerRepetition makes repetitions of short calls last about a
// millisecond. Memory cases are one call: a second one would find data in the caches.
func callsPerRepetition(c *benchCase, call func() error) int {
	if c.memory() {
		return 1
	}
	return max(1, int(1e6/repetition(call, 1)))
}

// repetition returns nanoseconds per call. The call succeeded before, so it does now.
func repetition(call func() error, calls int) float64 {
	start := time.Now()
	for range calls {
		if err := call(); err != nil {
			panic(err)
		}
	}
	return float64(time.Since(start)) / float64(calls)
}

// fewQuiet is fewer quiet repetitions than count: of one or two, each may have been disturbed
// between its moments.
const fewQuiet = 3

// summarize takes the median per cent of the fastest tenth of all quiet repetitions, of three at
// least: the others were disturbed. Were too few quiet, it takes those of all.
func (r *result) summarize(samples []sample) {
	slices.SortFunc(samples, func(a, b sample) int { return cmp.Compare(a.nanoseconds, b.nanoseconds) })
	r.Nanoseconds, r.Median = samples[0].nanoseconds, samples[len(samples)/2].nanoseconds
	if !r.busy() {
		samples = slices.DeleteFunc(samples, func(s sample) bool { return !s.quiet })
	}
	fastest := samples[:min(len(samples), max(3, len(samples)/10))]
	slices.SortFunc(fastest, func(a, b sample) int { return cmp.Compare(a.percent, b.percent) })
	r.AtItsClock = fastest[(len(fastest)-1)/2].percent
}

// busy reports whether somebody else used the core nearly all the time.
func (r *result) busy() bool { return r.Quiet < min(fewQuiet, r.Repetitions) }

func allocations(call func() error, calls int) float64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	repetition(call, calls)
	runtime.ReadMemStats(&after)
	return math.Floor(float64(after.Mallocs-before.Mallocs) / float64(calls))
}
