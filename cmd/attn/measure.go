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
	"github.com/seed-1415985d/attn/internal/measure"
	"github.com/seed-1415985d/attn/internal/progress"
)

// benchCase is one row of the benchmark. Decoding reads each key and value once, so memory limits
// it; other cases are limited by multiply-adds.
type benchCase struct {
	Name   string // as in the tables of the documentation
	Bench  string // as in Go's benchmark format
	Shape  string
	cached bool // keys and values in a Cache
	causal bool
	sizes
	kind     formats        // of the Cache
	integers bool           // products are of integers
	matrix   attn.BlockType // lq rows of d inputs by a matrix of lk outputs; or 0
}

// sizes are the sizes of a case. If dv is not 0, values are the first dv channels of keys, in a
// cache that keeps only these.
type sizes struct{ b, h, kvh, lq, lk, d, dv int }

// valueDim returns the dimension of values.
func (s *sizes) valueDim() int {
	if s.dv > 0 {
		return s.dv
	}
	return s.d
}

var benchCases = append(withIntegers([]benchCase{
	{"prefill_d64", "prefill/d=64/causal=false", "B1 H8 L1024 D64", false, false,
		sizes{1, 8, 8, 1024, 1024, 64, 0}, formats{attn.F32, attn.F32}, false, 0},
	{"prefill_d64_causal", "prefill/d=64/causal=true", "B1 H8 L1024 D64", false, true,
		sizes{1, 8, 8, 1024, 1024, 64, 0}, formats{attn.F32, attn.F32}, false, 0},
	{"prefill_d128", "prefill/d=128/causal=false", "B1 H8 L2048 D128", false, false,
		sizes{1, 8, 8, 2048, 2048, 128, 0}, formats{attn.F32, attn.F32}, false, 0},
	{"prefill_d128_causal", "prefill/d=128/causal=true", "B1 H8 L2048 D128", false, true,
		sizes{1, 8, 8, 2048, 2048, 128, 0}, formats{attn.F32, attn.F32}, false, 0},
	{"bert", "bert/d=64", "B8 H12 L128 D64", false, false,
		sizes{8, 12, 12, 128, 128, 64, 0}, formats{attn.F32, attn.F32}, false, 0},
	{"decode", "decode/d=128", "H32 KV32 Lk4096 D128", false, false, sizes{1, 32, 32, 1, 4096, 128, 0},
		formats{attn.F32, attn.F32}, false, 0},
	{"decode, cache", "decode/d=128", "H32 KV32 Lk4096 D128", true, false,
		sizes{1, 32, 32, 1, 4096, 128, 0}, formats{attn.F32, attn.F32}, false, 0},
	{"decode, f16", "decode/d=128/type=f16", "H32 KV32 Lk4096 D128", true, false,
		sizes{1, 32, 32, 1, 4096, 128, 0}, formats{attn.F16, attn.F16}, false, 0},
	{"decode, bf16", "decode/d=128/type=bf16", "H32 KV32 Lk4096 D128", true, false,
		sizes{1, 32, 32, 1, 4096, 128, 0}, formats{attn.BF16, attn.BF16}, false, 0},
	{"decode, i8", "decode/d=128/type=i8", "H32 KV32 Lk4096 D128", true, false,
		sizes{1, 32, 32, 1, 4096, 128, 0}, formats{attn.I8, attn.I8}, false, 0},
	{"decode, i4", "decode/d=128/type=i4", "H32 KV32 Lk4096 D128", true, false,
		sizes{1, 32, 32, 1, 4096, 128, 0}, formats{attn.I4, attn.I4}, false, 0},
	{"decode, i8+i4", "decode/d=128/type=i8+i4", "H32 KV32 Lk4096 D128", true, false,
		sizes{1, 32, 32, 1, 4096, 128, 0}, formats{attn.I8, attn.I4}, false, 0},
	{"decode_gqa", "decode_gqa/d=128", "H32 KV8 Lk4096 D128", false, false,
		sizes{1, 32, 8, 1, 4096, 128, 0}, formats{attn.F32, attn.F32}, false, 0},
	{"decode_gqa, cache", "decode_gqa/d=128", "H32 KV8 Lk4096 D128", true, false,
		sizes{1, 32, 8, 1, 4096, 128, 0}, formats{attn.F32, attn.F32}, false, 0},
	{"decode_gqa, f16", "decode_gqa/d=128/type=f16", "H32 KV8 Lk4096 D128", true, false,
		sizes{1, 32, 8, 1, 4096, 128, 0}, formats{attn.F16, attn.F16}, false, 0},
	{"decode_gqa, bf16", "decode_gqa/d=128/type=bf16", "H32 KV8 Lk4096 D128", true, false,
		sizes{1, 32, 8, 1, 4096, 128, 0}, formats{attn.BF16, attn.BF16}, false, 0},
	{"decode_gqa, i8", "decode_gqa/d=128/type=i8", "H32 KV8 Lk4096 D128", true, false,
		sizes{1, 32, 8, 1, 4096, 128, 0}, formats{attn.I8, attn.I8}, false, 0},
	{"decode_gqa, i4, integers", "decode_gqa/d=128/type=i4/integers", "H32 KV8 Lk4096 D128",
		true, false,
		sizes{1, 32, 8, 1, 4096, 128, 0}, formats{attn.I4, attn.I4}, true, 0},
	{"decode_gqa, i8+i4, integers", "decode_gqa/d=128/type=i8+i4/integers", "H32 KV8 Lk4096 D128",
		true, false,
		sizes{1, 32, 8, 1, 4096, 128, 0}, formats{attn.I8, attn.I4}, true, 0},
	{"mla", "mla/d=576", "H128 KV1 Lk8192 D576/512", true, false, sizes{1, 128, 1, 1, 8192, 576, 512},
		formats{attn.F32, attn.F32}, false, 0},
	{"mla, bf16", "mla/d=576/type=bf16", "H128 KV1 Lk8192 D576/512", true, false,
		sizes{1, 128, 1, 1, 8192, 576, 512}, formats{attn.BF16, attn.BF16}, false, 0},
	{"mla, i8", "mla/d=576/type=i8", "H128 KV1 Lk8192 D576/512", true, false,
		sizes{1, 128, 1, 1, 8192, 576, 512}, formats{attn.I8, attn.I8}, false, 0},
	{"tiny", "tiny/d=64", "B1 H1 L16 D64", false, false,
		sizes{1, 1, 1, 16, 16, 64, 0}, formats{attn.F32, attn.F32}, false, 0},
}), matrixCases()...)

// withIntegers adds cases in integers: over float32 views, and over caches of i8 and i4.
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

// work returns the useful floating-point or integer operations or, where memory is the limit, the
// bytes of keys and values, with their scales, or of a matrix.
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

// tokenBytes returns the size of a key or value of one head in a format.
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

// huge reports whether a case reads huge pages, where the system has them.
func (c *benchCase) huge() bool { return c.cached || c.matrix != 0 }

// shared reports whether the case is measured on several threads, too.
func (c *benchCase) shared() bool {
	return c.Name != "tiny" && (c.matrix == 0 || c.lq == 1 || c.lq == 128)
}

// defaultTime keeps all cases within two minutes, on one thread and on two, with vectors. A longer
// time finds more quiet moments.
const defaultTime = 250 * time.Millisecond

var quickEffort = measure.Effort{PerTrial: 100 * time.Millisecond, Least: 3,
	Most: 300 * time.Millisecond}

// effortOf waits for quiet repetitions up to four times as long.
func effortOf(perCase time.Duration) measure.Effort {
	return measure.Effort{PerTrial: perCase, Least: 8, Most: 4 * perCase}
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
	effort := effortOf(*perCase)
	if *quick {
		effort = quickEffort
	}
	var ended <-chan struct{}
	if *untilEOF {
		ended = untilInputEnds()
	}
	m := measurement{Meter: measure.NewMeter(attn.Implementation(), effort, ended), match: match,
		threads: *threads, stderr: stderr}
	r, err := m.run()
	if err != nil {
		return err
	}
	return json.NewEncoder(stdout).Encode(r)
}

// measurement is one run over all cases.
type measurement struct {
	*measure.Meter
	match   *regexp.Regexp
	threads int
	stderr  io.Writer
}

func (m *measurement) run() (*measure.Report, error) {
	r := &measure.Report{Implementation: attn.Implementation(), Results: []measure.Result{}}
	p := progress.New(m.stderr, r.Implementation, 1000)
	defer p.Finish()
	m.announce(r.Implementation)
	begin := time.Now()
	machine := m.Machine()
	if m.Early() {
		return r, nil
	}
	r.Machine = machine
	trials, release, err := m.trials()
	if err != nil {
		return nil, err
	}
	defer release()
	before := time.Since(begin)
	m.Rounds(trials, func(spent, expected time.Duration) {
		p.Reach(int(1000 * (before + spent) / (before + expected)))
	})
	r.Results = append(r.Results, m.Results(trials)...)
	return r, nil
}

// trials prepares all cases, and calls each once.
func (m *measurement) trials() (list []*measure.Trial, release func(), err error) {
	with := newEquipment(m.threads)
	for _, c := range m.cases() {
		if m.Early() {
			break
		}
		t, err := with.trial(c.benchCase, c.threads)
		if err != nil {
			with.release()
			return nil, nil, fmt.Errorf("%s: %w", c.Name, err)
		}
		list = append(list, t)
	}
	return list, with.release, nil
}

type threadedCase struct {
	benchCase
	threads int
}

// cases returns all cases on one thread, and some on several.
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

// announce prints the expected duration.
func (m *measurement) announce(implementation string) {
	rate := 0.0
	for range 3 {
		rate = max(rate, m.Burst(measure.Floats, 1))
	}
	n := len(m.cases())
	least, most := m.duration(m.Effort.PerTrial, rate), m.duration(m.Effort.Most, rate)
	fmt.Fprintf(m.stderr, "%s: %d cases take about %v, or %v on a machine that is busy\n",
		implementation, n, least, most)
}

// starting is the time for the machine's limits and the inputs of cases.
const starting = 5 * time.Second

// duration estimates the time of measuring: each for each case, or longer if six calls at rate
// multiply-adds a nanosecond are longer: one prepares, one determines the length of a repetition,
// two count allocations, and two are a repetition.
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

// bound returns the limit of a case.
func (c *benchCase) bound() measure.Bound {
	switch {
	case c.memory():
		return measure.Memory
	case c.small():
		return measure.SmallIntegers
	case c.integers:
		return measure.Integers
	}
	return measure.Floats
}

// result returns a result with the description of the case.
func (c *benchCase) result(threads int) measure.Result {
	r := measure.Result{Implementation: attn.Implementation(), Case: c.Name, Shape: c.Shape,
		Threads: threads}
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
