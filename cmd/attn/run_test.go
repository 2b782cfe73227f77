package main

import (
	"bytes"
	"errors"
	"image"
	"image/png"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/cmd/attn/internal/npyfile"
	"github.com/seed-1415985d/attn/internal/npy"
	"github.com/seed-1415985d/attn/internal/progress"
)

// call runs the command in this process.
func call(args ...string) (status int, stdout, stderr string) {
	var out, errs bytes.Buffer
	status = realMain(args, &out, &errs)
	return status, out.String(), errs.String()
}

// folder is a directory of test files.
type folder struct {
	testing.TB
	dir string
}

func newFolder(t testing.TB) folder { return folder{t, t.TempDir()} }

func (f folder) path(name string) string { return filepath.Join(f.dir, name) }

// random writes an array of normal numbers.
func (f folder) random(name string, seed uint64, shape ...int) npyfile.Array[float32] {
	r := rand.New(rand.NewPCG(seed, 1))
	n := 1
	for _, d := range shape {
		n *= d
	}
	a := npyfile.Array[float32]{Shape: shape, Data: make([]float32, n)}
	for i := range a.Data {
		a.Data[i] = float32(r.NormFloat64())
	}
	f.save(name, a)
	return a
}

func (f folder) save(name string, a npyfile.Array[float32]) {
	var b bytes.Buffer
	if err := npy.Write(&b, a.Shape, a.Data); err != nil {
		f.Fatal(err)
	}
	f.write(name, b.Bytes())
}

func (f folder) write(name string, b []byte) {
	if err := os.WriteFile(f.path(name), b, 0o644); err != nil {
		f.Fatal(err)
	}
}

func (f folder) read(name string) npyfile.Array[float32] {
	a, err := npyfile.Read(f.path(name))
	if err != nil {
		f.Fatal(err)
	}
	return a
}

// names lists the directory.
func (f folder) names() []string {
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		f.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// run runs attn run on q.npy, k.npy, v.npy and out.npy of the folder. Other
// arguments that name files of the folder begin with @.
func (f folder) run(args ...string) (status int, stdout, stderr string) {
	all := []string{"run", "-q", f.path("q.npy"), "-k", f.path("k.npy"), "-v", f.path("v.npy"), "-o",
		f.path("out.npy")}
	for _, a := range args {
		if name, ok := strings.CutPrefix(a, "@"); ok {
			a = f.dir + "/" + name // as it is, not cleaned
		}
		all = append(all, a)
	}
	return call(all...)
}

func (f folder) mustRun(args ...string) {
	f.Helper()
	if status, _, stderr := f.run(args...); status != 0 || stderr != "" {
		f.Fatalf("%v: status %d, stderr %q", args, status, stderr)
	}
}

func sameBits(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool {
		return math.Float32bits(x) == math.Float32bits(y)
	})
}

func (f folder) check(name string, shape []int, data []float32) {
	f.Helper()
	a := f.read(name)
	if !slices.Equal(a.Shape, shape) {
		f.Errorf("%s has shape %v, want %v", name, a.Shape, shape)
	}
	if !sameBits(a.Data, data) {
		f.Errorf("%s has other bits than the package's result", name)
	}
}

// Every rank reads and writes the layout it documents.
func TestRunRanks(t *testing.T) {
	const b, h, kv, lq, lk, d, dv = 2, 4, 2, 5, 7, 6, 3
	for _, c := range []struct {
		name              string
		q, k, v, out, lse []int
		flags             []string
		batch, heads, kvs int
		sideBySide        bool
	}{
		{"rank 2", []int{lq, d}, []int{lk, d}, []int{lk, dv}, []int{lq, dv}, []int{lq}, nil, 1, 1, 1,
			false},
		{"rank 3", []int{h, lq, d}, []int{kv, lk, d}, []int{kv, lk, dv}, []int{h, lq, dv}, []int{h, lq},
			nil, 1, h, kv, false},
		{"rank 4", []int{b, h, lq, d}, []int{b, kv, lk, d}, []int{b, kv, lk, dv}, []int{b, h, lq, dv},
			[]int{b, h, lq}, nil, b, h, kv, false},
		{"rank 2, heads", []int{lq, h * d}, []int{lk, kv * d}, []int{lk, kv * dv}, []int{lq, h * dv},
			[]int{h, lq}, []string{"-heads", "4"}, 1, h, kv, true},
		{"rank 3, heads", []int{b, lq, h * d}, []int{b, lk, kv * d}, []int{b, lk, kv * dv},
			[]int{b, lq, h * dv}, []int{b, h, lq}, []string{"-heads", "4", "-kvheads", "2"}, b, h, kv, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFolder(t)
			view := attn.BHLD[float32]
			if c.sideBySide {
				view = func(data []float32, b, h, l, d int) attn.Tensor { return attn.BLHD(data, b, l, h, d) }
			}
			q := view(f.random("q.npy", 1, c.q...).Data, c.batch, c.heads, lq, d)
			k := view(f.random("k.npy", 2, c.k...).Data, c.batch, c.kvs, lk, d)
			v := view(f.random("v.npy", 3, c.v...).Data, c.batch, c.kvs, lk, dv)
			lse := make([]float32, c.batch*c.heads*lq)
			weights := attn.BHLD(make([]float32, len(lse)*lk), c.batch, c.heads, lq, lk)
			dst := view(make([]float32, len(lse)*dv), c.batch, c.heads, lq, dv)
			if err := attn.Attend(dst, q, k, v, &attn.Options{LSE: lse, Weights: weights}); err != nil {
				t.Fatal(err)
			}
			f.mustRun(append(c.flags, "-lse", "@lse.npy", "-weights", "@w.npy")...)
			f.check("out.npy", c.out, dst.Data)
			for _, threads := range []string{"1", "3"} {
				f.mustRun(append(c.flags, "-threads", threads)...)
				f.check("out.npy", c.out, dst.Data)
			}
			f.check("lse.npy", c.lse, lse)
			f.check("w.npy", append(slices.Clone(c.lse), lk), weights.Data)
		})
	}
}

// Every flag reaches the package as the option that it stands for.
func TestRunOptions(t *testing.T) {
	const h, lq, lk, d = 3, 6, 9, 4
	f := newFolder(t)
	q := attn.BHLD(f.random("q.npy", 1, h, lq, d).Data, 1, h, lq, d)
	k := attn.BHLD(f.random("k.npy", 2, h, lk, d).Data, 1, h, lk, d)
	v := attn.BHLD(f.random("v.npy", 3, h, lk, d).Data, 1, h, lk, d)
	bias := attn.View[float32]{Data: f.random("bias.npy", 4, h, 1, lk).Data, B: 1, H: h, L: lq, D: lk,
		SH: lk, SL: attn.Broadcast}
	sinks := f.random("sinks.npy", 5, h).Data
	ofKeys := attn.View[float32]{Data: f.random("keys.npy", 6, lk).Data, B: 1, H: h, L: lq, D: lk,
		SH: attn.Broadcast, SL: attn.Broadcast}
	mask := attn.BHLD(make([]bool, lq*lk), 1, 1, lq, lk)
	bytes := make([]byte, lq*lk)
	for i := range bytes {
		if i%3 != 1 {
			mask.Data[i], bytes[i] = true, 1
		}
	}
	header := "{'descr': '|b1', 'fortran_order': False, 'shape': (6, 9), }\n"
	f.write("mask.npy", append([]byte("\x93NUMPY\x01\x00"+string(rune(len(header)))+"\x00"+header),
		bytes...))

	for flags, opt := range map[string]attn.Options{
		"-causal topleft":                 {Causal: attn.TopLeft},
		"-causal bottomright":             {Causal: attn.BottomRight},
		"-causal topleft -offset 2":       {Causal: attn.TopLeft, Offset: 2},
		"-scale 0.3":                      {Scale: 0.3},
		"-window 2,3":                     {Window: attn.Window{Left: 2, Right: 3}},
		"-window 0,1 -offset 3":           {Window: attn.Window{Right: 1}, Offset: 3},
		"-softcap 2":                      {Softcap: 2},
		"-mask @mask.npy":                 {Mask: mask},
		"-bias @bias.npy":                 {Bias: bias},
		"-bias @keys.npy":                 {Bias: ofKeys},
		"-sinks @sinks.npy":               {Sinks: sinks},
		"-alibi":                          {Slopes: alibiSlopes(h)},
		"-alibi -causal bottomright":      {Slopes: alibiSlopes(h), Causal: attn.BottomRight},
		"-mask @mask.npy -window 5,0":     {Mask: mask, Window: attn.Window{Left: 5}},
		"-bias @bias.npy -causal topleft": {Bias: bias, Causal: attn.TopLeft},
	} {
		want := attn.BHLD(make([]float32, h*lq*d), 1, h, lq, d)
		if err := attn.Attend(want, q, k, v, &opt); err != nil {
			t.Fatal(err)
		}
		f.mustRun(strings.Fields(flags)...)
		if got := f.read("out.npy"); !sameBits(got.Data, want.Data) {
			t.Errorf("%s: other bits than the option", flags)
		}
	}
}

// A window counts keys, the query's own included, so 1,1 shows a query its own key.
func TestRunWindowCounts(t *testing.T) {
	const l, d = 7, 4
	f := newFolder(t)
	f.random("q.npy", 1, l, d)
	f.random("k.npy", 2, l, d)
	v := f.random("v.npy", 3, l, d)
	f.mustRun("-window", "1,1")
	f.check("out.npy", []int{l, d}, v.Data)
	f.mustRun("-window", "1,0", "-causal", "topleft")
	f.check("out.npy", []int{l, d}, v.Data)
	f.mustRun()
	all := f.read("out.npy").Data
	for _, window := range []string{"0,0", "7,7"} {
		f.mustRun("-window", window)
		f.check("out.npy", []int{l, d}, all)
	}
}

// Slices of any size give the bits of one call.
func TestSlicesChangeNothing(t *testing.T) {
	const b, h, kv, lq, lk, d = 2, 4, 2, 21, 90, 8
	f := newFolder(t)
	j := job{attend: attn.Attend, threads: 1,
		q:       attn.BHLD(f.random("q", 1, b*h*lq*d).Data, b, h, lq, d),
		k:       attn.BHLD(f.random("k", 2, b*kv*lk*d).Data, b, kv, lk, d),
		v:       attn.BHLD(f.random("v", 3, b*kv*lk*d).Data, b, kv, lk, d),
		dst:     attn.BHLD(make([]float32, b*h*lq*d), b, h, lq, d),
		lse:     make([]float32, b*h*lq),
		weights: attn.BHLD(make([]float32, b*h*lq*lk), b, h, lq, lk),
	}
	bias := attn.BHLD(f.random("bias", 4, b*h*lq*lk).Data, b, h, lq, lk)
	for _, opt := range []attn.Options{
		{},
		{Causal: attn.TopLeft, Offset: 5, Window: attn.Window{Left: 10}},
		{Causal: attn.BottomRight, Bias: bias, Sinks: []float32{1, 2, 3, 4}},
		{Offset: 3, Slopes: alibiSlopes(h), Window: attn.Window{Left: 21, Right: 3}},
	} {
		dst := attn.BHLD(make([]float32, b*h*lq*d), b, h, lq, d)
		weights := attn.BHLD(make([]float32, b*h*lq*lk), b, h, lq, lk)
		whole := opt
		whole.LSE, whole.Weights = make([]float32, b*h*lq), weights
		if err := attn.Attend(dst, j.q, j.k, j.v, &whole); err != nil {
			t.Fatal(err)
		}
		j.opt = opt
		if err := j.check(); err != nil {
			t.Fatal(err)
		}
		for b := range b {
			for h := 0; h < 4; h += 2 {
				for i := 0; i < lq; i += 8 {
					if err := j.slice(slice{b, h, h + 2, i, min(i+8, lq)}, j.dst, j.lse, j.weights); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		if !sameBits(dst.Data, j.dst.Data) || !sameBits(whole.LSE, j.lse) ||
			!sameBits(weights.Data, j.weights.Data) {
			t.Errorf("%+v: slices give other bits than one call", opt)
		}
	}
}

// All slices together are the whole call, each row once.
func TestSliceSizes(t *testing.T) {
	for _, c := range []struct{ h, kv, lq, lk, threads int }{
		{8, 8, 100, 100, 1}, {8, 2, 5000, 5000, 1}, {8, 2, 5000, 50000, 3}, {32, 32, 1, 4096, 2},
		{1, 1, 1, 1, 1}, {6, 3, 1000, 0, 1},
	} {
		j := job{threads: c.threads, group: c.h / c.kv}
		j.q.H, j.q.L, j.q.D, j.k.H, j.k.L, j.v.D = c.h, c.lq, 64, c.kv, c.lk, 64
		heads, rows := j.sliceSize()
		if heads < 1 || heads%j.group != 0 || heads > c.h || rows < 1 {
			t.Errorf("%+v: %d heads, %d rows", c, heads, rows)
		}
	}
}

// files writes valid inputs for the tests of refusals.
func refusalFolder(t *testing.T) folder {
	f := newFolder(t)
	f.random("q.npy", 1, 2, 5, 4)
	f.random("k.npy", 2, 2, 6, 4)
	f.random("v.npy", 3, 2, 6, 3)
	return f
}

// Bad data: status 1, one line on stderr, nothing on stdout, no new file.
func TestRunRefuses(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(f folder)
		flags []string
		want  string
	}{
		{"missing file", func(f folder) { os.Remove(f.path("k.npy")) }, nil, "k.npy"},
		{"truncated", func(f folder) { os.Truncate(f.path("v.npy"), 200) }, nil, "v.npy: truncated"},
		{"bad magic", func(f folder) {
			f.write("q.npy", []byte("hello, world"))
		}, nil, "q.npy: not a .npy file"},
		{"empty file", func(f folder) { f.write("q.npy", nil) }, nil, "q.npy: not a .npy file"},
		{"rank 1", func(f folder) {
			f.random("q.npy", 1, 8)
		}, nil, "q.npy has 1 dimensions (8,), want 2, 3 or 4"},
		{"rank 5", func(f folder) { f.random("q.npy", 1, 1, 1, 1, 1, 2) }, nil, "q.npy has 5 dimensions"},
		{"ranks differ", func(f folder) {
			f.random("k.npy", 1, 6, 4)
		}, nil, "k.npy has 2 dimensions, want 3 as"},
		{"head dimensions differ", func(f folder) {
			f.random("k.npy", 1, 2, 6, 5)
		}, nil, "q.D is 4, want the keys' 5; -q is (2, 5, 4), -k (2, 6, 5), -v (2, 6, 3)"},
		{"lengths differ", func(f folder) { f.random("v.npy", 1, 2, 7, 3) }, nil, "shape mismatch: v is"},
		{"heads do not divide", func(f folder) {
			f.random("q.npy", 1, 3, 5, 4)
		}, nil, "q.H is 3, want a multiple of the 2"},
		{"no dimension", func(f folder) { f.random("q.npy", 1, 2, 5, 0) }, nil, "q.D is 0"},
		{"dimension of nothing", func(f folder) {
			f.random("q.npy", 1, 1<<30, 0, 4)
		}, []string{"-alibi"}, "q.npy is (1073741824, 0, 4), want dimensions of at most 268435456"},
		{"batch of nothing", func(f folder) {
			f.random("q.npy", 1, 1<<30, 0, 4)
		}, []string{"-heads", "1"}, "want dimensions of at most"},
		{"offset behind which slices begin", nil, []string{"-offset", "268435456"},
			"-offset is 268435456, want at most 268435451 with 5 queries"},
		{"offset with bottomright", nil, []string{"-causal", "bottomright", "-offset", "1"},
			"Offset is 1, want 0"},
		{"-heads does not divide", nil, []string{"-heads", "3"}, "the last dimension of "},
		{"-heads and rank 4", func(f folder) {
			f.random("q.npy", 1, 1, 2, 5, 4)
			f.random("k.npy", 2, 1, 2, 6, 4)
			f.random("v.npy", 3, 1, 2, 6, 3)
		}, []string{"-heads", "2"}, "-heads is for 2 or 3 dimensions"},
		{"keys do not fit -heads", func(f folder) {
			f.random("k.npy", 1, 2, 6, 5)
		}, []string{"-heads", "2"}, "k.npy is 5, want a multiple of the head dimension 4/2 = 2"},
		{"values do not fit -kvheads", nil, []string{"-heads", "2"}, "v.npy is 3, want a multiple of 2"},
		{"mask of numbers", nil, []string{"-mask", "@q.npy"}, `elements are "<f4", want bool, or integers`},
		{"mask missing", nil, []string{"-mask", "@none.npy"}, "none.npy"},
		{"bias shape", func(f folder) {
			f.random("bias.npy", 1, 5, 5)
		}, []string{"-bias", "@bias.npy"}, "bias.npy is (5, 5), want (1, 2, 5, 6) or a shape that " +
			"broadcasts to it"},
		{"bias keys do not broadcast", func(f folder) {
			f.random("bias.npy", 1, 5, 1)
		}, []string{"-bias", "@bias.npy"}, "bias.npy is (5, 1)"},
		{"bias of rank 1", func(f folder) {
			f.random("bias.npy", 1, 5)
		}, []string{"-bias", "@bias.npy"}, "bias.npy is (5,)"},
		{"bias of rank 5", func(f folder) {
			f.random("bias.npy", 1, 1, 1, 1, 5, 6)
		}, []string{"-bias", "@bias.npy"}, "bias.npy is (1, 1, 1, 5, 6)"},
		{"bias of other dimensions than -bias-dims", func(f folder) {
			f.random("bias.npy", 1, 2, 6)
		}, []string{"-bias", "@bias.npy", "-bias-dims", "b,h,k"}, "bias.npy is (2, 6), want"},
		{"bias without a dimension", func(f folder) {
			f.random("bias.npy", 1)
		}, []string{"-bias", "@bias.npy"}, "bias.npy is (), want"},
		{"sinks", func(f folder) {
			f.random("sinks.npy", 1, 3)
		}, []string{"-sinks", "@sinks.npy"}, "sinks.npy is (3,), want (2,)"},
		{"-png-heads", nil, []string{"-png", "@heat.png", "-png-heads", "2"},
			"names head 2, want 0 to 1"},
		{"-png-batch", nil, []string{"-png", "@heat.png", "-png-batch", "1"},
			"-png-batch is 1, want 0 to 0"},
		{"labels missing", nil, []string{"-png", "@heat.png", "-labels", "@none.txt"}, "none.txt"},
		{"few labels", func(f folder) {
			f.write("l.txt", []byte("a\nb\n"))
		}, []string{"-png", "@heat.png", "-labels", "@l.txt"},
			"l.txt has 2 lines, want one for each of 6 keys"},
		{"many labels", func(f folder) {
			f.write("l.txt", bytes.Repeat([]byte("a\n"), 99))
		}, []string{"-png", "@heat.png", "-labels", "@l.txt"}, "l.txt has more than 6 lines"},
		{"no folder for the output", nil, []string{"-lse", "@none/lse.npy"},
			"none/lse.npy: no such file or directory"},
		{"output is write-protected", func(f folder) {
			f.write("lse.npy", nil)
			os.Chmod(f.path("lse.npy"), 0o444)
		}, []string{"-lse", "@lse.npy"}, "lse.npy: exists and is write-protected"},
		{"output is a folder", func(f folder) {
			os.Mkdir(f.path("lse.npy"), 0o755)
		}, []string{"-lse", "@lse.npy"}, "lse.npy: exists and is not a regular file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := refusalFolder(t)
			if c.spoil != nil {
				c.spoil(f)
			}
			before := f.names()
			status, stdout, stderr := f.run(c.flags...)
			checkRefusal(t, 1, status, stdout, stderr, c.want)
			if after := f.names(); !slices.Equal(before, after) {
				t.Errorf("files were %v, are %v", before, after)
			}
		})
	}
}

func checkRefusal(t *testing.T, wantStatus, status int, stdout, stderr, want string) {
	t.Helper()
	if status != wantStatus || stdout != "" {
		t.Errorf("status %d, stdout %q, want status %d and nothing", status, stdout, wantStatus)
	}
	if !strings.HasPrefix(stderr, "attn ") || strings.Index(stderr, "\n") != len(stderr)-1 ||
		!strings.Contains(stderr, want) {
		t.Errorf("stderr is %q, want one line with %q", stderr, want)
	}
}

// Mistakes on the command line: status 2.
func TestRunUsage(t *testing.T) {
	for want, flags := range map[string][]string{
		"-causal is \"left\"":                               {"-causal", "left"},
		"-window is \"4\"":                                  {"-window", "4"},
		"-window is \"a,b\"":                                {"-window", "a,b"},
		"-window is \"-1,1\", want numbers of at least 0":   {"-window", "-1,1"},
		"-scale is NaN":                                     {"-scale", "nan"},
		"-scale is +Inf":                                    {"-scale", "inf"},
		"-scale is 0, want another":                         {"-scale", "0"},
		"-softcap is -1":                                    {"-softcap", "-1"},
		"-softcap is +Inf":                                  {"-softcap", "inf"},
		"-threads is 5000":                                  {"-threads", "5000"},
		"-png-heads and -png-batch":                         {"-png-batch", "1"},
		"-x":                                                {"-x"},
		"invalid value":                                     {"-scale", "big"},
		"unexpected argument \"y\"":                         {"y"},
		"-threads is -1":                                    {"-threads", "-1"},
		"-heads is -1":                                      {"-heads", "-1"},
		"-kvheads needs -heads":                             {"-kvheads", "2"},
		"-mask-dims needs -mask":                            {"-mask-dims", "q,k"},
		"-bias-dims is \"k,q\", want some of b,h":           {"-bias", "@q.npy", "-bias-dims", "k,q"},
		"-bias-dims is \"q,q,k\", want some of b":           {"-bias", "@q.npy", "-bias-dims", "q,q,k"},
		"-bias-dims is \"x,k\", want some of b":             {"-bias", "@q.npy", "-bias-dims", "x,k"},
		"-bias-dims is \"b,q\", want k at its end":          {"-bias", "@q.npy", "-bias-dims", "b,q"},
		"-labels, -png-heads and":                           {"-labels", "x"},
		"out.npy, which is the file of -o, too":             {"-lse", "@out.npy"},
		"q.npy, which is the file of -q, too":               {"-lse", "@q.npy"},
		"-o is @x/, which names a folder":                   {"-o", "@x/"},
		"-lse is @x/, which names a folder":                 {"-lse", "@x/"},
		"-weights is @x/, which names a folder":             {"-weights", "@x/"},
		"-png is @x.png/, which names a folder":             {"-png", "@x.png/"},
		"-o is @x/., which names a folder":                  {"-o", "@x/."},
		"-o is @.., which names a folder":                   {"-o", "@.."},
		"-lse is -, want a file":                            {"-lse", "-"},
		"-png is @h.jpg, want a name that ends in":          {"-png", "@h.jpg"},
		"-png is @h, want a name that ends in":              {"-png", "@h"},
		"-scale is 1e-50":                                   {"-scale", "1e-50"},
		"-softcap is 1e-50":                                 {"-softcap", "1e-50"},
		"-scale is 1e+50":                                   {"-scale", "1e50"},
		"-heads is 268435457":                               {"-heads", "268435457"},
		"nothing to write: give -o, -png, -lse or -weights": {"-o", ""},
		"-png-heads is \"x\"":                               {"-png", "@heat.png", "-png-heads", "x"},
		"-png-heads is \"1,0,1\", which names head 1 twice": {"-png", "@heat.png", "-png-heads", "1,0,1"},
		"-q is missing":                                     {"-q", ""},
	} {
		f := refusalFolder(t)
		before := f.names()
		status, stdout, stderr := f.run(flags...)
		checkRefusal(t, 2, status, stdout, strings.ReplaceAll(stderr, f.dir+"/", "@"), want)
		if after := f.names(); !slices.Equal(before, after) {
			t.Errorf("%v: files were %v, are %v", flags, before, after)
		}
	}
}

// When the last of several outputs fails, none appears, and old files stay.
func TestNoPartialOutput(t *testing.T) {
	f := newFolder(t)
	f.write("old.npy", []byte("old"))
	var o outputs
	if err := o.add(f.path("old.npy"), writeBytes([]byte("new"))); err != nil {
		t.Fatal(err)
	}
	err := o.add(f.path("other.npy"), func(w io.Writer) error {
		w.Write([]byte("half of it"))
		return io.ErrShortWrite
	})
	if err == nil || !strings.Contains(err.Error(), "other.npy") {
		t.Errorf("error %v", err)
	}
	o.discard()
	if b, _ := os.ReadFile(f.path("old.npy")); string(b) != "old" ||
		!slices.Equal(f.names(), []string{"old.npy"}) {
		t.Errorf("old.npy holds %q beside %v", b, f.names())
	}
}

// A new output replaces an old one and keeps its permissions, and a link to it.
func TestOutputReplaces(t *testing.T) {
	for _, mode := range []os.FileMode{0o600, 0o666} { // less and more than umask leaves
		f := refusalFolder(t)
		f.write("there.npy", []byte("old"))
		if err := errors.Join(os.Chmod(f.path("there.npy"), mode),
			os.Symlink("there.npy", f.path("out.npy"))); err != nil {
			t.Fatal(err)
		}
		f.mustRun()
		info, err := os.Stat(f.path("there.npy"))
		if err != nil || info.Mode().Perm() != mode {
			t.Errorf("%v %v, want %v", info.Mode(), err, mode)
		}
		if got := f.read("there.npy").Shape; !slices.Equal(got, []int{2, 5, 3}) {
			t.Errorf("shape %v", got)
		}
		if link, err := os.Readlink(f.path("out.npy")); link != "there.npy" {
			t.Errorf("the link leads to %q, %v", link, err)
		}
	}
}

// No path to an output leads to a file that another output or an input is.
func TestSameFile(t *testing.T) {
	f := refusalFolder(t)
	if err := errors.Join(os.Mkdir(f.path("d"), 0o777), os.Symlink(".", f.path("here")),
		os.Symlink("q.npy", f.path("link.npy"))); err != nil {
		t.Fatal(err)
	}
	for _, lse := range []string{"d/../out.npy", "here/out.npy", "link.npy", "here/q.npy",
		"here/d/../link.npy"} {
		before := f.names()
		status, stdout, stderr := f.run("-lse", f.dir+"/"+lse)
		checkRefusal(t, 2, status, stdout, stderr, lse)
		if after := f.names(); !slices.Equal(before, after) {
			t.Errorf("%s: files were %v, are %v", lse, before, after)
		}
	}
}

// Without heads there are no slopes.
func TestNoHeads(t *testing.T) {
	f := newFolder(t)
	f.random("q.npy", 1, 0, 5, 4)
	f.random("k.npy", 2, 0, 6, 4)
	f.random("v.npy", 3, 0, 6, 4)
	f.mustRun("-alibi")
}

// Progress appears on stderr, and only for work that is long enough.
func TestProgress(t *testing.T) {
	f := newFolder(t)
	f.random("q.npy", 1, 4, 300, 64)
	f.random("k.npy", 2, 4, 300, 64)
	f.random("v.npy", 3, 4, 300, 64)
	defer func(d time.Duration) { progress.After = d }(progress.After)
	progress.After = time.Hour
	f.mustRun() // silent

	progress.After = 0
	status, stdout, stderr := f.run()
	if status != 0 || !strings.Contains(stderr, "attention") || !strings.Contains(stderr, "%") {
		t.Errorf("status %d, stderr %q, want a bar", status, stderr)
	}
	if strings.Contains(stdout, "%") || !strings.HasPrefix(stdout, "wrote ") ||
		strings.Count(stdout, "\n") != 1 {
		t.Errorf("stdout %q, want one line about the outputs", stdout)
	}
}

func TestHeatmap(t *testing.T) {
	f := newFolder(t)
	f.random("q.npy", 1, 2, 3, 5, 4)
	f.random("k.npy", 2, 2, 3, 6, 4)
	f.random("v.npy", 3, 2, 3, 6, 4)
	f.write("l.txt", []byte("one\ntwo\nthree\nfour\nfive\na very long token indeed"))
	f.mustRun("-png", "@one.png", "-causal", "bottomright")
	f.mustRun("-png", "@three.png", "-png-heads", "0,1,2", "-png-batch", "1", "-labels", "@l.txt")
	f.mustRun("-png", "@with.png", "-causal", "bottomright", "-weights", "@w.npy")
	one, three := f.picture("one.png"), f.picture("three.png")
	if three.Dx() < 2*one.Dx() {
		t.Errorf("three heads are %v, one is %v", three, one)
	}
	os.Remove(f.path("out.npy"))
	f.mustRun("-o", "", "-png", "@alone.png")
	f.picture("alone.png")
	if slices.Contains(f.names(), "out.npy") {
		t.Error("-o \"\" writes a file")
	}
	a, _ := os.ReadFile(f.path("one.png"))
	b, _ := os.ReadFile(f.path("with.png"))
	if !bytes.Equal(a, b) {
		t.Error("the picture depends on -weights")
	}
}

// A long sequence is reduced, a single query has a row, and NaN is drawn.
func TestHeatmapShapes(t *testing.T) {
	for _, c := range []struct{ lq, lk int }{{1, 2000}, {700, 700}, {40, 1}, {3, 30}} {
		f := newFolder(t)
		f.random("q.npy", 1, c.lq, 4)
		k := f.random("k.npy", 2, c.lk, 4)
		f.random("v.npy", 3, c.lk, 4)
		if c.lk == 30 {
			k.Data[0] = float32(math.NaN())
			f.save("k.npy", k)
		}
		f.mustRun("-png", "@heat.png")
		f.picture("heat.png")
	}
}

// picture decodes a picture and makes sure that it is not blank.
func (f folder) picture(name string) image.Rectangle {
	f.Helper()
	file, err := os.Open(f.path(name))
	if err != nil {
		f.Fatal(err)
	}
	defer file.Close()
	img, err := png.Decode(file)
	if err != nil {
		f.Fatal(err)
	}
	colours := map[[3]uint32]bool{}
	for y := img.Bounds().Min.Y; y < img.Bounds().Max.Y; y += 3 {
		for x := img.Bounds().Min.X; x < img.Bounds().Max.X; x += 3 {
			r, g, b, _ := img.At(x, y).RGBA()
			colours[[3]uint32{r, g, b}] = true
		}
	}
	if len(colours) < 20 {
		f.Errorf("%s has %d colours", name, len(colours))
	}
	return img.Bounds()
}

// What a shape may be that is no size of memory: an int of 32 bits may overflow to it.
func TestAllocateNothing(t *testing.T) {
	for _, shape := range [][]int{{-1, 1 << 20}, {-1, -1}, {1 << 30, 1 << 30}} {
		if a, err := allocate("-o", shape); err == nil || a.Data != nil {
			t.Errorf("%v: there are %d elements and error %v, want an error", shape, len(a.Data), err)
		}
	}
}
