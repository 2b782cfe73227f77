package main

import (
	"cmp"
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
	"github.com/seed-1415985d/attn/internal/measure"
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

// By default all cases need two minutes at most, and the announcement for a slow implementation is
// longer.
func TestAnnouncement(t *testing.T) {
	var text strings.Builder
	m := measurement{Meter: measure.NewMeter(attn.Implementation(), effortOf(defaultTime), nil),
		match: regexp.MustCompile(""), threads: 2, stderr: &text}
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
		least, most := m.duration(m.Effort.PerTrial, rate), m.duration(m.Effort.Most, rate)
		if least < want[0] || most > want[1] || most < least {
			t.Errorf("at %g it takes %v to %v, want from %v to %v", rate, least, most, want[0], want[1])
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
		"no keys in a cache": {cached: true, sizes: sizes{b: 1, h: 1, kvh: 1, lq: 1, d: 8}},
		"heads":              {sizes: sizes{b: 1, h: 3, kvh: 2, lq: 1, lk: 1, d: 8}},
		"inputs":             {matrix: attn.Q8_0, sizes: sizes{b: 1, h: 1, lq: 1, lk: 1, d: 8}},
	} {
		for _, threads := range []int{1, 2} {
			if _, err := with.trial(c, threads); err == nil {
				t.Errorf("%s, %d threads: no error", name, threads)
			}
		}
	}
}

// What bench prints and draws, without measuring.
func TestPrint(t *testing.T) {
	f := newFolder(t)
	b := &benchmark{measure.Benchmark{Reports: []measure.Report{{Results: []measure.Result{
		{Case: "bert", Threads: 1, Percent: 10, Limit: 5},
		{Case: "bert", Benchmark: "BenchmarkBusy", Threads: 2, Busy: true, Unit: "GFLOP/s"},
	}}}}}
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
			float64(with.inputsOf(c.sizes).caches[c.kind].MemoryUse()); got != want {
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

// A trial is named and bounded as its case is.
func TestTrials(t *testing.T) {
	with := newEquipment(2)
	defer with.release()
	for want, way := range map[string]benchCase{
		"BenchmarkAttend GFLOP/s FMA": {},
		"BenchmarkAttend GOP/s INT8":  {integers: true},
		"BenchmarkCache GB/s DRAM":    {cached: true, sizes: sizes{lq: 1}},
		"BenchmarkMatrix GB/s DRAM":   {matrix: attn.Q4_0, sizes: sizes{lq: 1}, integers: true},
		"BenchmarkMatrix GOP/s INT4":  {matrix: attn.Q4_0, sizes: sizes{lq: 5}, integers: true},
	} {
		c := way
		c.Name, c.Bench, c.sizes = "c", "c", sizes{b: 1, h: 2, kvh: 1, lq: cmp.Or(way.lq, 2), lk: 100,
			d: 8}
		if c.matrix != 0 {
			c.h, c.d = 1, 32
		}
		for _, threads := range []int{1, 2} {
			one, err := with.trial(c, threads)
			if err != nil {
				t.Fatal(err)
			}
			name, _, _ := strings.Cut(one.Benchmark, "/")
			if got := name + " " + one.Unit + " " + one.LimitOf; got != want ||
				one.Threads != threads || one.Huge != (c.cached || c.matrix != 0) ||
				(one.Wake != nil) != (threads > 1) {
				t.Errorf("%s, %d threads, huge %v, want %s, %d", got, one.Threads, one.Huge, want, threads)
			}
			if one.Wake != nil {
				one.Wake()
			}
		}
	}
}

// The table has all, in 100 columns.
func TestTable(t *testing.T) {
	read := map[string]float64{"L1": 1234.5, "L2": 1087.6, "L3": 1000, "DRAM": 100,
		"DRAM, 8 streams": 100, "DRAM, huge pages": 100}
	machine := measure.Machine{Read: read, Vectors: limits.Scalar.String(), FMA: 1234.5,
		PerCycle: 0.123, Clock: 10, IntegersWith: limits.IntegersFor("generic").String(),
		Integers: 12345.6}
	b := benchmark{measure.Benchmark{Environment: measure.Environment{CPU: "A CPU"},
		Reports: []measure.Report{{Implementation: "generic", Machine: machine}}}}
	call := func() error { return nil }
	for _, threads := range []int{1, 2} {
		for _, c := range benchCases {
			r := measure.NewTrial(c.result(threads), c.bound(), c.work(), call).Result
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
