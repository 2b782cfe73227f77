package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/dev/calltrace/record"
)

func TestInstrumented(t *testing.T) {
	const text = `package attn

func stub(x *float32)

func first() { second[int](func() {}) }

func second[T any](f func()) {
	f()
}

func (p *plan) third() {}

func (v View[T]) fourth() int { return 4 }
`
	var functions []string
	got, err := instrumented("a.go", []byte(text), &functions)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"a.go View[T].fourth", "a.go *plan.third", "a.go second",
		"a.go first"}; !slices.Equal(functions, want) {
		t.Errorf("functions are %q, want %q", functions, want)
	}
	want := strings.NewReplacer(
		"first() {", "first() { calltraceEnter(3);", "f func()) {", "f func()) { calltraceEnter(2);",
		"third() {", "third() { calltraceEnter(1);", "int {", "int { calltraceEnter(0);").Replace(text)
	if string(got) != want {
		t.Errorf("instrumented:\n%s\nwant:\n%s", got, want)
	}
}

func TestCount(t *testing.T) {
	before := record.Functions
	defer func() { record.Functions = before }()
	record.Functions = []string{"a.go f", "a.go g", "b.go h"}
	record.Enter(1) // outside of what is recorded
	calls := record.Of(func() {
		for _, function := range []int{0, 1, 2, 2, 1, 2} {
			record.Enter(function)
		}
	})
	got := count(calls)
	if len(got.functions) != 3 || got.functions["b.go h"] != 3 || len(got.files) != 2 ||
		len(got.ways) != 2 || got.changes != 3 || got.calls != 6 {
		t.Errorf("%+v, want 3 functions, h 3 times, 2 files, 2 ways, 3 changes, 6 calls", got)
	}
}

// ways are the most functions and files that each call may go through, so that the way of a call
// stays as short as it is. A longer one needs a reason. When all was one package these were 80 in
// 20, 97 in 21, 89 in 19, 93 in 22, 94 in 19 and 112 in 24: what chooses a kernel of amd64 is a
// function more, in a file of its own.
var ways = []struct {
	call             string
	functions, files int
}{
	{"prefill", 82, 22},
	{"prefill, causal", 102, 23},
	{"decode, F32 cache", 98, 23},
	{"decode, I8 cache", 100, 31},
	{"decode, BLHD views", 98, 22},
	{"AttendSequences", 122, 29},
}

// TestRun compiles the package with instruments and traces the calls.
func TestRun(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the package again, and records each call of a function")
	}
	if attn.Implementation() == "generic" {
		t.Skip("the way through the generic kernels is another one")
	}
	var out strings.Builder
	if err := runInstrumented(&out, "-list"); err != nil {
		t.Fatal(err)
	}
	for _, w := range ways {
		_, line, found := strings.Cut(out.String(), fmt.Sprintf("\n%-38s", w.call))
		var functions, files int
		if n, _ := fmt.Sscan(line, &functions, &files); !found || n != 2 {
			t.Errorf("no line of %q", w.call)
		}
		if functions > w.functions || files > w.files {
			t.Errorf("%s goes through %d functions in %d files, want at most %d in %d",
				w.call, functions, files, w.functions, w.files)
		}
	}
	if n := strings.Count(out.String(), "  1 attention.go Attend\n"); n != 3 {
		t.Errorf("Attend is listed as called once %d times, want 3\n%s", n, &out)
	}
}
