package main

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/flags"
	"github.com/seed-1415985d/attn/internal/limits"
)

// benchCase is one row of the benchmark. Decode reads each key and value once, so
// memory limits it; the others are limited by multiply-adds.
type benchCase struct {
	Name   string // as in the tables of the documentation
	Bench  string // as in Go's benchmark format
	Shape  string
	cached bool // keys and values in a Cache
	causal bool
	shape
	kind     formats        // of the Cache
	integers bool           // products are of integers
	matrix   attn.BlockType // where lq rows of d inputs are multiplied by a matrix of lk outputs; or 0
}

// shape is the sizes of a case. If dv is not 0, values are the first dv channels of keys, in a
// cache that keeps only these.
type shape struct{ b, h, kvh, lq, lk, d, dv int }

// valueDim is the dimension of values.
func (s *shape) valueDim() int {
	if s.dv > 0 {
		return s.dv
	}
	return s.d
}

var benchCases = append(withIntegers([]benchCase{
	{"prefill_d64", "prefill/d=64/causal=false", "B1 H8 L1024 D64", false, false,
		shape{1, 8, 8, 1024, 1024, 64, 0}, formats{attn.F32, attn.F32}, false, 0},
	{"prefill_d64_causal", "prefill/d=64/causal=true", "B1 H8 L1024 D64", false, true,
		shape{1, 8, 8, 1024, 1024, 64, 0}, formats{attn.F32, attn.F32}, false, 0},
	{"prefill_d128", "prefill/d=128/causal=false", "B1 H8 L2048 D128", false, false,
		shape{1, 8, 8, 2048, 2048, 128, 0}, formats{attn.F32, attn.F32}, false, 0},
	{"prefill_d128_causal", "prefill/d=128/causal=true", "B1 H8 L2048 D128", false, true,
		shape{1, 8, 8, 2048, 2048, 128, 0}, formats{attn.F32, attn.F32}, false, 0},
	{"bert", "bert/d=64", "B8 H12 L128 D64", false, false,
		shape{8, 12, 12, 128, 128, 64, 0}, formats{attn.F32, attn.F32}, false, 0},
	{"decode", "decode/d=128", "H32 KV32 Lk4096 D128", false, false, shape{1, 32, 32, 1, 4096, 128, 0},
		formats{attn.F32, attn.F32}, false, 0},
	{"decode, cache", "decode/d=128", "H32 KV32 Lk4096 D128", true, false,
		shape{1, 32, 32, 1, 4096, 128, 0}, formats{attn.F32, attn.F32}, false, 0},
	{"decode, f16", "decode/d=128/type=f16", "H32 KV32 Lk4096 D128", true, false,
		shape{1, 32, 32, 1, 4096, 128, 0}, formats{attn.F16, attn.F16}, false, 0},
	{"decode, bf16", "decode/d=128/type=bf16", "H32 KV32 Lk4096 D128", true, false,
		shape{1, 32, 32, 1, 4096, 128, 0}, formats{attn.BF16, attn.BF16}, false, 0},
	{"decode, i8", "decode/d=128/type=i8", "H32 KV32 Lk4096 D128", true, false,
		shape{1, 32, 32, 1, 4096, 128, 0}, formats{attn.I8, attn.I8}, false, 0},
	{"decode, i4", "decode/d=128/type=i4", "H32 KV32 Lk4096 D128", true, false,
		shape{1, 32, 32, 1, 4096, 128, 0}, formats{attn.I4, attn.I4}, false, 0},
	{"decode, i8+i4", "decode/d=128/type=i8+i4", "H32 KV32 Lk4096 D128", true, false,
		shape{1, 32, 32, 1, 4096, 128, 0}, formats{attn.I8, attn.I4}, false, 0},
	{"decode_gqa", "decode_gqa/d=128", "H32 KV8 Lk4096 D128", false, false,
		shape{1, 32, 8, 1, 4096, 128, 0}, formats{attn.F32, attn.F32}, false, 0},
	{"decode_gqa, cache", "decode_gqa/d=128", "H32 KV8 Lk4096 D128", true, false,
		shape{1, 32, 8, 1, 4096, 128, 0}, formats{attn.F32, attn.F32}, false, 0},
	{"decode_gqa, f16", "decode_gqa/d=128/type=f16", "H32 KV8 Lk4096 D128", true, false,
		shape{1, 32, 8, 1, 4096, 128, 0}, formats{attn.F16, attn.F16}, false, 0},
	{"decode_gqa, bf16", "decode_gqa/d=128/type=bf16", "H32 KV8 Lk4096 D128", true, false,
		shape{1, 32, 8, 1, 4096, 128, 0}, formats{attn.BF16, attn.BF16}, false, 0},
	{"decode_gqa, i8", "decode_gqa/d=128/type=i8", "H32 KV8 Lk4096 D128", true, false,
		shape{1, 32, 8, 1, 4096, 128, 0}, formats{attn.I8, attn.I8}, false, 0},
	{"decode_gqa, i4, integers", "decode_gqa/d=128/type=i4/integers", "H32 KV8 Lk4096 D128",
		true, false,
		shape{1, 32, 8, 1, 4096, 128, 0}, formats{attn.I4, attn.I4}, true, 0},
	{"decode_gqa, i8+i4, integers", "decode_gqa/d=128/type=i8+i4/integers", "H32 KV8 Lk4096 D128",
		true, false,
		shape{1, 32, 8, 1, 4096, 128, 0}, formats{attn.I8, attn.I4}, true, 0},
	{"mla", "mla/d=576", "H128 KV1 Lk8192 D576/512", true, false, shape{1, 128, 1, 1, 8192, 576, 512},
		formats{attn.F32, attn.F32}, false, 0},
	{"mla, bf16", "mla/d=576/type=bf16", "H128 KV1 Lk8192 D576/512", true, false,
		shape{1, 128, 1, 1, 8192, 576, 512}, formats{attn.BF16, attn.BF16}, false, 0},
	{"mla, i8", "mla/d=576/type=i8", "H128 KV1 Lk8192 D576/512", true, false,
		shape{1, 128, 1, 1, 8192, 576, 512}, formats{attn.I8, attn.I8}, false, 0},
	{"tiny", "tiny/d=64", "B1 H1 L16 D64", false, false,
		shape{1, 1, 1, 16, 16, 64, 0}, formats{attn.F32, attn.F32}, false, 0},
}), matrixCases()...)

// withIntegers adds to cases those in integers: of float32 views, and of caches of i8 and i4.
func withIntegers(cases []benchCase) []benchCase {
	for _, c := range cases[:len(cases):len(cases)] {
		name, _, _ := strings.Cut(c.Name, ",")
		if c.cached != c.kind.integers() || c.memory() && !c.cached || c.Name == "tiny" || c.integers {
			continue
		}
		if c.kind.values == attn.I4 {
			name = c.Name
		}
		c.Name, c.Bench, c.integers = name+", integers", c.Bench+"/integers", true
		cases = append(cases, c)
	}
	return cases
}

// work is useful floating-point operations, or as many of integers, or bytes of keys and values,
// with their scales, or of a matrix, where memory is the limit.
func (c *benchCase) work() float64 {
	if c.matrix != 0 {
		return c.matrixWork()
	}
	if c.memory() {
		return float64(c.b*c.kvh*c.lk) * (c.tokenBytes(c.kind.keys) + c.tokenBytes(c.kind.values))
	}
	flops := 2 * float64(c.b*c.h) * float64(c.lq) * float64(c.lk) * float64(c.d+c.valueDim())
	if c.causal {
		flops /= 2
	}
	return flops
}

// tokenBytes is the size of a key or value of one head in a format.
func (c *benchCase) tokenBytes(kind attn.Format) float64 {
	switch kind {
	case attn.F16, attn.BF16:
		return 2 * float64(c.d)
	case attn.I8:
		return float64(c.d) + 4 // and a scale
	case attn.I4:
		return float64(c.d)/2 + 4
	}
	return 4 * float64(c.d)
}

// memory reports whether reading is the limit: with many heads that share one latent vector a
// token, multiply-adds are.
func (c *benchCase) memory() bool {
	if c.matrix != 0 {
		return c.lq <= fewRows
	}
	return c.lq == 1 && c.dv == 0
}

// huge reports whether what a case reads is in huge pages, where there are some.
func (c *benchCase) huge() bool { return c.cached || c.matrix != 0 }

// shared reports whether the case is measured on several threads, too.
func (c *benchCase) shared() bool {
	return c.Name != "tiny" && (c.matrix == 0 || c.lq == 1 || c.lq == 128)
}

// result is what was measured of one case.
type result struct {
	Implementation string  `json:"implementation"`
	Case           string  `json:"case"`
	Benchmark      string  `json:"benchmark"`
	Shape          string  `json:"shape"`
	Threads        int     `json:"threads"`
	Nanoseconds    float64 `json:"ns_per_call"` // least of all repetitions
	// far above the least on a noisy machine
	Median  float64 `json:"median_ns"`
	Rate    float64 `json:"rate"`              // work per second
	Busy    bool    `json:"busy,omitempty"`    // nothing says what the limit is
	Limit   float64 `json:"limit,omitempty"`   // best of all repetitions
	Unit    string  `json:"unit"`              // of rate and limit
	LimitOf string  `json:"limit_of"`          // FMA, INT8, INT4 or DRAM
	Percent float64 `json:"percent,omitempty"` // rate to limit
	// unless memory is the limit: rate to peak at the clock of the moment, median of the fastest tenth
	// of those that are quiet
	AtItsClock  float64 `json:"percent_at_its_clock,omitempty"`
	Repetitions int     `json:"repetitions"`
	// the limit was near its best, and nobody else used the core just before and after
	Quiet         int     `json:"quiet_repetitions"`
	Calls         int     `json:"calls_per_repetition"`
	AllocsPerCall float64 `json:"allocs_per_call"`
}

// machine is the limits of one thread.
type machine struct {
	Vectors      string             `json:"measured_with"`
	FMA          float64            `json:"fma_gflops"`
	Clock        float64            `json:"clock_ghz"`
	PerCycle     float64            `json:"fma_flops_per_cycle"`
	Integers     float64            `json:"int8_gops"`
	IntegersWith string             `json:"int8_measured_with"`
	Read         map[string]float64 `json:"read_gbs"`
}

// report is what attn measure prints for one implementation.
type report struct {
	Implementation string   `json:"implementation"`
	Machine        machine  `json:"machine"`
	Results        []result `json:"results"`
}

// effort is how much time measuring may take: so much times the number of cases.
type effort struct {
	perCase time.Duration
	least   int           // quiet repetitions of each, if there are fewer by then
	most    time.Duration // for these
}

// defaultTime keeps all cases within two minutes, on one thread and on two, where vectors are. More
// time meets more quiet moments.
const defaultTime = 250 * time.Millisecond

var quickEffort = effort{100 * time.Millisecond, 3, 300 * time.Millisecond}

// effortOf waits for quiet repetitions up to four times as long.
func effortOf(perCase time.Duration) effort { return effort{perCase, 8, 4 * perCase} }

// expected is how long it will take, if repetitions go on to be quiet as often as before.
func (e *effort) expected(quiet int, spent time.Duration) time.Duration {
	if quiet >= e.least {
		return e.perCase
	}
	return min(e.most, max(e.perCase, spent*time.Duration(e.least)/time.Duration(max(quiet, 1))))
}

// measureCommand measures the implementation in use, and prints a report as
// JSON. attn bench runs it in a process for each implementation.
func measureCommand(args []string, stdout, stderr io.Writer) error {
	fs := flags.New("attn measure [flags]\n\nUsed by attn bench: measures the " +
		"implementation in use.\n\n")
	quick := fs.Bool("quick", false, "measure for a shorter time")
	perCase := fs.Duration("time", defaultTime, "measure each case for this long")
	pattern := fs.String("run", "", "only cases that match this regular expression")
	threads := fs.Int("threads", 0, "more than one thread: this many")
	name := fs.Bool("name", false, "print the implementation's name and nothing else")
	untilEOF := fs.Bool("until-eof", false, "end early, with what there is, when standard input does")
	if err := flags.ParseAll(fs, args, stdout); err != nil {
		return err
	}
	if *name {
		_, err := fmt.Fprintln(stdout, attn.Implementation())
		return err
	}
	match, err := regexp.Compile(*pattern)
	if err != nil {
		return flags.Errorf("-run: %w", err)
	}
	m := measurement{effort: effortOf(*perCase), match: match, threads: *threads, stderr: stderr}
	if *quick {
		m.effort = quickEffort
	}
	if *untilEOF {
		m.ended = untilInputEnds()
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
	ended   <-chan struct{} // closed when it is to end early, with what there is

	vectors         limits.Vectors
	perCycle        float64 // floating-point operations at the FMA peak
	integers, small limits.Integers
	clock           map[int]float64 // the best by number of threads, cycles per second of all together
	dram            map[dram]*limits.Memory
}

func (m *measurement) run() (*report, error) {
	r := &report{Implementation: attn.Implementation(), Results: []result{}}
	m.begin(r.Implementation)
	p := newProgress(m.stderr, r.Implementation, 1000)
	defer p.finish()
	m.announce(r.Implementation)
	begin := time.Now()
	if r.Machine = m.machine(); m.early() {
		return &report{Implementation: r.Implementation, Results: r.Results}, nil
	}
	m.perCycle, m.clock[1] = r.Machine.PerCycle, r.Machine.Clock*1e9
	trials, release, err := m.trials()
	if err != nil {
		return nil, err
	}
	defer release()
	before := time.Since(begin)
	m.rounds(trials, func(spent, expected time.Duration) {
		p.reach(int(1000 * (before + spent) / (before + expected)))
	})
	r.Results = append(r.Results, m.end(trials)...)
	return r, nil
}

// early reports whether to end with what there is.
func (m *measurement) early() bool {
	select {
	case <-m.ended:
		return true
	default:
		return false
	}
}

// begin chooses the loops of an implementation's limits.
func (m *measurement) begin(implementation string) {
	m.vectors, m.integers = limits.For(implementation), limits.IntegersFor(implementation)
	m.small, m.clock = limits.SmallIntegersFor(implementation), map[int]float64{}
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
			if m.match.MatchString(c.Name) && (threads == 1 || c.shared()) {
				list = append(list, threadedCase{c, threads})
			}
		}
	}
	return list
}

// announce says how long it will take.
func (m *measurement) announce(implementation string) {
	rate := 0.0
	for range 3 {
		rate = max(rate, limits.FMA(m.vectors, 1, limits.Burst))
	}
	n := len(m.cases())
	least, most := m.duration(m.effort.perCase, rate), m.duration(m.effort.most, rate)
	fmt.Fprintf(m.stderr, "%s: %d cases take about %v, or %v on a machine that is busy\n",
		implementation, n, least, most)
}

// starting is what limits of the machine and inputs of the cases take.
const starting = 5 * time.Second

// duration is what measuring takes if each case has some time, or longer if calls do that run at
// multiply-adds of some rate: one prepares, one tells how many are a repetition, two count
// allocations, and two are a repetition.
func (m *measurement) duration(each time.Duration, rate float64) time.Duration {
	total, once, twice := time.Duration(0), time.Duration(0), time.Duration(0)
	for _, c := range m.cases() {
		call := time.Duration(c.work() / rate / float64(c.threads) * 1e9)
		total += each
		once += 4 * call
		twice += 2 * call
	}
	return (starting + once + max(total, twice)).Round(time.Second)
}

// machine measures the limits of one thread.
func (m *measurement) machine() machine {
	got := machine{Vectors: m.vectors.String(), Read: map[string]float64{}}
	got.FMA = m.best(func() float64 {
		got.Clock = max(got.Clock, limits.Cycles(1, limits.Burst)/1e9) // in the same moments
		return limits.FMA(m.vectors, 1, limits.Burst)
	})
	got.PerCycle = operationsPerCycle(m.vectors, got.FMA, got.Clock)
	got.IntegersWith = m.integers.String()
	got.Integers = m.best(func() float64 {
		return limits.MultiplyIntegers(m.integers, 1, limits.Burst)
	})
	for _, level := range limits.Levels() {
		memory := limits.NewMemory(m.vectors, 1, level.Bytes)
		got.Read[level.Name] = m.best(memory.Read)
		if level.Name == "DRAM" {
			memory.ReadStreams() // takes what Read has left in the caches
			got.Read["DRAM, 8 streams"] = m.best(memory.ReadStreams)
			if huge := limits.NewMemoryInHugePages(m.vectors, 1, level.Bytes); huge != nil {
				got.Read["DRAM, huge pages"] = max(m.best(huge.Read), m.best(huge.ReadStreams))
			}
		}
	}
	return got
}

// best returns the most of several measurements, in units of 10⁹.
func (m *measurement) best(measure func() float64) float64 {
	top, start := 0.0, time.Now()
	for n := 0; !m.early() && (n < 3 || time.Since(start) < m.effort.perCase/10); n++ {
		top = max(top, measure()/1e9)
	}
	return top
}

// limit measures the limit of a case: multiply-adds in short bursts, or reading as many
// bytes as the case, of memory in pages like those that the case reads.
func (m *measurement) limit(c *benchCase, threads int) (top float64) {
	if !c.memory() {
		start := time.Now()
		for n := range 6 * threads * threads { // the more threads, the rarer a moment in which all run
			if n >= 6 && time.Since(start) > turnTime {
				break
			}
			top = max(top, m.multiply(c, threads))
		}
		return top
	}
	// which leaves nothing of the case's data in the caches
	return m.memory(dram{threads, c.huge()}).ReadCold(int(c.work()))
}

// multiply is one burst of what limits a case.
func (m *measurement) multiply(c *benchCase, threads int) float64 {
	switch {
	case !c.integers:
		return limits.FMA(m.vectors, threads, limits.Burst)
	case c.small():
		return limits.MultiplyIntegers(m.small, threads, limits.Burst)
	}
	return limits.MultiplyIntegers(m.integers, threads, limits.Burst)
}

// dram is a kind of buffers: for how many threads, and whether in pages like those of a cache.
type dram struct {
	threads int
	cached  bool
}

// memory returns a buffer for each thread: pieces of a large one.
func (m *measurement) memory(d dram) *limits.Memory {
	one := dram{1, d.cached}
	if m.dram == nil {
		m.dram = map[dram]*limits.Memory{}
	}
	if m.dram[one] == nil && d.cached {
		m.dram[one] = limits.NewMemoryInHugePages(m.vectors, 1, limits.Cold())
		if m.dram[one] == nil {
			m.dram[one] = m.memory(dram{1, false})
		}
	}
	if m.dram[one] == nil {
		m.dram[one] = limits.NewMemory(m.vectors, 1, limits.Cold())
	}
	if m.dram[d] == nil {
		m.dram[d] = m.dram[one].Split(d.threads)
	}
	return m.dram[d]
}

// result is all of a result that needs no measuring.
func (c *benchCase) result(threads int) result {
	r := result{Implementation: attn.Implementation(), Case: c.Name, Shape: c.Shape, Threads: threads,
		Unit: "GFLOP/s", LimitOf: "FMA"}
	switch {
	case c.memory():
		r.Unit, r.LimitOf = "GB/s", "DRAM"
	case c.small():
		r.Unit, r.LimitOf = "GOP/s", "INT4"
	case c.integers:
		r.Unit, r.LimitOf = "GOP/s", "INT8"
	}
	function := "Attend"
	switch {
	case c.cached:
		function = "Cache"
	case c.matrix != 0:
		function = "Matrix"
	}
	r.Benchmark = fmt.Sprintf("Benchmark%s/%s/impl=%s/threads=%d", function, c.Bench, r.Implementation,
		threads)
	return r
}
