package main

import (
	"flag"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/cmd/attn/internal/chart"
	"github.com/seed-1415985d/attn/cmd/attn/internal/npyfile"
	"github.com/seed-1415985d/attn/internal/flags"
	"github.com/seed-1415985d/attn/internal/npy"
	"github.com/seed-1415985d/attn/internal/progress"
)

const runAbout = `attn run -q q.npy -k k.npy -v v.npy [flags]
attn run -compare a.npy b.npy

Computes softmax(scale·QKᵀ + …)·V on NumPy .npy files of float16, bfloat16 (which NumPy
calls V2), float32 or float64, rounded to float32, and writes a float32 file of the inputs' rank:

  rank 2   [length, dim]                 one head
  rank 3   [heads, length, dim]          or with -heads: [batch, length, heads·dim]
  rank 4   [batch, heads, length, dim]

With -heads, rank 2 is [length, heads·dim]. Keys and values may have fewer heads
than queries, and values another dimension than keys. Log-sum-exps are [batch, heads, queries]
and weights [batch, heads, queries, keys], without dimensions that the inputs lack. Either all
outputs are written, or none.

With -cache, keys and values are first stored in a cache of that type, and attention is over the
stored numbers: f32 without a change, f16 and bf16 rounded to nearest (f16 to ±Inf beyond 65504),
i8 as integers with a scale for each token and head, rotated, and i4 as one of 16 levels likewise
(docs/low-precision.md). Numbers for i8 and i4 must be finite. Two types, as in i8,i4, are for keys
and for values.

With -integers, queries, keys and values are rounded to integers of 8 bits with a scale for each
token and head, and products are exact sums of integers: faster, and slightly less accurate
(docs/low-precision.md).

With -bfloat16, queries, keys, weights and values are rounded to bfloat16, and products are sums in
float32, by the tiles of AMX where the CPU has them, with the same bits on every CPU.

With -compare, two files of one shape are compared instead: the largest and the root mean square
difference, the steps between neighbouring float32 (ULPs), where, and NaN that only one has.

`

// runFlags is the command line of attn run.
type runFlags struct {
	q, k, v, mask, bias, sinks string // inputs
	out, lse, weights, png     string // outputs
	heads, kvHeads             int
	causal, window             string
	scale, softcap             float64
	offset, threads            int
	alibi                      bool
	maskDims, biasDims         string
	cache                      string
	integers, bfloat16         bool
	pngHeads, labels           string
	pngBatch                   int
	compare                    bool
	given                      map[string]bool // flags that are set on the command line
}

func (f *runFlags) set(fs *flag.FlagSet) {
	fs.StringVar(&f.q, "q", "", "`file` of queries")
	fs.StringVar(&f.k, "k", "", "`file` of keys")
	fs.StringVar(&f.v, "v", "", "`file` of values")
	fs.StringVar(&f.out, "o", "out.npy", "output `file`; empty for none")
	fs.StringVar(&f.lse, "lse", "", "write log-sum-exp of each row's scores to `file`")
	fs.StringVar(&f.weights, "weights", "", "write the softmax probabilities to `file`: heads × "+
		"queries × keys numbers")
	fs.IntVar(&f.heads, "heads", 0, "number `n` of adjacent heads in the last dimension, for rank 2 "+
		"and 3")
	fs.IntVar(&f.kvHeads, "kvheads", 0, "number `n` of adjacent heads of keys and values (default: "+
		"as many as fit the queries' head dimension)")
	fs.StringVar(&f.causal, "causal", "none", "`alignment` of the causal mask: none, topleft (query "+
		"0 sees key 0) or bottomright (the last query sees the last key)")
	fs.Float64Var(&f.scale, "scale", 0, "`factor` of q·k (default 1/√dim)")
	fs.IntVar(&f.offset, "offset", 0, "absolute position `n` of query 0 among the keys")
	fs.StringVar(&f.window, "window", "", "sliding window `L,R`: see only L keys up to the query's "+
		"position and R keys from it on, both counting its own key; 0 is unbounded (a model's "+
		"sliding_window W is W,0)")
	fs.Float64Var(&f.softcap, "softcap", 0, "number `c` > 0: replace each score s by c·tanh(s/c)")
	fs.StringVar(&f.mask, "mask", "", "`file` of bool, or of integers 0 and 1; true or 1 = may "+
		"attend; [keys], [queries, keys], or broadcasts to [batch, heads, queries, keys] with all keys")
	fs.StringVar(&f.maskDims, "mask-dims", "", "`list` of the dimensions of -mask: b (batch), h "+
		"(heads), q (queries), k (keys), such as b,k or b,q,k (default: the last ones of b,h,q,k, if "+
		"no others fit)")
	fs.StringVar(&f.bias, "bias", "", "`file` of numbers added to the scores, -inf masks; "+
		"broadcasts like -mask")
	fs.StringVar(&f.biasDims, "bias-dims", "", "`list` of the dimensions of -bias, as in -mask-dims")
	fs.BoolVar(&f.alibi, "alibi", false, "add ALiBi: slope·(key position − query position), the "+
		"usual slopes")
	fs.StringVar(&f.sinks, "sinks", "", "`file` of one attention sink logit per head")
	fs.StringVar(&f.cache, "cache", "", "attend over a cache of this `type`: f32, f16, bf16, i8 "+
		"or i4, or a pair for keys and values, such as i8,i4 (default: over the files' float32)")
	fs.BoolVar(&f.integers, "integers", false, "multiply queries, keys and values in 8-bit integers; "+
		"-cache must then be i8, i4 or both, or not given")
	fs.BoolVar(&f.bfloat16, "bfloat16", false, "multiply queries, keys, weights and values in "+
		"bfloat16; -cache must then be f32, f16, bf16 or two of them, or not given")
	fs.IntVar(&f.threads, "threads", 0, "compute on `n` threads (default: all); the result does "+
		"not depend on it")
	fs.StringVar(&f.png, "png", "", "draw attention weights as a heat map to `file`, a .png, .svg "+
		"or .pdf")
	fs.StringVar(&f.pngHeads, "png-heads", "0", "comma-separated `list` of the heads to draw")
	fs.IntVar(&f.pngBatch, "png-batch", 0, "number `n` of the batch entry to draw")
	fs.StringVar(&f.labels, "labels", "", "`file` with one token per line, one for each key, to "+
		"write along the axes of -png; queries have the tokens of their positions, if -causal or "+
		"-offset gives these or there are as many queries as keys")
	fs.BoolVar(&f.compare, "compare", false, "compare the two files of the arguments; excludes all "+
		"other flags")
}

func runCommand(args []string, stdout, stderr io.Writer) error {
	var f runFlags
	fs := flags.New(runAbout)
	f.set(fs)
	if err := flags.Parse(fs, args, stdout); err != nil {
		return err
	}
	f.given = map[string]bool{}
	fs.Visit(func(g *flag.Flag) { f.given[g.Name] = true })
	if f.compare {
		return f.compareFiles(fs.Args(), stdout)
	}
	if err := flags.NoArguments(fs); err != nil {
		return err
	}
	return f.attend(stdout, stderr)
}

// attend computes attention and writes the requested outputs.
func (f *runFlags) attend(stdout, stderr io.Writer) error {
	r, err := f.prepare()
	if err != nil {
		return err
	}
	defer r.close()
	start := time.Now()
	if err := r.compute(stderr); err != nil {
		return err
	}
	elapsed := time.Since(start)
	if err := r.write(); err != nil {
		return err
	}
	r.warn(stderr)
	r.report(stdout, elapsed)
	return nil
}

// run is a call on files whose inputs are read and whose outputs are allocated.
type run struct {
	job
	flags                   *runFlags
	out, lseOut, weightsOut npyfile.Array[float32]
	heat                    *heatmap // nil if there is no picture
	close                   func()
}

// prepare reads and validates everything.
func (f *runFlags) prepare() (*run, error) {
	if err := f.checkFlags(); err != nil {
		return nil, err
	}
	r := &run{flags: f}
	q, k, v, l, err := f.readInputs()
	if err != nil {
		return nil, err
	}
	r.q, r.k, r.v = l.view(q, f.heads), l.view(k, f.kvHeads), l.view(v, f.kvHeads)
	if r.opt, err = f.options(r.q, r.k); err != nil {
		return nil, err
	}
	if err := r.allocate(l); err != nil {
		return nil, err
	}
	r.attend, r.threads, r.close = f.attendOn()
	if err := r.check(); err != nil {
		r.close()
		return nil, fmt.Errorf("%s; -q is %s, -k %s, -v %s", oneLine(err), dims(q.Shape), dims(k.Shape),
			dims(v.Shape))
	}
	if f.png != "" {
		if r.heat, err = f.newHeatmap(&r.job); err != nil {
			r.close()
			return nil, err
		}
	}
	return r, nil
}

// checkFlags finds mistakes that need no file.
func (f *runFlags) checkFlags() error {
	for _, in := range []struct{ name, path string }{{"-q", f.q}, {"-k", f.k}, {"-v", f.v}} {
		if in.path == "" {
			return flags.Errorf("%s is missing; attn run -h shows the flags", in.name)
		}
	}
	switch {
	case f.heads < 0 || f.kvHeads < 0 || max(f.heads, f.kvHeads) > maxDimension:
		return flags.Errorf("-heads is %d and -kvheads is %d, want 0 to %d", f.heads, f.kvHeads,
			maxDimension)
	case f.kvHeads > 0 && f.heads == 0:
		return flags.Errorf("-kvheads needs -heads")
	case f.threads < 0 || f.threads > attn.MaxWorkers:
		return flags.Errorf("-threads is %d, want 0 to %d", f.threads, attn.MaxWorkers)
	case f.png == "" && (f.labels != "" || f.pngHeads != "0" || f.pngBatch != 0):
		return flags.Errorf("-labels, -png-heads and -png-batch need -png")
	case f.given["scale"] && f.scale == 0:
		return flags.Errorf("-scale is 0, want another number: without the flag it is 1/√dim")
	case math.IsInf(f.scale, 0) || math.IsNaN(f.scale):
		return flags.Errorf("-scale is %v, want a finite number", f.scale)
	case !(f.softcap >= 0) || math.IsInf(f.softcap, 0):
		return flags.Errorf("-softcap is %v, want a finite number of at least 0", f.softcap)
	}
	for _, x := range []struct {
		name  string
		value float64
	}{{"-scale", f.scale}, {"-softcap", f.softcap}} {
		if !isFloat32(x.value) {
			return flags.Errorf("%s is %v, want a float32", x.name, x.value)
		}
	}
	if err := f.checkCache(); err != nil {
		return err
	}
	for _, p := range []pairsFlag{f.maskFlag(), f.biasFlag()} {
		if err := p.check(); err != nil {
			return err
		}
	}
	if _, err := f.causality(); err != nil {
		return err
	}
	if _, err := f.windowOption(); err != nil {
		return err
	}
	return f.checkOutputs()
}

// outputs returns the requested output files.
func (f *runFlags) outputs() []fileFlag {
	all := []fileFlag{{"-o", f.out}, {"-lse", f.lse}, {"-weights", f.weights}, {"-png", f.png}}
	return slices.DeleteFunc(all, func(o fileFlag) bool { return o.path == "" })
}

// checkOutputs verifies that there is something to do, and that no output overwrites another one or
// an input.
func (f *runFlags) checkOutputs() error {
	taken := []fileFlag{{"-q", f.q}, {"-k", f.k}, {"-v", f.v}, {"-mask", f.mask}, {"-bias", f.bias},
		{"-sinks", f.sinks}, {"-labels", f.labels}}
	wanted := f.outputs()
	if len(wanted) == 0 {
		return flags.Errorf("there is nothing to write: give -o, -png, -lse or -weights")
	}
	for _, o := range wanted {
		if i := slices.IndexFunc(taken, func(t fileFlag) bool {
			return sameFile(o.path, t.path)
		}); i >= 0 {
			return flags.Errorf("%s is %s, which is the file of %s, too", o.name, o.path, taken[i].name)
		}
		taken = append(taken, o)
		if err := o.check(); err != nil {
			return err
		}
	}
	return nil
}

func (f *runFlags) causality() (attn.Causal, error) {
	switch f.causal {
	case "none":
		return attn.Full, nil
	case "topleft":
		return attn.TopLeft, nil
	case "bottomright":
		return attn.BottomRight, nil
	}
	return 0, flags.Errorf("-causal is %q, want none, topleft or bottomright", f.causal)
}

func (f *runFlags) windowOption() (w attn.Window, err error) {
	if f.window == "" {
		return w, nil
	}
	left, right, ok := strings.Cut(f.window, ",")
	l, err := strconv.Atoi(strings.TrimSpace(left))
	r, err2 := strconv.Atoi(strings.TrimSpace(right))
	if !ok || err != nil || err2 != nil {
		return w, flags.Errorf("-window is %q, want two numbers such as 128,0", f.window)
	}
	if l < 0 || r < 0 {
		return w, flags.Errorf("-window is %q, want numbers of at least 0, which is unbounded", f.window)
	}
	return attn.Window{Left: l, Right: r}, nil
}

// readInputs reads queries, keys and values and determines the number of adjacent heads.
func (f *runFlags) readInputs() (q, k, v npyfile.Array[float32], l layout, err error) {
	for _, in := range []struct {
		path string
		to   *npyfile.Array[float32]
	}{{f.q, &q}, {f.k, &k}, {f.v, &v}} {
		if *in.to, err = npyfile.Read(in.path); err != nil {
			return
		}
		rank, first := len(in.to.Shape), len(q.Shape)
		if rank < 2 || rank > 4 {
			err = fmt.Errorf("%s has %d dimensions %s, want 2, 3 or 4", in.path, rank, dims(in.to.Shape))
			return
		}
		if rank != first {
			err = fmt.Errorf("%s has %d dimensions, want %d as %s", in.path, rank, first, f.q)
			return
		}
		if slices.Max(in.to.Shape) > maxDimension { // an array without elements can have any shape
			err = fmt.Errorf("%s is %s, want dimensions of at most %d", in.path, dims(in.to.Shape),
				maxDimension)
			return
		}
	}
	l = layout{rank: len(q.Shape), heads: f.heads > 0}
	if l.heads {
		err = f.splitHeads(q.Shape, k.Shape, v.Shape)
	}
	return
}

// maxDimension is the largest dimension of package attn.
const maxDimension = 1 << 28

// splitHeads checks that the last dimensions divide into heads, and fills in kvHeads.
func (f *runFlags) splitHeads(q, k, v []int) error {
	last := len(q) - 1
	if last == 3 {
		return fmt.Errorf("-heads is for 2 or 3 dimensions, %s has 4 with its own for heads", f.q)
	}
	if q[last]%f.heads != 0 {
		return fmt.Errorf("the last dimension of %s is %d, want a multiple of -heads = %d", f.q, q[last],
			f.heads)
	}
	if d := q[last] / f.heads; f.kvHeads == 0 {
		if d == 0 || k[last]%d != 0 || k[last] == 0 {
			return fmt.Errorf("the last dimension of %s is %d, want a multiple of the head dimension "+
				"%d/%d = %d", f.k, k[last], q[last], f.heads, d)
		}
		f.kvHeads = k[last] / d
	}
	for i, n := range []int{k[last], v[last]} {
		if n%f.kvHeads != 0 {
			return fmt.Errorf("the last dimension of %s is %d, want a multiple of %d key/value heads",
				[]string{f.k, f.v}[i], n, f.kvHeads)
		}
	}
	return nil
}

// options returns the options of the call; the job sets LSE and Weights.
func (f *runFlags) options(q, k attn.Tensor) (opt attn.Options, err error) {
	// checkFlags has validated these
	opt.Scale, opt.Softcap = float32(f.scale), float32(f.softcap)
	opt.Offset, opt.Integers, opt.BFloat16 = f.offset, f.integers, f.bfloat16
	opt.Causal, _ = f.causality()
	opt.Window, _ = f.windowOption()
	if f.alibi {
		opt.Slopes = alibiSlopes(q.H)
	}
	if f.mask != "" {
		var a npyfile.Array[bool]
		if a, err = npyfile.ReadBool(f.mask); err != nil {
			return
		}
		if opt.Mask, err = broadcast(f.maskFlag(), a, q.B, q.H, q.L, k.L); err != nil {
			return
		}
	}
	if f.bias != "" {
		var a npyfile.Array[float32]
		if a, err = npyfile.ReadLogits(f.bias); err != nil {
			return
		}
		if opt.Bias, err = broadcast(f.biasFlag(), a, q.B, q.H, q.L, k.L); err != nil {
			return
		}
	}
	if f.sinks != "" {
		opt.Sinks, err = f.readSinks(q.H)
	}
	return
}

// isFloat32 reports that a finite number becomes neither 0, which means the default, nor infinite.
func isFloat32(x float64) bool {
	y := float32(x)
	return (y != 0 || x == 0) && !math.IsInf(float64(y), 0)
}

func (f *runFlags) readSinks(heads int) ([]float32, error) {
	a, err := npyfile.ReadLogits(f.sinks)
	if err == nil && (len(a.Shape) != 1 || a.Shape[0] != heads) {
		err = fmt.Errorf("%s is %s, want %s: one logit per head", f.sinks, dims(a.Shape),
			dims([]int{heads}))
	}
	return a.Data, err
}

// allocate allocates the requested outputs.
func (r *run) allocate(l layout) (err error) {
	if r.out, r.dst, err = l.output(r.q, r.v); err != nil {
		return err
	}
	if r.flags.lse != "" {
		if r.lseOut, err = l.pairs("-lse", r.q.B, r.q.H, r.q.L); err != nil {
			return err
		}
		r.lse = r.lseOut.Data
	}
	if r.flags.weights != "" {
		if r.weightsOut, err = l.pairs("-weights", r.q.B, r.q.H, r.q.L, r.k.L); err != nil {
			return err
		}
		r.weights = attn.BHLD(r.weightsOut.Data, r.q.B, r.q.H, r.q.L, r.k.L)
	}
	return nil
}

// compute does the work and shows progress if it is long.
func (r *run) compute(stderr io.Writer) error {
	whole := r.flags.out != "" || r.flags.lse != "" || r.flags.weights != ""
	total := 0
	if whole {
		total += r.q.B * r.q.H * r.q.L
	}
	if r.heat != nil {
		total += len(r.heat.heads) * r.q.L
	}
	p := progress.New(stderr, "attention", total)
	defer p.Finish()
	if whole {
		if err := r.job.run(p); err != nil {
			return err
		}
	}
	if r.heat != nil {
		return r.heat.collect(&r.job, p)
	}
	return nil
}

// write writes all outputs, or none.
func (r *run) write() error {
	var files outputs
	defer files.discard()
	for _, o := range []struct {
		path string
		a    npyfile.Array[float32]
	}{{r.flags.out, r.out}, {r.flags.lse, r.lseOut}, {r.flags.weights, r.weightsOut}} {
		if o.path == "" {
			continue
		}
		if err := files.add(o.path, func(w io.Writer) error {
			return npy.Write(w, o.a.Shape, o.a.Data)
		}); err != nil {
			return err
		}
	}
	if r.heat != nil {
		if err := files.addPicture(r.flags.png, r.heat.draw); err != nil {
			return err
		}
	}
	return files.commit()
}

// warn names the characters of labels that the picture does not show.
func (r *run) warn(stderr io.Writer) {
	if r.heat == nil {
		return
	}
	format, _ := chart.FormatOf(r.flags.png) // checkFlags has validated it
	if text := r.heat.missing(format); text != "" {
		fmt.Fprintf(stderr, "attn run: warning: -labels %s: %s\n", r.flags.labels, text)
	}
}

func (r *run) report(stdout io.Writer, elapsed time.Duration) {
	var names []string
	for _, o := range r.flags.outputs() {
		names = append(names, o.path)
	}
	if r.flags.out != "" {
		names[0] += " " + dims(r.out.Shape)
	}
	fmt.Fprintf(stdout, "wrote %s in %v (%s, threads %d)\n",
		strings.Join(names, ", "), elapsed.Round(10*time.Microsecond), attn.Implementation(), r.threads)
}

// attendOn returns the function that computes, its number of threads, and a function that releases
// them.
func (f *runFlags) attendOn() (call attend, threads int, release func()) {
	threads, release = f.threads, func() {}
	if threads == 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	var pool *attn.Pool
	call = attn.Attend
	if threads > 1 {
		pool = attn.NewPool(threads)
		call, release = pool.Attend, func() { pool.Close() }
	}
	if f.cache == "" {
		return call, threads, release
	}
	kind, _ := f.cacheType() // checkFlags has validated it
	c := &cachedAttend{kind: kind, pool: pool}
	stop := release
	return c.attend, threads, func() { c.release(); stop() }
}
