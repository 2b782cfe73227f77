package main

import (
	"flag"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/cpuid/v2"
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
	if got, want := strings.Split(stdout, "\n"), strings.Split(string(want), "\n"); len(got) != len(want) {
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
	for _, want := range []string{"CPU ", "caches ", "implementation  " + attn.Implementation() + "\n", "why "} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
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
	if got := lacking([]feature{{"AVX2", true, ""}, {"FMA3", true, ""}}, "amd64"); !strings.Contains(got, "this build") {
		t.Error(got)
	}
}

// A CPU of which nothing is known has a description as well.
func TestUnknownCPU(t *testing.T) {
	if got := cores(&cpuid.CPUInfo{}); !strings.HasSuffix(got, " usable") {
		t.Errorf("cores are %q", got)
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
		{[]string{"run", "-h"}, 0, "-causal where", ""},
		{[]string{"info", "-h"}, 0, "attn info", ""},
		{[]string{"demo", "-h"}, 0, "attn demo", ""},
		{[]string{"demo", "x"}, 2, "", "unexpected argument"},
		{[]string{"info", "-x"}, 2, "", "attn info: flag provided but not defined: -x"},
		{[]string{"run"}, 2, "", "-q is missing"},
	} {
		status, stdout, stderr := call(c.args...)
		if status != c.status || !strings.Contains(stdout, c.stdout) || !strings.Contains(stderr, c.stderr) ||
			c.stdout == "" && stdout != "" || c.stderr == "" && stderr != "" {
			t.Errorf("%v: status %d, stdout %q, stderr %q", c.args, status, stdout, stderr)
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
