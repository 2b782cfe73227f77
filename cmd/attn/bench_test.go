package main

import (
	"encoding/json"
	"io"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/cmd/attn/internal/chart"
	"github.com/seed-1415985d/attn/internal/limits"
)

// asCommand in the environment makes the test binary behave as attn does: bench runs itself.
const asCommand = "ATTN_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		os.Exit(realMain(os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

func TestBench(t *testing.T) {
	t.Setenv(asCommand, "1")
	f := newFolder(t)

	status, stdout, stderr := call("bench", "-quick", "-run", "^tiny$", "-json", "-png",
		f.path("b.png"))
	var b benchmark
	if err := json.Unmarshal([]byte(stdout), &b); status != 0 || err != nil {
		t.Fatalf("status %d, stdout %q, stderr %q", status, stdout, stderr)
	}
	if len(b.Reports) != 1 || len(b.Reports[0].Results) != 1 {
		t.Fatalf("%d reports", len(b.Reports))
	}
	r := b.Reports[0].Results[0]
	if r.Case != "tiny" || r.Threads != 1 || r.Nanoseconds <= 0 || r.Median < r.Nanoseconds ||
		!r.Busy && (r.Percent <= 0 || r.Limit <= 0 || r.AtItsClock <= 0) {
		t.Errorf("%+v", r)
	}
	m := b.Reports[0].Machine
	if m.FMA <= 0 || m.Clock <= 0 || m.PerCycle <= 0 || len(m.Read) > 6 {
		t.Errorf("%+v", m)
	}
	// huge pages are not everywhere
	for _, level := range []string{"L1", "L2", "L3", "DRAM", "DRAM, 8 streams"} {
		if m.Read[level] <= 0 {
			t.Errorf("%s: %g GB/s", level, m.Read[level])
		}
	}
	f.picture("b.png")
}

// Each implementation is measured in a process of its own, whatever this one uses.
func TestBenchImplementations(t *testing.T) {
	t.Setenv(asCommand, "1")
	status, stdout, stderr := call("bench", "-quick", "-run", "^tiny$", "-isa", "generic", "-go",
		"-count", "2")
	line := regexp.MustCompile(`(?m)^BenchmarkAttend/tiny/d=64/impl=generic/threads=1` +
		`\t\d+\t[\d.]+ ns/op\t[\d.]+ GFLOP/s(\t[\d.]+ %-of-limit)?\t\d+ allocs/op$`)
	if status != 0 || len(line.FindAllString(stdout, -1)) != 2 ||
		!strings.Contains(stdout, "\ncpu: ") {
		t.Errorf("status %d, stdout %q, stderr %q", status, stdout, stderr)
	}
	checkRefusalOf(t, 2, `-isa names "mmx"`, "bench", "-isa", "mmx")
	checkRefusalOf(t, 2, "-isa is \"generic,generic\", which names generic twice", "bench", "-isa",
		"generic,generic")
}

func checkRefusalOf(t *testing.T, wantStatus int, want string, args ...string) {
	t.Helper()
	status, stdout, stderr := call(args...)
	checkRefusal(t, wantStatus, status, stdout, stderr, want)
}

func TestBenchRefuses(t *testing.T) {
	checkRefusalOf(t, 2, "no case matches", "bench", "-run", "nothing")
	checkRefusalOf(t, 2, "-run: error parsing regexp: missing closing", "bench", "-run", "(")
	checkRefusalOf(t, 2, "exclude each other", "bench", "-json", "-go")
	checkRefusalOf(t, 2, "-threads is 0", "bench", "-threads", "0")
	checkRefusalOf(t, 2, "-threads is 100000, want 1 to ", "bench", "-threads", "100000")
	checkRefusalOf(t, 2, "-count is 0, want 1 or more", "bench", "-count", "0")
	checkRefusalOf(t, 2, "-count is 6, want -go with it", "bench", "-count", "6")
	checkRefusalOf(t, 2, "-count is 6, and -png draws one run", "bench", "-go", "-count", "6", "-png",
		"b.png")
	checkRefusalOf(t, 2, "-time is -1s", "bench", "-time", "-1s")
	checkRefusalOf(t, 2, "exclude each other", "bench", "-time", "2s", "-quick")
	checkRefusalOf(t, 1, "-png: none/b.png: no such file", "bench", "-png", "none/b.png")
	checkRefusalOf(t, 2, "-png is x.png/, which names a folder", "bench", "-png", "x.png/")
	checkRefusalOf(t, 2, "-png is b.gif, want a name that ends in .png, .svg or .pdf", "bench", "-png",
		"b.gif")
	checkRefusalOf(t, 2, "not defined", "bench", "-slow")
	checkRefusalOf(t, 2, "not defined", "measure", "-slow")
	checkRefusalOf(t, 2, "-run: error parsing regexp: missing closing", "measure", "-run", "(")
}

// The implementation in use is measured, or those asked for, of all the best first.
func TestBenchMeasuresImplementations(t *testing.T) {
	t.Setenv(asCommand, "1")
	t.Setenv("ATTN_ISA", "")
	x := watchInterrupts()
	defer x.stop()
	for _, quick := range []bool{false, true} {
		names, err := (&benchFlags{quick: quick}).implementations(x)
		if want := []string{attn.Implementation()}; err != nil || !slices.Equal(names, want) {
			t.Errorf("quick %v: implementations are %v, error %v, want %v", quick, names, err, want)
		}
	}
	names, err := (&benchFlags{isa: "all"}).implementations(x)
	if err != nil || len(names) == 0 || names[len(names)-1] != "generic" {
		t.Errorf("implementations are %v, error %v", names, err)
	}
}

// By default all cases take two minutes at most, and a slow implementation is said to take longer.
func TestAnnouncement(t *testing.T) {
	var text strings.Builder
	m := measurement{effort: effortOf(defaultTime), match: regexp.MustCompile(""), threads: 2,
		stderr: &text, vectors: limits.For(attn.Implementation())}
	m.announce("x")
	line := regexp.MustCompile(`^x: 95 cases take about \d+m?\d*s, or \d+m?\d*s on a machine that is ` +
		`busy\n$`)
	if !line.MatchString(text.String()) {
		t.Errorf("it says %q", text.String())
	}
	const gigaflop = 1e9
	for rate, want := range map[float64][2]time.Duration{
		50 * gigaflop: {20 * time.Second, 2 * time.Minute}, 2 * gigaflop: {time.Minute, time.Hour},
	} {
		least, most := m.duration(m.effort.perCase, rate), m.duration(m.effort.most, rate)
		if least < want[0] || most > want[1] || most < least {
			t.Errorf("at %g it takes %v to %v, want from %v to %v", rate, least, most, want[0], want[1])
		}
	}
}

// Memory in ordinary pages is one buffer, of which each number of threads has pieces.
func TestMemoryOfThreads(t *testing.T) {
	m := measurement{vectors: limits.For(attn.Implementation())}
	two := m.memory(dram{2, false})
	if two == nil || two != m.memory(dram{2, false}) || two == m.memory(dram{1, false}) ||
		len(m.dram) != 2 {
		t.Errorf("there are %d buffers, want one for one thread and one for two", len(m.dram))
	}
}

// Cases that memory limits and others take turns, on one thread and on more, until each had enough.
func TestRounds(t *testing.T) {
	m := measurement{effort: effort{time.Millisecond, 2, 3 * time.Second}, perCycle: 1}
	m.begin(attn.Implementation())
	with := newEquipment(2)
	defer with.release()
	var trials []*trial
	for _, threads := range []int{1, 2} {
		for _, way := range []benchCase{{}, {cached: true}, {integers: true}, {matrix: attn.Q4_0}} {
			c := way
			c.Name, c.Bench, c.shape = "c", "c", shape{b: 1, h: 2, kvh: 1, lq: 1, lk: 100, d: 8}
			switch {
			case c.matrix != 0:
				c.h, c.d = 1, 32
			case !c.cached:
				c.lq = 2
			}
			one, err := with.trial(c, threads)
			if err != nil {
				t.Fatal(err)
			}
			trials = append(trials, one)
		}
	}
	reached := 0.0
	m.rounds(trials, func(spent, expected time.Duration) {
		reached = float64(spent) / float64(expected)
	})
	if reached < 0.99 { // of 1: a turn is the last thing that took time
		t.Errorf("ended at %.2f of the expected time", reached)
	}
	for i, r := range m.end(trials) {
		one := trials[i]
		switch {
		case r.Repetitions < 1 || r.Nanoseconds <= 0 || r.Rate <= 0 || r.Quiet > r.Repetitions:
			t.Errorf("%+v", r)
		case r.Busy != (r.Limit == 0) || r.Busy != (r.Percent == 0) || r.Percent > 100.001:
			t.Errorf("a limit without a per cent, or the other way round: %+v", r)
		case one.c.memory() && (r.Unit != "GB/s" || r.Calls != 1 || r.AtItsClock != 0):
			t.Errorf("memory: %+v", r)
		case one.c.cached != strings.HasPrefix(r.Benchmark, "BenchmarkCache/"),
			one.c.matrix != 0 != strings.HasPrefix(r.Benchmark, "BenchmarkMatrix/"):
			t.Errorf("the name: %+v", r)
		case one.c.memory():
		case one.c.integers && (r.Unit != "GOP/s" || r.LimitOf != "INT8"):
			t.Errorf("integers: %+v", r)
		case !one.c.integers && (r.Unit != "GFLOP/s" || r.LimitOf != "FMA"):
			t.Errorf("multiply-adds: %+v", r)
		case r.Busy == (r.AtItsClock > 0):
			t.Errorf("at its clock: %+v", r)
		}
	}
}

// Every case is measured once, whatever that takes, and nobody waits for quiet repetitions for
// hours.
func TestExpected(t *testing.T) {
	e := effort{perCase: 5, least: 8, most: 20}
	for _, c := range []struct {
		quiet       int
		spent, want time.Duration
	}{{0, 0, 5}, {0, 1, 8}, {0, 4, 20}, {4, 1, 5}, {4, 5, 10}, {7, 7, 8}, {8, 1, 5}, {8, 9, 5}, {1, 20,
		20}, {7, 30, 20}} {
		if got := e.expected(c.quiet, c.spent); got != c.want {
			t.Errorf("%d quiet in %d: %v, want %v", c.quiet, c.spent, got, c.want)
		}
	}
}

// at is a repetition of some nanoseconds, between quiet moments of a clock at which the core could
// do 100 operations in each of them.
func at(nanoseconds float64) sample {
	quiet := moment{1e9, true}
	return sample{nanoseconds: nanoseconds, limit: 100, before: quiet, after: quiet}
}

// trialOf is a case of 160 operations, of which some repetitions were measured.
func trialOf(samples []sample) *trial {
	t := &trial{c: benchCase{shape: shape{b: 1, h: 1, lq: 2, lk: 5, d: 4}}, samples: samples}
	t.Threads, t.Calls, t.call = 1, 1, func() error { return nil }
	for _, s := range samples {
		t.Limit = max(t.Limit, s.limit)
	}
	return t
}

// A case has a per cent if its limit was measured in the quiet moments of some of its repetitions.
func TestBusy(t *testing.T) {
	change := func(change func(s *sample)) sample {
		s := at(2)
		change(&s)
		return s
	}
	disturbed := map[string]sample{
		"the core before":   change(func(s *sample) { s.before.quiet = false }),
		"the core after":    change(func(s *sample) { s.after.quiet = false }),
		"another clock":     change(func(s *sample) { s.after.clock = 0.96e9 }),
		"less than a core":  change(func(s *sample) { s.before.clock, s.after.clock = 0.8e9, 0.8e9 }),
		"a limit too low":   change(func(s *sample) { s.limit = 85 }),
		"a limit of a half": change(func(s *sample) { s.limit = 50 }),
	}
	for name, d := range disturbed {
		for _, c := range []struct {
			samples []sample
			quiet   int
			busy    bool
		}{
			{[]sample{at(2)}, 1, false}, {[]sample{at(2), at(3)}, 2, false},
			{[]sample{at(2), d, at(3), d, at(4)}, 3, false},
			{[]sample{at(2), d, at(3), d}, 2, true},
			{[]sample{at(2), d}, 1, true},
		} {
			m := measurement{perCycle: 100, clock: map[int]float64{1: 1e9}}
			one := trialOf(c.samples)
			r := m.end([]*trial{one})[0]
			if r.Quiet != c.quiet || r.Busy != c.busy || c.busy != (r.Percent == 0) ||
				c.busy != (r.AtItsClock == 0) || c.busy != (r.Limit == 0) || r.Nanoseconds != 2 {
				t.Errorf("%s, %d repetitions: %+v, want %d quiet, busy %v", name, len(c.samples), r,
					c.quiet, c.busy)
			}
		}
	}
}

// No case says that it did more than the machine can: a little more is the limit, and what is far
// beyond it shows that no quiet moment was met.
func TestNothingIsBeyondTheLimit(t *testing.T) {
	m := measurement{perCycle: 100, clock: map[int]float64{1: 1e9}}
	for ns, want := range map[float64]float64{3.2: 50, 2: 80, 1.6: 100, 1.57: 100, 1.5: 0, 0.2: 0} {
		r := m.end([]*trial{trialOf([]sample{at(ns), at(ns), at(ns)})})[0]
		if math.Abs(r.Percent-want) > 0.01 || r.Busy != (want == 0) || r.Rate > r.Limit && !r.Busy {
			t.Errorf("%g ns of 1.6: %+v, want %g %%", ns, r, want)
		}
	}
}

// Cases that read memory of one kind on as many threads have about one limit.
func TestLimitsOfMemoryAgree(t *testing.T) {
	m := measurement{clock: map[int]float64{}}
	reading := func(threads int, cached bool, limit float64) *trial {
		s := sample{nanoseconds: 1e9, limit: limit}
		one := trialOf([]sample{s, s, s})
		one.Threads = threads
		one.c = benchCase{shape: shape{b: 1, h: 1, kvh: 1, lq: 1, lk: 1, d: 1}, cached: cached}
		return one
	}
	for i, r := range m.end([]*trial{reading(1, true, 40), reading(1, true, 30), reading(1, true, 35),
		reading(2, true, 80), reading(1, false, 30), reading(2, false, 20)}) {
		if r.Busy != (i == 1 || i == 5) {
			t.Errorf("case %d: %+v", i, r)
		}
	}
}

// The per cent at its clock is the median of the fastest tenth of the quiet repetitions.
func TestAtItsClock(t *testing.T) {
	m := measurement{perCycle: 100, clock: map[int]float64{1: 1e9}}
	slow := func(ns, clock float64) sample {
		s := at(ns)
		s.before.clock, s.after.clock = clock, clock
		return s
	}
	for name, c := range map[string]struct {
		samples []sample
		want    float64
	}{
		"one":   {[]sample{at(2)}, 80},
		"three": {[]sample{at(4), slow(2, 0.9e9), at(2)}, 80},
		"four":  {[]sample{at(4), slow(2, 0.9e9), at(2), at(5)}, 80},
		"fifty": {append([]sample{at(2), at(2), at(2), at(4), at(4)},
			slices.Repeat([]sample{at(8)}, 45)...), 80},
	} {
		if r := m.end([]*trial{trialOf(c.samples)})[0]; math.Abs(r.AtItsClock-c.want) > 0.01 {
			t.Errorf("%s: %g, want %g", name, r.AtItsClock, c.want)
		}
	}
}

// Multiply-adds of a cycle are whole, and one at least, also on a machine that was never quiet.
func TestOperationsPerCycle(t *testing.T) {
	for _, c := range []struct {
		vectors    limits.Vectors
		fma, clock float64
		want       float64
	}{
		{limits.AVX2, 64e9, 2e9, 32}, {limits.AVX2, 66e9, 2e9, 32}, {limits.AVX2, 50e9, 2e9, 32},
		{limits.AVX2, 31e9, 2e9, 16},
		{limits.AVX2, 1e6, 2e9, 16}, {limits.AVX512, 120e9, 2e9, 64}, {limits.AVX512, 64e9, 2e9, 32},
		{limits.Scalar, 3e9, 2e9, 1.5},
	} {
		if got := operationsPerCycle(c.vectors, c.fma, c.clock); got != c.want {
			t.Errorf("%v, %g a second at %g Hz: %g, want %g", c.vectors, c.fma, c.clock, got, c.want)
		}
	}
}

// One thread is measured once, also if it is all that there is.
func TestThreadsOfCases(t *testing.T) {
	for threads, want := range map[int]int{0: 1, 1: 1, 2: 2} {
		m := measurement{match: regexp.MustCompile("^bert$"), threads: threads}
		if got := len(m.cases()); got != want {
			t.Errorf("%d threads: %d cases, want %d", threads, got, want)
		}
	}
}

// A case that the package refuses is an error, before it is measured and while.
func TestMeasureReportsErrors(t *testing.T) {
	with := newEquipment(2)
	defer with.release()
	for name, c := range map[string]benchCase{
		"no keys in a cache": {cached: true, shape: shape{b: 1, h: 1, kvh: 1, lq: 1, d: 8}},
		"heads":              {shape: shape{b: 1, h: 3, kvh: 2, lq: 1, lk: 1, d: 8}},
		"inputs":             {matrix: attn.Q8_0, shape: shape{b: 1, h: 1, lq: 1, lk: 1, d: 8}},
	} {
		for _, threads := range []int{1, 2} {
			if _, err := with.trial(c, threads); err == nil {
				t.Errorf("%s, %d threads: no error", name, threads)
			}
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("a call that begins to fail goes unnoticed")
		}
	}()
	repetition(func() error { return io.ErrUnexpectedEOF }, 1)
}

// What bench prints and draws, without measuring.
func TestPrint(t *testing.T) {
	f := newFolder(t)
	b := &benchmark{CPU: "A CPU", Reports: []report{{Implementation: "generic", Results: []result{
		{Case: "bert", Threads: 1, Percent: 10, Limit: 5},
		{Case: "bert", Benchmark: "BenchmarkBusy", Threads: 2, Busy: true, Unit: "GFLOP/s"},
	}}}}
	var out strings.Builder
	if err := (&benchFlags{png: f.path("b.png")}).print(b, &out); err != nil ||
		!strings.Contains(out.String(), "| bert ") || !strings.Contains(out.String(),
		"  10.0 % |              |\n") || !strings.Contains(out.String(),
		" – |    busy |              |\n") {
		t.Errorf("error %v, table %q", err, out.String())
	}
	out.Reset()
	if err := (&benchFlags{goFormat: true}).print(b, &out); err != nil ||
		!strings.HasSuffix(out.String(), "BenchmarkBusy\t0\t0.0 ns/op\t0.00 GFLOP/s\t0 allocs/op\n") {
		t.Errorf("error %v, for benchstat %q", err, out.String())
	}
	out.Reset()
	if err := (&benchFlags{json: true}).print(b, &out); err != nil ||
		strings.Count(out.String(), `"busy": true`) != 1 ||
		strings.Count(out.String(), `"percent"`) != 1 ||
		strings.Count(out.String(), `"limit"`) != 1 {
		t.Errorf("error %v, JSON %q", err, out.String())
	}
	f.picture("b.png")
	if err := (&benchFlags{png: f.path("none/b.png")}).print(b, io.Discard); err == nil {
		t.Error("no error for a folder that does not exist")
	}
	if err := writePicture(f.path("b.gif"), b.draw); err == nil ||
		slices.Contains(f.names(), "b.gif") {
		t.Errorf("a picture of no kind: %v", err)
	}
	for want, ns := range map[string]float64{"12 ns": 12, "12.3 µs": 12345, "12.35 ms": 12.345e6,
		"123.5 ms": 123.46e6, "12.35 s": 12.345e9} {
		if got := duration(ns); got != want {
			t.Errorf("%v ns are %s, want %s", ns, got, want)
		}
	}
}

// A case that shares a shape with another gives the same result, cached or
// not, on one thread or two: what is timed is attention.
func TestCasesAgree(t *testing.T) {
	want := map[string][]float32{}
	with := newEquipment(2)
	defer with.release()
	for _, threads := range []int{1, 2} {
		for _, c := range benchCases {
			c.lq, c.lk = min(c.lq, 70), min(c.lk, 70)
			call, dst, err := with.prepare(&c, threads)
			if err != nil {
				t.Fatal(err)
			}
			if err := call(); err != nil {
				t.Fatal(err)
			}
			if want[c.Bench] == nil {
				want[c.Bench] = dst.Data
			}
			if !sameBits(dst.Data, want[c.Bench]) {
				t.Errorf("%s on %d threads: other bits", c.Name, threads)
			}
		}
	}
}

// The figures of the published tables: 2·B·H·Lq·Lk·(D + Dv) operations, or the bytes of K and V.
func TestWork(t *testing.T) {
	for _, c := range benchCases {
		want := map[string]float64{
			"prefill_d64": 2147483648, "prefill_d64_causal": 1073741824, "prefill_d128": 17179869184,
			"prefill_d128_causal": 8589934592, "bert": 402653184, "tiny": 65536,
			"decode": 128 << 20, "decode, cache": 128 << 20, "decode_gqa": 32 << 20,
			"decode_gqa, cache": 32 << 20,
			"decode, f16":       64 << 20, "decode, bf16": 64 << 20, "decode, i8": 33 << 20,
			"decode_gqa, f16": 16 << 20, "decode_gqa, bf16": 16 << 20, "decode_gqa, i8": 33 << 18,
			"prefill_d64, integers": 2147483648, "prefill_d64_causal, integers": 1073741824,
			"prefill_d128, integers": 17179869184, "prefill_d128_causal, integers": 8589934592,
			"mla": 2281701376, "mla, bf16": 2281701376, "mla, i8": 2281701376, "mla, integers": 2281701376,
			"decode, i4": 17 << 20, "decode, i8+i4": 25 << 20, "decode, i4, integers": 17 << 20,
			"decode, i8+i4, integers": 25 << 20, "decode_gqa, i4, integers": 17 << 18,
			"decode_gqa, i8+i4, integers": 25 << 18,
			"bert, integers":              402653184,
			"decode, integers":            33 << 20, "decode_gqa, integers": 33 << 18,
			"matrix q8_0, 1 row": 17 << 20, "matrix q4_0, 1 row": 9 << 20, "matrix q4_K, 1 row": 37 << 18,
			"matrix q5_K, 1 row": 45 << 18, "matrix q6_K, 1 row": 105 << 17,
			"matrix q8_0, 4 rows": 17 << 20, "matrix q4_0, 4 rows": 9 << 20,
			"matrix q4_K, 4 rows": 37 << 18, "matrix q5_K, 4 rows": 45 << 18,
			"matrix q6_K, 4 rows": 105 << 17,
		}[c.Name]
		switch {
		case strings.HasPrefix(c.Name, "matrix ") && strings.HasSuffix(c.Name, ", 128 rows"):
			want = 1 << 32
		case strings.HasPrefix(c.Name, "matrix ") && strings.HasSuffix(c.Name, ", 512 rows"):
			want = 1 << 34
		}
		if c.work() != want {
			t.Errorf("%s: %g, want %g", c.Name, c.work(), want)
		}
	}
}

// Decoding from a cache reads the memory that the cache has.
func TestWorkIsTheCachesMemory(t *testing.T) {
	with := newEquipment(1)
	defer with.release()
	names := map[string]bool{}
	for _, c := range benchCases {
		if !c.cached || !c.memory() {
			continue
		}
		if names[c.Bench] {
			t.Errorf("%s is the name of two benchmarks", c.Bench)
		}
		names[c.Bench] = true
		c.lk, c.b = 64, 2
		if _, _, err := with.prepare(&c, 1); err != nil {
			t.Fatal(err)
		}
		if got, want := c.work(),
			float64(with.inputsOf(c.shape).caches[c.kind].MemoryUse()); got != want {
			t.Errorf("%s: %g bytes of work, the cache has %g", c.Name, got, want)
		}
	}
	if len(names) != 16 {
		t.Errorf("%d cases read a cache, want 8 of f32 to i8, 2 of i4 and 6 in integers", len(names))
	}
}

// One row reads the memory that the matrix has, and few rows, too.
func TestWorkIsTheMatrixsMemory(t *testing.T) {
	with := newEquipment(1)
	defer with.release()
	names := map[string]bool{}
	for _, c := range matrixCases() {
		if names[c.Bench] || names[c.Name] {
			t.Errorf("%s or %s is the name of two cases", c.Name, c.Bench)
		}
		names[c.Bench], names[c.Name] = true, true
		if !c.memory() {
			continue
		}
		c.lk, c.d = 64, 256
		m, err := with.matrixOf(matrix{c.matrix, c.lk, c.d})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := c.work(), float64(m.MemoryUse()); got != want {
			t.Errorf("%s: %g bytes of work, the matrix has %g", c.Name, got, want)
		}
	}
	if len(names) != 2*5*4 {
		t.Errorf("there are %d cases, want 5 types by 4 numbers of rows", len(names)/2)
	}
}

// On several threads one row and 128 are measured, and everything else that is worth sharing.
func TestSharedCases(t *testing.T) {
	for name, want := range map[string]bool{"tiny": false, "bert": true, "matrix q4_K, 1 row": true,
		"matrix q4_K, 4 rows": false, "matrix q4_K, 128 rows": true, "matrix q4_K, 512 rows": false} {
		i := slices.IndexFunc(benchCases, func(c benchCase) bool { return c.Name == name })
		if i < 0 || benchCases[i].shared() != want {
			t.Errorf("%s is case %d, want one that is shared: %v", name, i, want)
		}
	}
}

// The table has all, in 100 columns.
func TestTable(t *testing.T) {
	read := map[string]float64{"L1": 1234.5, "L2": 1087.6, "L3": 1000, "DRAM": 100,
		"DRAM, 8 streams": 100, "DRAM, huge pages": 100}
	b := benchmark{CPU: "A CPU", Reports: []report{{Implementation: "generic",
		Machine: machine{Read: read, Vectors: limits.Scalar.String(), FMA: 1234.5, PerCycle: 0.123,
			Clock: 10, IntegersWith: limits.IntegersFor("generic").String(), Integers: 12345.6}}}}
	for _, threads := range []int{1, 2} {
		for _, c := range benchCases {
			r := c.result(threads)
			r.Nanoseconds, r.Rate, r.Limit, r.Percent = 12.345e6, 1234.5, 1234.5, 100
			r.AtItsClock, r.Repetitions = 100, 9
			b.Reports[0].Results = append(b.Reports[0].Results, r)
		}
	}
	var out strings.Builder
	b.table(&out)
	for _, want := range []string{"A CPU", "12.35 ms", "1234.5 GFLOP/s", "FMA  1234.5", "100.0 %",
		", L2 1087.6,", "(8 streams 100.0, huge pages 100.0)", "threads: 2",
		"- mla: H128 KV1 Lk8192 D576/512", "| matrix q4_K, 1 row ", "- matrix q8_0: K4096 N4096"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	for _, line := range strings.Split(out.String(), "\n") {
		if n := utf8.RuneCountInString(line); n > 100 || strings.HasPrefix(line, "|") && n != 100 {
			t.Errorf("%d columns, want 100 at most and the same in all rows:\n%s", n, line)
		}
	}
}

// Bars beyond the limit, missing ones and many groups do not break the chart.
func TestBars(t *testing.T) {
	var groups []chart.Group
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		groups = append(groups, chart.Group{Name: name,
			Percent: map[string]float64{"one": 130, "two": 3}})
	}
	if err := chart.DrawBars(io.Discard, chart.PNG, "title", []string{"one", "two", "three"},
		groups); err != nil {
		t.Error(err)
	}
	groups[3].Percent["one"] = math.NaN()
	if err := chart.DrawBars(io.Discard, chart.PNG, "title", []string{"one"}, groups); err == nil {
		t.Error("no error for a bar without a height")
	}
}
