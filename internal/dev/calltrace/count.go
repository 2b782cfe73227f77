package main

import (
	"fmt"
	"strings"

	"github.com/seed-1415985d/attn/internal/dev/calltrace/record"
)

// trace is what was counted of a call.
type trace struct {
	// of functions; of file, from one function to the next that is called
	calls, changes int
	functions      map[string]int  // how often each was called
	files          map[string]bool // whose functions were called
	ways           map[string]bool // from a function to one of another file that is called next
}

func count(calls []int) trace {
	t := trace{len(calls), 0, map[string]int{}, map[string]bool{}, map[string]bool{}}
	last := record.Functions[calls[0]]
	for _, call := range calls {
		function := record.Functions[call]
		t.functions[function]++
		t.files[fileOf(function)] = true
		if fileOf(function) != fileOf(last) {
			t.changes++
			t.ways[last+" to "+function] = true
		}
		last = function
	}
	return t
}

func fileOf(function string) string {
	file, _, _ := strings.Cut(function, " ")
	return file
}

func (t trace) String() string {
	return fmt.Sprintf("%9d %6d %6d %8d %9d", len(t.functions), len(t.files), len(t.ways), t.changes,
		t.calls)
}
