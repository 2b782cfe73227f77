package main

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/seed-1415985d/attn"
)

// TestSteps takes numbers of tokens through a model, and begins anew.
func TestSteps(t *testing.T) {
	m, s := tinyModel(t, attn.F32, 1), settings{workers: 1, context: 70}
	var out bytes.Buffer
	err := steps(strings.NewReader("5\n1\n0\n5\n1\n64\n1\n"), &out, m, s)
	const beyond = `a line says "1", want a number of tokens, at most the 0 that the -context of 70`
	if err == nil || !strings.Contains(err.Error(), beyond) {
		t.Errorf("beyond the context: %v", err)
	}
	var logits []string
	for line := range strings.Lines(out.String()) {
		if _, after, ok := strings.Cut(line, " "); ok {
			logits = append(logits, after)
		}
	}
	if len(logits) != 5 || logits[0] != logits[2] || logits[1] != logits[3] ||
		logits[0] == logits[1] || len(strings.Fields(logits[0])) != stepLogits {
		t.Errorf("logits are %q, want those of the beginning twice", logits)
	}
	for _, line := range []string{"-1", "x", "71"} {
		if err := steps(strings.NewReader(line), io.Discard, m, s); err == nil ||
			!strings.Contains(err.Error(), "want a number of tokens") {
			t.Errorf("%q is %v", line, err)
		}
	}
	for _, args := range [][]string{{"-steps", "abc"}, {"-steps", "-prove"}} {
		if err := run(args, io.Discard, io.Discard); err == nil ||
			!strings.Contains(err.Error(), "-steps wants no prompts") {
			t.Errorf("%v is %v", args, err)
		}
	}
}
