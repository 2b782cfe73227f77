package main

import (
	"math"
	"strings"
	"testing"
)

// TestPaper computes a row by hand.
func TestPaper(t *testing.T) {
	p := &paperModel
	if got, want := p.alone(), 128*math.Exp2(30)/200e9; math.Abs(got/want-1) > 1e-9 {
		t.Errorf("a token takes %v s on one machine, want %v", got, want)
	}
	sent, received := p.traffic(4)
	if sent != 4*32*128*4 || received != 64*32*130*4 {
		t.Errorf("a layer sends %v bytes and receives %v, want 65536 and 1064960", sent, received)
	}
	want := 32 * (200e-6 + 1064960/1.25e9 + math.Exp2(32)/200e9/4)
	if got := p.spread(4, 1.25e9); math.Abs(got/want-1) > 1e-9 {
		t.Errorf("a token takes %v s on 4 machines, want %v", got, want)
	}
	status, stdout, _ := call(t, "bench", "-paper")
	if status != 0 || strings.Count(stdout, "\n| ") != 16 ||
		!strings.Contains(stdout, "\n| 64 | 2.0 |") {
		t.Errorf("status %d:\n%s", status, stdout)
	}
}
