package main

import (
	"flag"
	"github.com/klauspost/cpuid/v2"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/seed-1415985d/attn"
)

var update = flag.Bool("update", false, "write testdata/demo.golden")

// The demo's numbers are the same on every machine, so its whole text is.
func TestDemo(t *testing.T) {
	status, stdout, stderr := call("demo")
	if status != 0 || stderr != "" {
		t.Fatalf("status %d, stderr %q", status, stderr)
	}
	golden := filepath.Join("testdata", "demo.golden")
	if *update {
		if err := os.WriteFile(golden, []byte(stdout), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Split(stdout, "\n"), strings.Split(string(want),
		"\n"); len(got) != len(want) {
		t.Errorf("%d lines, want %d", len(got), len(want))
	} else {
		for i := range got {
			if got[i] != want[i] {
				t.Errorf("line %d is\n%s, want\n%s", i+1, got[i], want[i])
			}
		}
	}
}

// A wrong number, a wrong bit and an error of the package all fail the demo.
func TestDemoFails(t *testing.T) {
	nan := float32(math.NaN())
	for name, wrong := range map[string]func(*demo){
		"number":  func(d *demo) { d.compare([]float32{1}, []float64{1.00001}, 1) },
		"NaN":     func(d *demo) { d.compare([]float32{nan}, []float64{1}, 1) },
		"bit":     func(d *demo) { d.same("", []float32{0}, []float32{float32(math.Copysign(0, -1))}) },
		"length":  func(d *demo) { d.same("", []float32{0}, nil) },
		"nothing": func(d *demo) { d.right = 0 },
		"error":   func(d *demo) { d.attend(attn.Tensor{}, attn.Tensor{}, attn.Tensor{}, nil) },
	} {
		d := demo{w: &strings.Builder{}, right: 7}
		if wrong(&d); d.finish() == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestInfo(t *testing.T) {
	status, stdout, stderr := call("info")
	if status != 0 || stderr != "" {
		t.Fatalf("status %d, stderr %q", status, stderr)
	}
	for _, want := range []string{"CPU ", "caches ", "implementation  " + attn.Implementation() + "\n",
		"why "} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
	for line := range strings.Lines(stdout) {
		if utf8.RuneCountInString(line) > 101 {
			t.Errorf("want at most 100 columns: %s", line)
		}
	}
}

// A value of many words goes on below where it begins.
func TestPrintFact(t *testing.T) {
	var out strings.Builder
	printFact(&out, "tiles", tiles(true, "AMX-INT8"))
	const want = "tiles           TDPBSSD for scores and matrices in I8 of many rows, TDPBUSD " +
		"for values," +
		" TDPBSUD for\n                matrices of blocks: AMX-INT8\n"
	if out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

func TestBFloat16(t *testing.T) {
	if got, want := bfloat16(true, "AMX-BF16"), "TDPBF16PS for many rows: AMX-BF16"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	const want = "multiply-adds in float32, without tiles: ATTN_AMX=off"
	if got := bfloat16(false, "ATTN_AMX=off"); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestWhy(t *testing.T) {
	t.Setenv("ATTN_ISA", "generic")
	if got := why("generic", runtime.GOARCH); !strings.Contains(got, "ATTN_ISA=generic") {
		t.Error(got)
	}
	t.Setenv("ATTN_ISA", "")
	if pureGo {
		return // which is the reason for everything
	}
	for _, c := range []struct{ implementation, arch, want string }{
		{"avx512", "amd64", "the best"},
		{"avx2", "amd64", "the best"},
		{"generic", "riscv64", "no assembly for riscv64"},
		{"generic", "arm64", "lacks ASIMD"},
	} {
		if c.arch == runtime.GOARCH && c.implementation == "generic" {
			continue // what is missing is there
		}
		if got := why(c.implementation, c.arch); !strings.Contains(got, c.want) {
			t.Errorf("%s on %s: %s", c.implementation, c.arch, got)
		}
	}
	if got := lacking([]feature{{"AVX2", true, ""}, {"FMA3", true, ""}},
		"amd64"); !strings.Contains(got, "this build") {
		t.Error(got)
	}
}

// A CPU of which nothing is known has a description as well.
func TestUnknownCPU(t *testing.T) {
	if got := cores(&cpuid.CPUInfo{}); !strings.HasSuffix(got, " usable") {
		t.Errorf("cores are %q", got)
	}
	for f, want := range map[feature]string{{"X", true, "for x"}: "present: for x",
		{"X", false, "for x"}: "missing: for x"} {
		if got := f.state(); got != want {
			t.Errorf("%+v is %q, want %q", f, got, want)
		}
	}
	if got := caches(&cpuid.CPUInfo{}); got != "unknown" {
		t.Errorf("caches are %q", got)
	}
}

func TestCommands(t *testing.T) {
	for _, c := range []struct {
		args           []string
		status         int
		stdout, stderr string
	}{
		{nil, 2, "", "attn demo"},
		{[]string{"-h"}, 0, "attn demo", ""},
		{[]string{"help"}, 0, "attn demo", ""},
		{[]string{"fly"}, 2, "", `unknown command "fly"`},
		{[]string{"run", "-h"}, 0, "-causal alignment", ""},
		{[]string{"info", "-h"}, 0, "attn info", ""},
		{[]string{"demo", "-h"}, 0, "attn demo", ""},
		{[]string{"demo", "x"}, 2, "", "unexpected argument"},
		{[]string{"info", "-x"}, 2, "", "attn info: flag provided but not defined: -x"},
		{[]string{"run", "-out", "x.npy"}, 2, "", "not defined: -out: is -o meant?\n"},
		{[]string{"run", "-thread", "2"}, 2, "", "not defined: -thread: is -threads meant?\n"},
		{[]string{"bench", "-th=2"}, 2, "", "not defined: -th: is -threads meant?\n"},
		{[]string{"run"}, 2, "", "-q is missing"},
		{[]string{"help", "help"}, 0, "attn demo", ""},
		{[]string{"help", "run"}, 0, "-causal alignment", ""},
		{[]string{"help", "fly"}, 2, "", `attn help: unknown command "fly"`},
		{[]string{"help", "run", "-o"}, 2, "", `attn help: unexpected argument "-o"`},
		{[]string{"version", "x"}, 2, "", `attn version: unexpected argument "x"`},
		{[]string{"--version"}, 0, runtime.Version(), ""},
	} {
		status, stdout, stderr := call(c.args...)
		if status != c.status || !strings.Contains(stdout, c.stdout) ||
			!strings.Contains(stderr, c.stderr) ||
			c.stdout == "" && stdout != "" || c.stderr == "" && stderr != "" {
			t.Errorf("%v: status %d, stdout %q, stderr %q", c.args, status, stdout, stderr)
		}
	}
}

// The text of help is the text of -h, for every command.
func TestHelp(t *testing.T) {
	for name := range program().Commands {
		_, want, _ := call(name, "-h")
		status, got, stderr := call("help", name)
		if status != 0 || stderr != "" || got != want || !strings.HasPrefix(got, "attn "+name) {
			t.Errorf("attn help %s: status %d, stdout %q, stderr %q, want %q", name, status, got, stderr,
				want)
		}
		for line := range strings.Lines(got) {
			line = strings.ReplaceAll(strings.TrimSuffix(line, "\n"), "    \t", "        ")
			if n := utf8.RuneCountInString(line); n > 100 {
				t.Errorf("attn help %s has a line of %d columns:\n%s", name, n, line)
			}
		}
	}
}

// attn version says all that a report of a fault needs.
func TestVersion(t *testing.T) {
	status, stdout, stderr := call("version")
	for _, want := range []string{"command ", "package ", "revision ", runtime.Version(),
		attn.Implementation()} {
		if status != 0 || stderr != "" || !strings.Contains(stdout, want) {
			t.Errorf("status %d, stderr %q, no %q in\n%s", status, stderr, want, stdout)
		}
	}
}

// An implementation that is not there is a panic that says so, for the program as it is installed,
// as is a value of ATTN_VNNI that is not known; off is told.
func TestWrongImplementation(t *testing.T) {
	program := filepath.Join(t.TempDir(), "attn.exe")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	run := func(setting, command string) (status int, stdout, stderr string) {
		var out, errs strings.Builder
		child := exec.Command(program, command)
		child.Env = append(os.Environ(), setting)
		child.Stdout, child.Stderr = &out, &errs
		child.Run()
		return child.ProcessState.ExitCode(), out.String(), errs.String()
	}
	foreign := "neon"
	if runtime.GOARCH == "arm64" {
		foreign = "avx2"
	}
	for _, name := range []string{"wrong", foreign} {
		want := "panic: attn: ATTN_ISA=" + name + " is not available here, want one of ["
		if status, stdout, stderr := run("ATTN_ISA="+name, "info"); status != 2 || stdout != "" ||
			!strings.HasPrefix(stderr, want) {
			t.Errorf("ATTN_ISA=%s: status %d, stdout %q, stderr %q", name, status, stdout, stderr)
		}
	}
	if status, stdout, stderr := run("ATTN_ISA=generic", "info"); status != 0 ||
		!strings.Contains(stdout, "implementation  generic\n") {
		t.Errorf("ATTN_ISA=generic attn info: status %d, stdout %q, stderr %q", status, stdout, stderr)
	}
	const unknown = "panic: attn: ATTN_VNNI=on is not known, want off or nothing"
	if status, stdout, stderr := run("ATTN_VNNI=on", "info"); status != 2 || stdout != "" ||
		!strings.HasPrefix(stderr, unknown) {
		t.Errorf("ATTN_VNNI=on: status %d, stdout %q, stderr %q", status, stdout, stderr)
	}
	status, stdout, stderr := run("ATTN_VNNI=off", "info")
	off := strings.Contains(stdout, "integers        VPMADDUBSW and VPMADDWD: ATTN_VNNI=off\n")
	if here := attn.Implementation(); status != 0 || off != strings.HasPrefix(here, "avx") {
		t.Errorf("ATTN_VNNI=off: status %d, stdout %q, stderr %q", status, stdout, stderr)
	}
}

// Packages that the command does not need would be most of the time to compile the demo.
func TestDependencies(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for path := range strings.Lines(string(out)) {
		path = strings.TrimSpace(path)
		if path == "net" || path == "crypto/tls" || strings.HasPrefix(path, "gonum.org/v1/gonum/") {
			t.Errorf("the command depends on %s", path)
		}
	}
}

// The slopes of the published code for 8 heads, and for 12, which is no power of two.
func TestALiBiSlopes(t *testing.T) {
	for i, s := range alibiSlopes(8) {
		if want := float32(math.Exp2(float64(-i - 1))); s != want {
			t.Errorf("8 heads, slope %d is %v, want %v", i, s, want)
		}
	}
	want := []float64{1, 2, 3, 4, 5, 6, 7, 8, 0.5, 1.5, 2.5, 3.5}
	for i, s := range alibiSlopes(12) {
		if e := float32(math.Exp2(-want[i])); s != e {
			t.Errorf("12 heads, slope %d is %v, want %v", i, s, e)
		}
	}
}

// Every implementation has something that multiplies integers, and assembly no Go code on x86-64,
// which says why.
func TestIntegers(t *testing.T) {
	for _, c := range []struct {
		name string
		used bool
		want string
	}{
		{"avx512", true, "VPDPBUSD for scores and matrices, VPDPWSSD for values: reason"},
		{"avx2", true, "VPDPBUSD for scores and matrices, VPDPWSSD for values: reason"},
		{"avx512", false, "VPMADDUBSW and VPMADDWD: reason"},
		{"avx2", false, "VPMADDUBSW and VPMADDWD: reason"},
		{"neon", true, "SDOT"},
		{"neon", false, "Go code; same results, less speed"},
		{"generic", false, "Go code; same results, less speed"},
	} {
		if got := integers(c.name, c.used, "reason"); got != c.want {
			t.Errorf("%s, %t: %q, want %q", c.name, c.used, got, c.want)
		}
	}
}

// What is said of tiles says why, whether they are used or not.
func TestTiles(t *testing.T) {
	got := tiles(true, "reason")
	if !strings.Contains(got, "TDPBSSD") || !strings.HasSuffix(got, "reason") {
		t.Errorf("used: %q", got)
	}
	if got := tiles(false, "reason"); got != "not used: reason" {
		t.Errorf("not used: %q", got)
	}
}
