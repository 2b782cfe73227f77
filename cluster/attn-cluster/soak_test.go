package main

import (
	"strings"
	"testing"
)

func TestSoak(t *testing.T) {
	for _, duration := range []string{"8s", "1m"} { // the longer one where the machine has much to do
		status, stdout, stderr := call(t, "soak", "-for", duration, "-round", "3s", "-seed", "3")
		if status != 0 || stderr != "" || !strings.Contains(stdout, "Passed: ") ||
			!strings.Contains(stdout, "no token was lost") {
			t.Fatalf("status %d, stderr %q:\n%s", status, stderr, stdout)
		}
		if !strings.Contains(stdout, "\n0 kills, 0 leaves, 0 stalls") {
			return
		}
	}
	t.Error("nothing was disturbed")
}

// TestLeaksAreSeen makes sure that a soak can fail.
func TestLeaksAreSeen(t *testing.T) {
	before := footprint{10, 10, 1 << 20, 2 << 20, 3 << 20}
	must(t, before.check(&footprint{30, 30, 9 << 20, 34 << 20, 35 << 20}))
	for want, after := range map[string]footprint{
		"goroutines: 10 ":               {31, 10, 0, 0, 0},
		"goroutines of worker w1: 10 ":  {10, 31, 0, 0, 0},
		"bytes of the heap: 1048576 ":   {10, 10, 9<<20 + 1, 0, 0},
		"bytes of the client: 2097152 ": {10, 10, 0, 34<<20 + 1, 0},
		"bytes of worker w1: 3145728 ":  {10, 10, 0, 0, 35<<20 + 1},
	} {
		if err := before.check(&after); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("the error is %v, want %q", err, want)
		}
	}
}

func TestBench(t *testing.T) {
	status, stdout, stderr := call(t, "bench", "-tokens", "2048", "-workers", "1,2", "-n", "5")
	if status != 0 || stderr != "" || strings.Count(stdout, "\n| 2048 | ") != 2 {
		t.Errorf("status %d, stderr %q:\n%s", status, stderr, stdout)
	}
	status, stdout, stderr = call(t, "bench", "-tokens", "1024", "-workers", "2", "-n", "3", "-batch",
		"4")
	if status != 0 || stderr != "" || strings.Count(stdout, "\n| 1024 | 2 | ") != 1 {
		t.Errorf("status %d, stderr %q:\n%s", status, stderr, stdout)
	}
	status, stdout, stderr = call(t, "bench", "-append", "-tokens", "1024", "-n", "2")
	if status != 0 || strings.Count(stdout, "\n| 1024 |") != 10 {
		t.Errorf("appends: status %d\n%s%s", status, stdout, stderr)
	}
	if status, _, stderr := call(t, "bench", "-batch", "0"); status != 2 ||
		!strings.Contains(stderr, "-batch") {
		t.Errorf("status %d, stderr %q, want that -batch is 0", status, stderr)
	}
}

// TestScrapeFails is of a worker without metrics.
func TestScrapeFails(t *testing.T) {
	if _, err := scrape(&child{}); err == nil {
		t.Error("no error without an address")
	}
}
