package main

import (
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/measure"
)

// What goes wrong after the arguments were found to be right.

// prepared is a run on small inputs, ready to compute.
func (f folder) prepared(flags runFlags) *run {
	f.random("q.npy", 1, 2, 5, 4)
	f.random("k.npy", 2, 2, 6, 4)
	f.random("v.npy", 3, 2, 6, 4)
	flags.q, flags.k, flags.v = f.path("q.npy"), f.path("k.npy"), f.path("v.npy")
	flags.threads, flags.pngHeads = 1, "0"
	if flags.causal == "" {
		flags.causal = "none"
	}
	r, err := flags.prepare()
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(r.close)
	return r
}

// An error of the package in the midst of the work ends it, whichever output needs it.
func TestAttentionFails(t *testing.T) {
	f := newFolder(t)
	broken := errors.New("broken")
	for _, flags := range []runFlags{{out: f.path("out.npy")}, {png: f.path("heat.png")}} {
		r := f.prepared(flags)
		r.attend = func(_, _, _, _ attn.Tensor, _ *attn.Options) error { return broken }
		if err := r.compute(io.Discard); !errors.Is(err, broken) {
			t.Errorf("%+v: error is %v, want %v", flags, err, broken)
		}
	}
}

// A folder that vanishes while attention is computed is an error for each output.
func TestFolderVanishes(t *testing.T) {
	for _, name := range []string{"out", "png"} {
		f := newFolder(t)
		gone := folder{t, t.TempDir()}
		flags := runFlags{out: gone.path("out.npy")}
		if name == "png" {
			flags = runFlags{png: gone.path("heat.png")}
		}
		r := f.prepared(flags)
		if err := r.compute(io.Discard); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(gone.dir); err != nil {
			t.Fatal(err)
		}
		if err := r.write(); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: error is %v", name, err)
		}
	}
}

// What would fail when all is computed fails before.
func TestTargetRefusedEarly(t *testing.T) {
	f := refusalFolder(t)
	long := strings.Repeat("long", 100) + ".npy"
	if err := writable(f.path(long)); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("a name of %d characters: %v", len(long), err)
	}
	if err := writable(f.dir + "/none/../out.npy"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a folder that does not exist: %v", err)
	}
}

// Where a file system does not distinguish a from A, two outputs must not differ in that alone.
func TestCaseOfOutputs(t *testing.T) {
	defer func(old bool) { foldsCase = old }(foldsCase)
	for _, foldsCase = range []bool{false, true} {
		f := newFolder(t)
		if got := sameFile(f.path("out.npy"), f.path("OUT.npy")); got != foldsCase {
			t.Errorf("out.npy and OUT.npy: same is %v, want %v", got, foldsCase)
		}
	}
}

// A target that becomes a folder cannot be replaced, and the error names it
// and not the temporary file.
func TestTargetBecomesAFolder(t *testing.T) {
	f := newFolder(t)
	var o outputs
	if err := o.add(f.path("out.npy"), writeBytes(nil)); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(f.path("out.npy"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := o.commit(); err == nil || !strings.HasPrefix(err.Error(), f.path("out.npy")) ||
		strings.Contains(err.Error(), ".tmp") {
		t.Errorf("error is %v", err)
	}
	o.discard()
	if names := f.names(); len(names) != 1 {
		t.Errorf("files are %v", names)
	}
}

// Small files can ask for outputs beyond any memory.
func TestOutputsTooLarge(t *testing.T) {
	for want, shapes := range map[string][3][]int{
		"-weights of shape (524288, 524288) is too large":   {{1 << 19, 1}, {1 << 19, 1}, {1 << 19, 1}},
		"the output of shape (524288, 524288) is too large": {{1 << 19, 1}, {1, 1}, {1, 1 << 19}},
	} {
		f := newFolder(t)
		for i, name := range []string{"q.npy", "k.npy", "v.npy"} {
			f.random(name, 1, shapes[i]...)
		}
		status, stdout, stderr := f.run("-weights", "@w.npy")
		checkRefusal(t, 1, status, stdout, stderr, want)
	}
}

func TestHeatmapRefuses(t *testing.T) {
	f := newFolder(t)
	f.random("q.npy", 1, 0, 4)
	f.random("k.npy", 2, 3, 4)
	f.random("v.npy", 3, 3, 4)
	status, stdout, stderr := f.run("-png", "@heat.png")
	checkRefusal(t, 1, status, stdout, stderr, "no weights of 0 queries and 3 keys")
	f.random("q.npy", 1, 2, 4)
	f.write("labels", []byte(strings.Repeat("long", 1<<16)))
	status, stdout, stderr = f.run("-png", "@heat.png", "-labels", "@labels")
	checkRefusal(t, 1, status, stdout, stderr, "token too long")
}

func TestMaskAndBiasRefused(t *testing.T) {
	f := newFolder(t)
	f.random("q.npy", 1, 2, 4)
	f.random("k.npy", 2, 3, 4)
	f.random("v.npy", 3, 3, 4)
	header := "{'descr': '|b1', 'fortran_order': False, 'shape': (2, 2), }\n"
	f.write("mask.npy", append([]byte("\x93NUMPY\x01\x00"+string(rune(len(header)))+"\x00"+header), 1,
		0, 1, 0))
	status, stdout, stderr := f.run("-mask", "@mask.npy")
	checkRefusal(t, 1, status, stdout, stderr, "mask.npy is (2, 2), want (1, 1, 2, 3)")
	status, stdout, stderr = f.run("-bias", "@none.npy")
	checkRefusal(t, 1, status, stdout, stderr, "no such file")
}

// The pictures of four heads make a square.
func TestHeatmapOfFourHeads(t *testing.T) {
	f := newFolder(t)
	for i, name := range []string{"q.npy", "k.npy", "v.npy"} {
		f.random(name, uint64(i), 4, 20, 4)
	}
	f.mustRun("-png", "@heat.png", "-png-heads", "0,1,2,3")
	if b := f.picture("heat.png"); b.Dx() > 2*b.Dy() {
		t.Errorf("the picture is %v", b)
	}
}

// If the second file cannot be moved into place, the first one is as it was.
func TestOutputsTogether(t *testing.T) {
	for _, existed := range []bool{false, true} {
		f := newFolder(t)
		if existed {
			f.write("out.npy", []byte("old"))
		}
		var o outputs
		for _, name := range []string{"out.npy", "lse.npy"} {
			if err := o.add(f.path(name), writeBytes([]byte("new"))); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Mkdir(f.path("lse.npy"), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := o.commit(); err == nil {
			t.Error("no error")
		}
		o.discard()
		want := []string{"lse.npy"}
		if existed {
			want = append(want, "out.npy")
			if b, _ := os.ReadFile(f.path("out.npy")); string(b) != "old" {
				t.Errorf("out.npy holds %q, want what was there", b)
			}
		}
		if names := f.names(); !slices.Equal(names, want) {
			t.Errorf("files are %v, want %v", names, want)
		}
	}
}

// What cannot be printed is an error, but what was measured is drawn all the same.
func TestFullDisk(t *testing.T) {
	var stderr strings.Builder
	for _, args := range []string{"info", "demo", "version", "help", "help run", "run -h", "-h",
		"measure -name"} {
		stderr.Reset()
		if status := realMain(strings.Fields(args), fullDisk{}, &stderr); status != 1 ||
			!strings.Contains(stderr.String(), "no space") {
			t.Errorf("%s: status %d, stderr %q", args, status, stderr.String())
		}
	}
}

func TestFullDiskAndPicture(t *testing.T) {
	f := newFolder(t)
	b := &benchmark{measure.Benchmark{Reports: []measure.Report{{
		Results: []measure.Result{{Case: "bert", Percent: 10}}}}}}
	for _, flags := range []benchFlags{{json: true}, {goFormat: true}, {}} {
		os.Remove(f.path("b.png"))
		flags.png = f.path("b.png")
		flags.print(b, fullDisk{})
		f.picture("b.png")
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left") }

// Queries are labelled with the tokens at their positions, where these are known.
func TestPositionsOfLabels(t *testing.T) {
	for _, c := range []struct {
		flags runFlags
		want  int
	}{
		{runFlags{causal: "none"}, nowhere}, // 5 queries, 6 keys
		{runFlags{causal: "topleft"}, 0},
		{runFlags{causal: "bottomright"}, 1},
		{runFlags{causal: "none", offset: 1, given: map[string]bool{"offset": true}}, 1},
	} {
		f := newFolder(t)
		c.flags.png = f.path("heat.png")
		if got := f.prepared(c.flags).heat.at; got != c.want {
			t.Errorf("-causal %s -offset %d: the first query is at %d, want %d", c.flags.causal,
				c.flags.offset, got, c.want)
		}
	}
}
