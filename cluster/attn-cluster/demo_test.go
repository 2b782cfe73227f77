package main

import (
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seed-1415985d/attn"
)

// TestDemo is a small one, where lines are written and where they are drawn.
func TestDemo(t *testing.T) {
	before := isTerminal
	defer func() { isTerminal = before }()
	for _, live := range []bool{false, true} {
		isTerminal = func(io.Writer) bool { return live }
		status, stdout, stderr := call(t, "demo", "-tokens", "16384", "-steps", "6")
		for _, want := range []string{"F32: 16384 tokens", "I8 with Integers: 16384 tokens",
			" was killed.\n", " is back, without", "Checked: 12 decoded tokens",
			"6 tokens with the bits of one machine"} {
			if status != 0 || stderr != "" || !strings.Contains(stdout, want) {
				t.Errorf("live %v: status %d, stderr %q, no %q in\n%s", live, status, stderr, want, stdout)
			}
		}
		if got := strings.Contains(stdout, "\x1b["); got != live {
			t.Errorf("live %v: escapes are %v", live, got)
		}
		if !live {
			checkTokens(t, stdout, 2*2*16384)
		}
	}
}

// checkTokens compares what all workers are said to keep, in all tables of an output.
func checkTokens(t *testing.T, output string, want int) {
	t.Helper()
	sum := 0
	for _, x := range regexp.MustCompile(` (\d+) tokens .* calls`).FindAllStringSubmatch(output, -1) {
		n, err := strconv.Atoi(x[1])
		must(t, err)
		sum += n
	}
	if sum != want {
		t.Errorf("workers keep %d tokens, want %d:\n%s", sum, want, output)
	}
}

// TestWrongBits makes sure that a demo can fail: one of the two has another value.
func TestWrongBits(t *testing.T) {
	l, err := startLocal(t.Context(), localConfig{workers: 1, memory: 1 << 20, threads: 1})
	must(t, err)
	defer l.close()
	x, err := newTwin(l, shape{layers: 1, heads: 2, kvHeads: 1, dim: 8}, 100, 1)
	must(t, err)
	defer x.close()
	must(t, x.append(t.Context(), 0, 10))
	if _, err := x.attend(t.Context(), 0, 2); err != nil {
		t.Fatal(err)
	}
	must(t, x.near[0].Append(x.tensor(1, 1), x.tensor(1, 1)))
	one := attn.BHLD(make([]float32, 8), 1, 1, 1, 8)
	must(t, x.far.Append(t.Context(), 0, one, one))
	if _, err := x.attend(t.Context(), 0, 1); err == nil || !strings.HasPrefix(err.Error(),
		"wrong bits: output 0 is ") {
		t.Errorf("the error is %v, want wrong bits", err)
	}
}

func TestRound(t *testing.T) {
	for d, want := range map[time.Duration]time.Duration{1234567: 1230000, 12345678: 12300000,
		987: 1000, 23456: 23500, 15 * time.Second: 15 * time.Second} {
		if got := round(d); got != want {
			t.Errorf("round(%v) is %v, want %v", d, got, want)
		}
	}
}

// TestSegments divides sequences into about 16 parts, of at most 16 segments.
func TestSegments(t *testing.T) {
	for tokens, want := range map[int]int{100: 1, 16 << 10: 1, 32 << 10: 2, 256 << 10: 16,
		1 << 20: 16} {
		if got := segments(tokens); got != want {
			t.Errorf("a part of %d tokens has %d segments, want %d", tokens, got, want)
		}
	}
}
