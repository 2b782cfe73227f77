package main

import (
	"encoding/json"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/cmd/attn/internal/chart"
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

	status, stdout, stderr := call("bench", "-quick", "-run", "^tiny$", "-json", "-png", f.path("b.png"))
	var b benchmark
	if err := json.Unmarshal([]byte(stdout), &b); status != 0 || err != nil {
		t.Fatalf("status %d, stdout %q, stderr %q", status, stdout, stderr)
	}
	if len(b.Reports) != 1 || len(b.Reports[0].Results) != 1 {
		t.Fatalf("%d reports", len(b.Reports))
	}
	r := b.Reports[0].Results[0]
	if r.Case != "tiny" || r.Threads != 1 || r.Nanoseconds <= 0 || r.Median < r.Nanoseconds || r.Percent <= 0 || r.Limit <= 0 {
		t.Errorf("%+v", r)
	}
	if m := b.Reports[0].Machine; m.FMA <= 0 || len(m.Read) != 5 {
		t.Errorf("%+v", m)
	}
	f.picture("b.png")
}

// Each implementation is measured in a process of its own, whatever this one uses.
func TestBenchImplementations(t *testing.T) {
	t.Setenv(asCommand, "1")
	status, stdout, stderr := call("bench", "-quick", "-run", "^tiny$", "-isa", "generic", "-go")
	line := regexp.MustCompile(`(?m)^BenchmarkAttend/tiny/d=64/impl=generic/threads=1\t\d+\t[\d.]+ ns/op\t[\d.]+ GFLOP/s\t[\d.]+ %-of-limit\t\d+ allocs/op$`)
	if status != 0 || !line.MatchString(stdout) || !strings.Contains(stdout, "\ncpu: ") {
		t.Errorf("status %d, stdout %q, stderr %q", status, stdout, stderr)
	}
	checkRefusalOf(t, 2, `-isa names "mmx"`, "bench", "-isa", "mmx")
}

func checkRefusalOf(t *testing.T, wantStatus int, want string, args ...string) {
	t.Helper()
	status, stdout, stderr := call(args...)
	checkRefusal(t, wantStatus, status, stdout, stderr, want)
}

func TestBenchRefuses(t *testing.T) {
	checkRefusalOf(t, 2, "no case matches", "bench", "-run", "nothing")
	checkRefusalOf(t, 2, "missing closing", "bench", "-run", "(")
	checkRefusalOf(t, 2, "exclude each other", "bench", "-json", "-go")
	checkRefusalOf(t, 2, "-threads is 0", "bench", "-threads", "0")
	checkRefusalOf(t, 1, "no such file", "bench", "-png", "none/b.png")
}

// A case that shares a shape with another gives the same result, cached or
// not, on one thread or two: what is timed is attention.
func TestCasesAgree(t *testing.T) {
	want := map[string][]float32{}
	for _, threads := range []int{1, 2} {
		for _, c := range benchCases {
			c.lq, c.lk = min(c.lq, 70), min(c.lk, 70)
			call, dst, release, err := c.prepare(threads)
			if err != nil {
				t.Fatal(err)
			}
			if err := call(); err != nil {
				t.Fatal(err)
			}
			release()
			if want[c.Bench] == nil {
				want[c.Bench] = dst.Data
			}
			if !sameBits(dst.Data, want[c.Bench]) {
				t.Errorf("%s on %d threads: other bits", c.Name, threads)
			}
		}
	}
}

// The figures of the published tables: 4·B·H·Lq·Lk·D operations, or the bytes of K and V.
func TestWork(t *testing.T) {
	for _, c := range benchCases {
		want := map[string]float64{
			"prefill_d64": 2147483648, "prefill_d64_causal": 1073741824, "prefill_d128": 17179869184,
			"prefill_d128_causal": 8589934592, "bert": 402653184, "tiny": 65536,
			"decode": 128 << 20, "decode, cache": 128 << 20, "decode_gqa": 32 << 20, "decode_gqa, cache": 32 << 20,
		}[c.Name]
		if c.work() != want {
			t.Errorf("%s: %g, want %g", c.Name, c.work(), want)
		}
	}
}

func TestTable(t *testing.T) {
	b := benchmark{CPU: "A CPU", Reports: []report{{Implementation: attn.Implementation(), Results: []result{
		{Case: "tiny", Nanoseconds: 1234, Rate: 12.34, Unit: "GFLOP/s", Limit: 100, LimitOf: "FMA", Percent: 12.34, Threads: 1},
		{Case: "decode", Nanoseconds: 7.5e6, Rate: 18, Unit: "GB/s", Limit: 20, LimitOf: "DRAM", Percent: 90, Threads: 2},
	}}}}
	var out strings.Builder
	b.table(&out)
	for _, want := range []string{"A CPU", "1234 ns", "12.3 GFLOP/s", "7.50 ms", "DRAM   20.0 GB/s", "90.0 %"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	width := 0
	for _, line := range strings.Split(out.String(), "\n") {
		if strings.HasPrefix(line, "|") {
			if n := len([]rune(line)); width == 0 {
				width = n
			} else if n != width {
				t.Errorf("a line of the table has %d columns, the first %d:\n%s", n, width, line)
			}
		}
	}
}

// Bars beyond the limit, missing ones and many groups do not break the chart.
func TestBars(t *testing.T) {
	var groups []chart.Group
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		groups = append(groups, chart.Group{Name: name, Percent: map[string]float64{"one": 130, "two": 3}})
	}
	if err := chart.DrawBars(io.Discard, "title", []string{"one", "two", "three"}, groups); err != nil {
		t.Error(err)
	}
}
