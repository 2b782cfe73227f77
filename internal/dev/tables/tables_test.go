package main

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// The committed tables are what the committed measurements give.
func TestTablesAreCurrent(t *testing.T) {
	if testing.Short() {
		t.Skip("it reads the same files on every machine")
	}
	const root = "../../.."
	for _, name := range documents {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		want, err := fill(name, string(text), measurements(root))
		if err != nil {
			t.Fatal(err)
		}
		if string(text) != want {
			t.Errorf("a table of %s is not what docs/bench-*.json says: go run ./internal/dev/tables", name)
		}
		if !strings.Contains(want, "<!-- bench ") {
			t.Errorf("%s has no table", name)
		}
	}
}

// A measurement is the joined output of several runs, and can be read again.
func TestMeasure(t *testing.T) {
	folder := folderWith(t, measured, "")
	var asked []string
	bench := func(args ...string) ([]byte, error) {
		asked = append(asked, strings.Join(args, " "))
		return []byte(strings.ReplaceAll(measured, "avx2", fmt.Sprintf("isa%d", len(asked)))), nil
	}
	if err := measureMachine(folder, "two", benchRuns("avx512,avx2", "5s"), bench); err != nil {
		t.Fatal(err)
	}
	want := []string{"-json -time 5s -isa avx512,avx2",
		"-json -time 5s -threads 1 -isa generic -run " + genericCases}
	if !slices.Equal(asked, want) {
		t.Errorf("attn bench was run with %q, want %q", asked, want)
	}
	one, err := measurements(folder)("one")
	if err != nil {
		t.Fatal(err)
	}
	two, err := measurements(folder)("two")
	if err != nil {
		t.Fatal(err)
	}
	if len(two.Commands) != 2 || two.CPU != one.CPU || two.Go != one.Go {
		t.Errorf("two runs of %+v became %+v", one, two)
	}
	for _, isa := range []string{"isa1", "isa2"} {
		of := two.of(isa)
		if of == nil {
			t.Fatalf("no report of %s in %+v", isa, two)
		}
		if of.Implementation = "avx2"; !reflect.DeepEqual(*of, one.Reports[0]) {
			t.Errorf("%s: %+v became %+v", isa, one.Reports[0], *of)
		}
	}
}

// Nothing is written if a run fails or prints something else.
func TestMeasureRefuses(t *testing.T) {
	folder := folderWith(t, measured, "")
	failure := errors.New("no such case")
	for _, c := range []struct {
		text string
		err  error
		want string
	}{
		{"", failure, failure.Error()},
		{"[", nil, "attn bench -x: unexpected end"},
		{"{}", nil, `cpu is ""`},
	} {
		bench := func(...string) ([]byte, error) { return []byte(c.text), c.err }
		err := measureMachine(folder, "two", [][]string{{"-x"}}, bench)
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%q: %v, want %s", c.text, err, c.want)
		}
		if _, err := os.Stat(filepath.Join(folder, "docs/bench-two.json")); err == nil {
			t.Errorf("%q was written", c.text)
		}
	}
	if _, err := attnBench(io.Discard, "-x"); err == nil {
		t.Error("an unknown flag of attn bench is no error")
	}
	t.Chdir(folder)
	var stderr strings.Builder
	if status := command([]string{"-measure", "two"}, io.Discard, &stderr); status != 1 {
		t.Errorf("status %d of a measurement where there is no command: %s", status, stderr.String())
	}
}

// A fixed measurement, and a column of it in each kind of table.
const measured = `{
  "cpu": "A CPU", "go": "go1.26.1", "commands": ["attn bench"], "reports": [
    {"implementation": "avx2",
     "machine": {"fma_gflops": 100, "read_gbs": {"DRAM, 8 streams": 20.25}},
     "results": [
      {"case": "prefill_d64", "shape": "B1 H8 L1024 D64", "threads": 1, "ns_per_call": 2e7,
       "median_ns": 2.5e7, "rate": 80.04, "unit": "GFLOP/s", "percent": 80.04},
      {"case": "bert", "shape": "B8 H12 L128 D64", "threads": 1, "ns_per_call": 950000,
       "median_ns": 960000, "rate": 70, "unit": "GFLOP/s", "percent": 70},
      {"case": "prefill_d64_causal, integers", "shape": "B1 H8 L1024 D64", "threads": 1,
       "ns_per_call": 1e7, "rate": 60, "unit": "GOP/s", "percent": 30},
      {"case": "decode_gqa, cache", "shape": "H32 KV8 Lk4096 D128", "threads": 1,
       "ns_per_call": 2e9, "rate": 20, "unit": "GB/s", "percent": 99},
      {"case": "mla, bf16", "shape": "H128 KV1 Lk8192 D576/512", "threads": 1,
       "ns_per_call": 1000, "rate": 1, "unit": "GFLOP/s", "percent": 1},
      {"case": "tiny", "shape": "B1 H1 L16 D64", "threads": 1,
       "ns_per_call": 9999, "rate": 1, "unit": "GFLOP/s", "percent": 1},
      {"case": "bert", "shape": "B8 H12 L128 D64", "threads": 2, "ns_per_call": 500000,
       "rate": 133, "unit": "GFLOP/s", "percent": 66.5}]}]}`

// tables are the tables of measured, in a document.
//
//go:embed testdata/tables.md
var tables string

// folderWith returns a folder with a measurement called one, and the documents.
func folderWith(t *testing.T, measurement, text string) string {
	folder := t.TempDir()
	if err := os.Mkdir(filepath.Join(folder, "docs"), 0o755); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"docs/bench-one.json": measurement}
	for _, name := range documents {
		files[name] = text
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// withoutTables removes tables, or keeps the first line of each as an outdated one.
func withoutTables(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "| case") {
			out.WriteString(line)
		}
	}
	return out.String()
}

func TestCommandWritesTables(t *testing.T) {
	t.Chdir(folderWith(t, measured, withoutTables(tables)))
	var stderr strings.Builder
	for range 2 { // the second time over tables
		if status := command(nil, io.Discard, &stderr); status != 0 {
			t.Fatalf("status %d: %s", status, stderr.String())
		}
		for _, name := range documents {
			text, err := os.ReadFile(name)
			if err != nil || string(text) != tables {
				t.Fatalf("%s: %v\n%s\nwant\n%s", name, err, text, tables)
			}
		}
	}
}

func TestCommandRefuses(t *testing.T) {
	t.Chdir(folderWith(t, measured, "<!-- bench columns; One: two avx2 1 -->\n"))
	var stderr strings.Builder
	if status := command([]string{"-fast"}, io.Discard, &stderr); status != 2 {
		t.Errorf("status %d for an unknown flag", status)
	}
	if status := command([]string{"docs"}, io.Discard, &stderr); status != 2 {
		t.Errorf("status %d for an argument", status)
	}
	stderr.Reset()
	const want = "tables: docs/performance.md: One: open docs/bench-two.json:"
	if status := command(nil, io.Discard, &stderr); status != 1 ||
		!strings.HasPrefix(stderr.String(), want) {
		t.Errorf("status %d: %q, want %q", status, stderr.String(), want)
	}
	if err := os.Remove("docs/performance.md"); err != nil {
		t.Fatal(err)
	}
	if err := update(".", "docs/performance.md"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a document that is not there: %v", err)
	}
}

// Anything that a mark names has to exist.
func TestMarks(t *testing.T) {
	read := measurements(folderWith(t, measured, ""))
	for _, c := range []struct{ mark, want string }{
		{"pie; One: one avx2 1", `a mark is of kind "pie", want columns or limits`},
		{"columns", "a mark of kind columns has no columns"},
		{"columns; One", `"One" in a mark, want a key or heading, a colon and a value`},
		{"columns; run: (; One: one avx2 1", "run: error parsing regexp"},
		{"columns; One: one avx2", `One: "one avx2", want a measurement`},
		{"columns; One: one avx2 x", "One: threads: "},
		{"columns; One: one neon 1", `One: one has no report on "neon"`},
		{"columns; run: ^none$; One: one avx2 1", "no case that was measured matches ^none$"},
		{"columns; skip: .; One: one avx2 1", "no case that was measured matches"},
		{"columns; One: one avx2 1; Two: two avx2 1", `Two: measurement "two" after "one", want one machine`},
	} {
		_, err := fill("x.md", "<!-- bench "+c.mark+" -->\n", read)
		if err == nil || !strings.HasPrefix(err.Error(), "x.md: "+c.want) {
			t.Errorf("%s: %v, want %s", c.mark, err, c.want)
		}
	}
}

// A table shows measured data only: a key that attn bench renamed is no 0.
func TestMeasurements(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{`{`, `[`, "docs/bench-one.json: invalid character"},
		{`"cpu"`, `"processor"`, `cpu is ""`},
		{`"reports": [`, `"reports": [], "other": [`, "0 reports"},
		{`"implementation"`, `"isa"`, `a report of implementation "" has 7 results`},
		{`"threads": 2`, `"workers": 2`, "threads 0"},
		{`"rate": 133`, `"speed": 133`, "avx2: bert has ns_per_call 500000, rate 0 and percent 66.5"},
		{`"percent": 99}`, `"percent": 120}`, "percent 120, want at most 103"},
		{`"percent": 66.5`, `"busy": true`, "the machine was busy and the limit unknown for bert on 2 " +
			"threads with avx2: measure again"},
		{`"cpu"`, `"ended_early": true, "cpu"`, "the measurement was ended early: measure again"},
		{`"B8 H12 L128 D64"`, `""`, `a result has case "bert", shape ""`},
	} {
		folder := folderWith(t, strings.Replace(measured, c.old, c.new, 1), "")
		_, err := fill("x.md", "<!-- bench columns; One: one avx2 1 -->\n", measurements(folder))
		if err == nil || !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("%s: %v, want %s", c.new, err, c.want)
		}
	}
}
