package main

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/seed-1415985d/attn"
)

// The absorbed form over one vector a token is the expanded one over keys and values of each head.
func TestAbsorbedIsExpanded(t *testing.T) {
	for name, s := range map[string]sizes{
		"small":        {dim: 20, heads: 3, latent: 12, rotary: 4, plain: 6, value: 5},
		"one head":     {dim: 16, heads: 1, latent: 16, rotary: 8, plain: 8, value: 8},
		"many heads":   {dim: 32, heads: 16, latent: 48, rotary: 16, plain: 32, value: 32},
		"as in models": {dim: 64, heads: 2, latent: 512, rotary: 64, plain: 128, value: 128},
	} {
		l := newLayer(s, 7)
		x := normal(8, 70*s.dim)
		want := l.expanded(x)
		for format, limit := range map[attn.Format]float64{attn.F32: 2e-6, attn.F16: 2e-3,
			attn.BF16: 1e-2, attn.I8: 3e-2} {
			d, err := l.decoder(format, 70)
			if err != nil {
				t.Fatal(err)
			}
			prompt, err := d.forward(x[:50*s.dim])
			if err != nil {
				t.Fatal(err)
			}
			rest, err := d.decode(x[50*s.dim:])
			if err != nil {
				t.Fatal(err)
			}
			if got := difference(append(prompt, rest...), want); !(got < limit) {
				t.Errorf("%s, %v: outputs differ by %g, want less than %g", name, format, got, limit)
			}
		}
	}
}

// Prompts in pieces have the bits of token by token.
func TestPiecesDoNotMatter(t *testing.T) {
	l := newLayer(sizes{dim: 24, heads: 5, latent: 20, rotary: 6, plain: 10, value: 8}, 3)
	x := normal(4, 90*l.dim)
	var want []float32
	for _, piece := range []int{1, 7, 90} {
		d, err := l.decoder(attn.I8, 90)
		if err != nil {
			t.Fatal(err)
		}
		d.integers = true
		var got []float32
		for at := 0; at < 90; at += piece {
			y, err := d.forward(x[at*l.dim : min(90, at+piece)*l.dim])
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, y...)
		}
		if want == nil {
			want = got
		}
		for i := range want {
			if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
				t.Fatalf("pieces of %d: output %d is %v, want %v", piece, i, got[i], want[i])
			}
		}
	}
}

func TestRun(t *testing.T) {
	var out bytes.Buffer
	if err := run(nil, &out); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(out.String(), "differ by"); lines != 4 {
		t.Errorf("%d comparisons, want 4:\n%s", lines, out.String())
	}
}

func TestErrors(t *testing.T) {
	l := newLayer(sizes{dim: 8, heads: 1, latent: 8, rotary: 2, plain: 4, value: 4}, 1)
	if _, err := l.decoder(9, 5); !errors.Is(err, attn.ErrOption) {
		t.Errorf("a format that does not exist: %v", err)
	}
	d, err := l.decoder(attn.F32, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.decode(normal(1, 2*l.dim)); !errors.Is(err, attn.ErrCapacity) {
		t.Errorf("two tokens in a cache of one: %v", err)
	}
}

// Flags change the layer; what it cannot be is an error of one line.
func TestCommand(t *testing.T) {
	small := []string{"-tokens", "3", "-dim", "8", "-heads", "2", "-rotary", "4", "-seed", "5"}
	for _, c := range []struct {
		args      []string
		code      int
		out, errs string
	}{
		{small, 0, "3 tokens, 2 heads, keys of 32 + 4 channels from a vector of 64 + 4:\n", ""},
		{[]string{"-h"}, 0, "Usage of latent [flags]:\n", ""},
		{[]string{"-heads", "0"}, 2, "", "latent: -heads is 0, want 1 to 65536\n"},
		{[]string{"-rotary", "3"}, 2, "", "latent: -rotary is 3, want an even number: channels turn in " +
			"pairs\n"},
		{[]string{"-dim", "65536", "-heads", "65536"}, 2, "", "latent: these sizes need 3.1e+11 " +
			"numbers, want at most 268435456\n"},
		{[]string{"-head", "2"}, 2, "", "latent: flag provided but not defined: -head: is " +
			"-heads meant?\n"},
		{[]string{"x"}, 2, "", "latent: unexpected argument \"x\"; -h lists the flags\n"},
	} {
		var out, errs strings.Builder
		if code := command(c.args, &out, &errs); code != c.code || errs.String() != c.errs ||
			!strings.HasPrefix(out.String(), c.out) || c.out == "" && out.Len() > 0 {
			t.Errorf("%v: exit code %d, printed %q and %q", c.args, code, out.String(), errs.String())
		}
	}
}
