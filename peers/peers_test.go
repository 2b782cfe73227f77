package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-1415985d/attn/internal/dev/gguftest"
	"github.com/seed-1415985d/attn/internal/measure"
	"github.com/seed-1415985d/attn/models/embed"
)

// Small cases with the features of the real ones: several blocks of rows, groups, one query.
var small = []Case{
	{"full", 2, 3, 3, 150, 200, 16, false, "f32"},
	{"causal", 1, 2, 2, 200, 200, 16, true, "f32"},
	{"decode", 1, 4, 2, 1, 300, 32, false, "f32"},
	{"decode, f16", 1, 4, 2, 1, 300, 32, false, "f16"},
	{"decode, i8", 1, 4, 2, 1, 300, 32, false, "i8"},
	{"decode, integers", 1, 4, 2, 1, 300, 32, false, "integers"},
	{"decode, i4", 1, 4, 2, 1, 300, 32, false, "i4"},
	{"full, integers", 2, 3, 3, 150, 200, 64, false, "integers"},
	{"causal, integers", 1, 2, 2, 200, 200, 64, true, "integers"},
	{"matrix, one row", 1, 1, 1, 1, 64, 64, false, "q4_0"},
	{"matrix", 1, 1, 1, 5, 64, 64, false, "q4_0"},
	{"model, prompt", 1, 1, 1, 40, 0, 1, true, "tiny Q4_K_M"},
	{"model, a token", 1, 1, 1, 1, 9, 1, true, "tiny Q8_0"},
	{"texts", 1, 1, 1, 7, 0, 66, false, "tinybert f32"},
	{"texts, integers", 1, 1, 1, 7, 0, 66, false, "tinybert integers"},
	{"entities", 1, 1, 1, 20, 0, 1, false, "tinylabels f32"},
	{"entities, integers", 1, 1, 1, 20, 0, 1, false, "tinylabels integers"},
	{"CLIP", 1, 1, 1, 1, 0, 44, false, "tinyclip f32"},
	{"CLIP, integers", 1, 1, 1, 1, 0, 44, false, "tinyclip integers"},
	{"SigLIP", 1, 1, 1, 1, 0, 66, false, "tinysiglip f32"},
	{"SigLIP, integers", 1, 1, 1, 1, 0, 66, false, "tinysiglip integers"},
}

func init() {
	gguftest.Published["tiny"] = gguftest.Shape{Layers: 2, Dim: 256, FFN: 512,
		Heads: 4, KV: 2, Head: 64, Vocab: 300}
	tiny := embed.Sizes{Layers: 2, Hidden: 66, Heads: 3, FFN: 128, Vocab: 300}
	encoders["tinybert"] = encoder{Sizes: tiny}
	encoders["tinyclip"] = encoder{tiny, 18, 4, false}
	encoders["tinysiglip"] = encoder{tiny, 18, 4, true}
	tiny.TokenLabels = 3
	encoders["tinylabels"] = encoder{Sizes: tiny}
}

// Each peer on this machine computes the same as attn, on one thread and on two.
func TestPeers(t *testing.T) {
	for i := range peers {
		for _, threads := range []int{1, 2} {
			t.Run(peers[i].key, func(t *testing.T) { testPeer(t, &peers[i], threads) })
		}
	}
}

func testPeer(t *testing.T, p *peer, threads int) {
	dir := t.TempDir()
	c, err := connect(t, p, threads, dir)
	var l lacking
	if errors.As(err, &l) {
		t.Skip(l)
	}
	if err != nil {
		t.Fatal(err)
	}
	computed := 0
	for i := range small {
		k := &small[i]
		in := newInputs(k, dir)
		err := in.write(k)
		var want []float32
		if err == nil {
			want, err = in.reference(k)
		}
		_, _, model := k.model()
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.compute(k, dir)
		if errors.As(err, &l) {
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", k.Name, err)
		}
		if model {
			want = logitsOf(t, k, dir)
		}
		if off := difference(got, want); off > k.tolerance() {
			t.Errorf("%s: the difference is %g", k.Name, off)
		}
		overwriteGarbage()
		if a, err := c.ask(&request{Seconds: 1e-3}); err != nil || len(a.Times) == 0 || a.Times[0] <= 0 {
			t.Errorf("%s: times %v, %v", k.Name, a.Times, err)
		}
		computed++
	}
	closeModel()
	least := 3
	if p.key == "llama" {
		least = 2
	}
	if computed < least {
		t.Errorf("%d cases were computed, want all of float32, or of models", computed)
	}
}

// logitsOf returns attn's logits of a model.
func logitsOf(t *testing.T, c *Case, dir string) []float32 {
	d, err := openDecoder(c, dir, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if c.Lk > 0 {
		if _, err := d.step(c.Lk); err != nil {
			t.Fatal(err)
		}
	}
	logits, err := d.step(c.Lq)
	if err != nil {
		t.Fatal(err)
	}
	return logits
}

// The work of a model is close to the published size: Qwen2.5-0.5B has 494 million weights.
func TestModelWork(t *testing.T) {
	prompt := Case{"", 1, 1, 1, 512, 0, 1, true, "0.5b Q8_0"}
	embedding := 151936 * 896.
	if got, want := prompt.work()/2/512, 494e6-embedding; math.Abs(got/want-1) > 0.05 {
		t.Errorf("a token takes %.4g multiply-adds, want about %.4g", got, want)
	}
	picture := Case{"", 1, 1, 1, 1, 0, 768, false, "siglip f32"}
	if got, want := picture.work()/2, 196*(86e6+12*2*768*196.); math.Abs(got/want-1) > 0.05 {
		t.Errorf("a picture takes %.4g multiply-adds, want about %.4g", got, want)
	}
	token := Case{"", 1, 1, 1, 1, 4096, 1, true, "0.5b Q8_0"}
	if got, want := token.work(), 494e6*34/32+2*2*24*128*4096; math.Abs(got/want-1) > 0.01 {
		t.Errorf("a token reads %.4g bytes, want about %.4g", got, want)
	}
}

// Keys and values that few bits represent exactly show whether elements are where ONNX Runtime
// expects them; rounding would hide that.
func TestONNXRuntimeExact(t *testing.T) {
	for _, kind := range []string{"i8", "i4"} {
		k := Case{"exact", 1, 4, 2, 1, 300, 32, false, kind}
		in := newInputs(&k, "")
		for i := range in.k {
			in.k[i], in.v[i] = float32(i*i%15-7), float32(i*7%15-7)
		}
		if k.bits() == 8 { // the largest element determines the scale
			in.k[0], in.v[0] = 127, 127
		}
		want, err := in.reference(&k)
		if err != nil {
			t.Fatal(err)
		}
		lib, err := openONNXRuntime()
		var l lacking
		if errors.As(err, &l) {
			t.Skip(l)
		}
		if err != nil {
			t.Fatal(err)
		}
		call, result, err := lib.prepare(&k, in, 1)
		if err == nil {
			err = call()
		}
		if err != nil {
			t.Fatal(err)
		}
		if off := difference(result(), want); off > 1e-4 {
			t.Errorf("%s: the difference is %g", kind, off)
		}
	}
}

// overwriteGarbage overwrites freed memory, so that calls fail that still need it.
func overwriteGarbage() {
	runtime.GC()
	var kept [][]int32
	for size := 1; size <= 1<<12; size *= 2 {
		for range 1 << 18 / size {
			x := make([]int32, size)
			for i := range x {
				x[i] = -1
			}
			kept = append(kept, x)
		}
	}
	runtime.KeepAlive(kept)
}

// connect starts a worker: for a library in this process, since the test's program is no worker.
func connect(t *testing.T, p *peer, threads int, dir string) (*client, error) {
	if p.python {
		w, err := p.start(threads, dir)
		if err != nil {
			return nil, err
		}
		t.Cleanup(w.stop)
		return &w.client, nil
	}
	requests, answers := pipe(t, p.open, threads)
	c := &client{requests, bufio.NewReader(answers)}
	_, err := c.ask(nil)
	return c, err
}

func pipe(t *testing.T, open func() (library, error), threads int) (io.WriteCloser, io.Reader) {
	requests, in := io.Pipe()
	answers, out := io.Pipe()
	go func() { out.CloseWithError(serve(requests, out, open, threads)) }()
	t.Cleanup(func() { in.Close() })
	return in, answers
}

// A wrong result, or a worker that fails, ends the measurement with an error that names the peer.
func TestCompareRefuses(t *testing.T) {
	c := &small[0]
	m := &measurement{dir: t.TempDir(), report: new(Report)}
	in := newInputs(c, m.dir)
	if err := in.write(c); err != nil {
		t.Fatal(err)
	}
	requests, answers := pipe(t, known(self{}), 1)
	w := &process{client: client{requests, bufio.NewReader(answers)}}
	if _, err := w.ask(nil); err != nil {
		t.Fatal(err)
	}
	m.entrants = []*entrant{{process: w, peer: &peer{name: "somebody"}, threads: 1}}
	want, err := in.reference(c)
	if err != nil {
		t.Fatal(err)
	}
	if list, err := m.compare(c, 1, want); err != nil || len(list) != 1 || list[0].off != 0 {
		t.Errorf("right: %v, %v", list, err)
	}
	want[7] += 1e-3
	if _, err := m.compare(c, 1, want); err == nil ||
		!strings.Contains(err.Error(), "somebody, full: the result differs") {
		t.Errorf("wrong: %v", err)
	}
	os.Remove(filepath.Join(m.dir, "k"))
	if _, err := m.compare(c, 1, want); err == nil ||
		!strings.Contains(err.Error(), "somebody, full: open") {
		t.Errorf("without keys: %v", err)
	}
}

func TestDifference(t *testing.T) {
	nan := float32(math.NaN())
	for _, c := range []struct {
		got, want []float32
		off       float64
	}{
		{[]float32{1, 2}, []float32{1, 2}, 0},
		{[]float32{1, -2.5}, []float32{1, -2}, 0.25},
		{[]float32{1.5, -2}, []float32{1, -2}, 0.25},
		{[]float32{1, nan}, []float32{1, 2}, math.Inf(1)},
		{[]float32{1}, []float32{1, 2}, math.Inf(1)},
	} {
		if off := difference(c.got, c.want); off != c.off {
			t.Errorf("%v and %v: %g, want %g", c.got, c.want, off, c.off)
		}
	}
}

// The measurement leaves out missing peers and names them, with what to do about it.
func TestMissing(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir()) // os.UserCacheDir on Linux
	t.Setenv("HOME", t.TempDir())
	t.Setenv("LocalAppData", t.TempDir())
	if _, err := openONNXRuntime(); err == nil || !strings.Contains(err.Error(), "-setup") &&
		!strings.Contains(err.Error(), "cgo") {
		t.Errorf("ONNX Runtime: %v", err)
	}
	all, installed := peers, systemPythons
	defer func() { peers, systemPythons = all, installed }()
	peers, systemPythons = []peer{{name: "Snake", key: "snake", python: true}}, nil
	var said bytes.Buffer
	m := &measurement{dir: t.TempDir(), report: new(Report), say: &said}
	if err := m.start([]int{1}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(said.String(), "Snake is missing: there is no Python; -setup gets") ||
		m.report.Peers[0].Missing == "" {
		t.Errorf("said %q of %+v", said.String(), m.report.Peers)
	}
}

func TestFlags(t *testing.T) {
	for args, want := range map[string]string{
		"-run nothing": "no case matches -run nothing",
		"-run (":       "-run: ",
		"-threads 0":   "-threads is 0",
		"-nonsense":    "not defined",
	} {
		if err := run(strings.Fields(args), io.Discard, io.Discard); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}

// written is a report with a peer that wins, one that loses and one that is missing.
func written() *Report {
	r := &Report{Environment: measure.Environment{CPU: "a CPU", NumCPU: 1, GOOS: "plan9",
		GOARCH: "mips", Go: "go1"}, Peers: []PeerInfo{
		{Name: "attn", Version: "x", About: "this"}, {Name: "other", Version: "y", About: "that"},
		{Name: "third", Missing: "of a reason"}}}
	r.Results = append(r.Results, Result{"decode, i4", "other", 1, 3e6, 4e6, 5, 1e6, 0},
		Result{"bert, integers", "attn", 1, 3e6, 4e6, 5, 1e6, 0})
	for i, own := range []float64{20e6, 2e6, 1e6} {
		name := []string{"bert", "decode", "decode, i8"}[i]
		r.Results = append(r.Results, Result{name, "attn", 1, own, own * 2, 5, own / 2, 0},
			Result{name, "other", 1, 1.96e6, 123456e3, 5, own / 2, 0})
	}
	return r
}

func TestMarkdown(t *testing.T) {
	var b strings.Builder
	r := written()
	r.Go, r.Note = "go1-X:simd", "It was noisy."
	r.markdown(&b)
	for _, want := range []string{
		"`GOEXPERIMENT=simd go run ./peers -o docs`",
		" a CPU, one core, plan9/mips, go1. It was noisy.\n",
		"| other | y | that |",
		"Missing on this machine: third, because of a reason.",
		"## One thread",
		"| case | size | attn | other | at the limit | ahead |\n|---|---|---:|---:|---:|---:|\n",
		"| bert | B8 H12 L128 D64 | 20.0 | **1.96** | 10.0 | 0.10 |",
		"| decode, i8 | H32 KV32 Lk4096 D128 | **1.00** | 1.96 | 0.500 | 1.96 |",
		"| decode, i4 | H32 KV32 Lk4096 D128 | – | **3.00** | 1.00 | – |",
		"- decode, i4, one thread: attn does not have this, other takes 3.00 ms.",
		"- bert, one thread: other is faster, 1.96 ms against 20.0 of attn.",
		"- decode, one thread: other is even, within 5 %, 1.96 ms against 2.00 of attn.",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), "- decode, i8") {
		t.Error("attn is said to lose where it wins")
	}
	if strings.Contains(b.String(), "bert, integers") {
		t.Error("a case has a row, and nobody but attn has it")
	}
}

// Files are written and read again; cases that are measured again replace only those of the same
// machine.
func TestWriteAndAdopt(t *testing.T) {
	dir := t.TempDir()
	if r, err := read(dir); r != nil || err != nil {
		t.Errorf("nothing: %v, %v", r, err)
	}
	if err := written().write(dir); err != nil {
		t.Fatal(err)
	}
	for name, start := range map[string]string{"peers.svg": "<?xml", "peers.png": "\x89PNG",
		"peers.md": "# "} {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil ||
			!bytes.HasPrefix(text, []byte(start)) {
			t.Errorf("%s: %.10q, %v", name, text, err)
		}
	}
	old, err := read(dir)
	if err != nil {
		t.Fatal(err)
	}
	r := written()
	r.Results = []Result{{Case: "bert", Peer: "attn", Threads: 1, Best: 7}}
	r.adopt(old)
	if len(r.Results) != 7 || r.result("bert", "attn", 1).Best != 7 ||
		r.result("decode", "other", 1) == nil {
		t.Errorf("adopted %+v", r)
	}
	r = written()
	r.CPU, r.Results = "another CPU", nil
	if r.adopt(old); r.Results != nil {
		t.Error("adopted what another machine measured")
	}
}

// The newest report is first, each machine has one, and tables show a case of the newest machine
// that measured it.
func TestElsewhere(t *testing.T) {
	const only, both = "64 texts, MiniLM", "bert"
	other := func(best float64) *Report {
		r := written()
		r.CPU, r.Results = "another CPU", nil
		for _, name := range []string{only, both} {
			r.Results = append(r.Results, Result{name, "attn", 1, best, 9, 5, 1e6, 0},
				Result{name, "other", 1, 2.5e6, 9, 5, 1e6, 0})
		}
		return r
	}
	here, last := written(), other(3e6)
	r := here.join(other(2e6)).join(last)
	if r != last || len(r.Elsewhere) != 1 || r.Elsewhere[0].CPU != here.CPU {
		t.Fatalf("joined %+v", r)
	}
	again := written()
	r = r.join(again)
	if r != again || len(r.Elsewhere) != 1 || len(r.Results) != len(here.Results) ||
		r.Elsewhere[0].CPU != last.CPU || r.Elsewhere[0].Elsewhere != nil {
		t.Fatalf("joined %+v", r)
	}
	var b strings.Builder
	r.markdown(&b)
	_, aside, _ := strings.Cut(b.String(), "# On another machine\n")
	for _, want := range []string{"\nanother CPU, one core, plan9/mips, go1; attn: x; other: y.\n",
		"| case | size | attn | other | at the limit | ahead |",
		"| 64 texts, MiniLM | 6×384 | 3.00 | **2.50** | 1.00 | 0.83 |",
		"- 64 texts, MiniLM, one thread: other is faster, 2.50 ms against 3.00 of attn.\n"} {
		if !strings.Contains(aside, want) {
			t.Errorf("no %q in\n%s", want, aside)
		}
	}
	if strings.Contains(aside, both) {
		t.Errorf("%s of an older machine in\n%s", both, aside)
	}
	b.Reset()
	if (&Report{}).aside(&b); b.Len() != 0 {
		t.Errorf("a machine without cases of its own is %q", b.String())
	}
}

// The committed tables and picture are what -draw makes of the committed measurement.
func TestDocumentsAreCurrent(t *testing.T) {
	const docs = "../docs"
	dir := t.TempDir()
	for _, args := range [][]string{{"-draw"}, {"-draw", "-o", dir}} {
		if err := run(args, io.Discard, io.Discard); err == nil {
			t.Errorf("%v: no error, and nothing is there to draw", args)
		}
	}
	text, err := os.ReadFile(filepath.Join(docs, "peers.json"))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "peers.json"), text, 0o644)
	}
	if err == nil {
		err = run([]string{"-draw", "-o", dir}, io.Discard, io.Discard)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"peers.json", "peers.md", "peers.svg"} {
		got, err1 := os.ReadFile(filepath.Join(dir, name))
		want, err2 := os.ReadFile(filepath.Join(docs, name))
		if err1 != nil || err2 != nil || !bytes.Equal(got, want) {
			t.Errorf("docs/%s is not what peers.json makes: go run ./peers -o docs -draw (%v, %v)", name,
				err1, err2)
		}
	}
}

// The picture has at most six cases, all of which exist, some perhaps of another machine, and
// letters of 12 pixels where it is shown 880 pixels wide.
func TestPicture(t *testing.T) {
	here, other := written(), written()
	here.Results, other.Results = nil, nil
	for i, g := range pictured {
		for _, c := range g.cases {
			for _, name := range []string{"attn", "other"} {
				if i%2 == 0 {
					here.Results = append(here.Results, Result{c, name, 1, 2, 2, 5, 1, 0})
					continue
				}
				if name == "other" {
					name = "a new one"
				}
				other.Results = append(other.Results, Result{c, name, 1, 2, 2, 5, 1, 0})
			}
		}
	}
	if none, err := (&Report{Peers: here.Peers}).panel(1); err != nil || none.X.Max-none.X.Min != 1 {
		t.Errorf("a picture of nothing: %+v, %v", none, err)
	}
	other.Peers[1].Name = "a new one"
	here.Elsewhere = []*Report{other}
	all := here.withElsewhere()
	drawn, err := all.panel(1)
	if err != nil {
		t.Fatal(err)
	}
	if got := drawn.X.Max - drawn.X.Min; got != 6 || len(all.Peers) != 3 {
		t.Errorf("%v cases in the picture and peers %v, want 6 and 3", got, all.Peers)
	}
	for _, g := range pictured {
		for _, c := range g.cases {
			if !slices.ContainsFunc(cases, func(x Case) bool { return x.Name == c }) {
				t.Errorf("%s is no case", c)
			}
		}
	}
	const wide, pixels = 880, 12
	if got := letters * float64(wide) / pictureWidth; got < pixels {
		t.Errorf("letters of %g pixels, want %d", got, pixels)
	}
}

func TestWrap(t *testing.T) {
	long := strings.Repeat("word ", 30)
	for line, want := range map[string]string{
		"a b":       "a b",
		long:        strings.TrimSpace(long[:100]) + "\n" + strings.TrimSpace(long[100:]),
		"- " + long: "- " + strings.TrimSpace(long[:95]) + "\n  " + strings.TrimSpace(long[95:]),
	} {
		if got := wrap(line); got != want {
			t.Errorf("%q becomes %q", line, got)
		}
	}
}

// One case of one peer, from start to end, and one that a peer does not survive on two threads.
func TestRounds(t *testing.T) {
	requests, answers := pipe(t, known(self{}), 1)
	w := &process{client: client{requests, bufio.NewReader(answers)}}
	if _, err := w.ask(nil); err != nil {
		t.Fatal(err)
	}
	all := cases
	defer func() { cases = all }()
	cases = []Case{{"tiny", 1, 1, 1, 16, 16, 64, false, "f32"}}
	m := &measurement{dir: t.TempDir(), perCase: time.Millisecond, say: io.Discard, report: written(),
		peaks: newPeaks()}
	m.entrants = []*entrant{{process: w, peer: &peers[0], threads: 1}}
	m.report.Results = nil
	if err := m.run(regexp.MustCompile("tiny"), []int{1}); err != nil {
		t.Fatal(err)
	}
	x := m.report.result("tiny", "attn", 1)
	if x == nil || x.Best <= 0 || x.Median < x.Best || x.Calls < leastTurns || x.Limit <= 0 ||
		x.Limit > x.Best {
		t.Errorf("measured %+v", x)
	}
	requests, answers = pipe(t, known(self{}), 2)
	ended := &process{client: client{requests, bufio.NewReader(answers)}}
	ended.requests.Close()
	m.entrants = append(m.entrants, &entrant{process: ended, peer: &peers[0], threads: 2})
	cases[0].Name = "tiny again"
	if err := m.run(regexp.MustCompile("tiny"), []int{1, 2}); err == nil {
		t.Error("no error of a peer that ended")
	}
	if list := m.report.Results; len(list) != 1 || list[0].Case != "tiny" {
		t.Errorf("results are %+v, want the whole case alone", list)
	}
}

func TestMilliseconds(t *testing.T) {
	for ns, want := range map[float64]string{123e6: "123", 12.34e6: "12.3", 1.234e6: "1.23",
		0.1234e6: "0.123", 4567e6: "4567"} {
		if got := milliseconds(ns); got != want {
			t.Errorf("%g: %s, want %s", ns, got, want)
		}
	}
}
