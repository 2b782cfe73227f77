package attn

import (
	"errors"
	"strings"
	"testing"

	"github.com/seed-1415985d/attn/internal/inspect"
)

// What is shown of a call is the schedule that the call gets.
func TestInspectShowsTheScheduleOfACall(t *testing.T) {
	forEachTuning(t, func(t *testing.T) {
		for _, layout := range []string{"bhld", "blhd", "cache"} {
			x := newProblem(random("inspect"), normal, shape{1, 4, 2, 3, 200, 24, 40})
			k, v := x.k, x.v
			if layout == "blhd" {
				k, v = tokenMajor(k), tokenMajor(v)
			}
			p := newPlan(BHLD(make([]float32, 8*3*40), 1, 8, 3, 40), x.q, k, v, nil)
			must(t, p.init(nil))
			if layout == "cache" {
				p.packed = new(packedKV)
			}
			p.decide(&tuned, 2)
			shown, err := planOf(inspect.Call{B: 1, H: 8, KVH: 4, Lq: 3, Lk: 200, D: 24, Dv: 40,
				Layout: layout, Workers: 2})
			must(t, err)
			shown.decide(&tuned, 2)
			if shown.schedule != p.schedule {
				t.Errorf("%s: shown %v, the call has %v", layout, &shown.schedule, &p.schedule)
			}
			text := describe(&tuned, &shown)
			for _, line := range []string{"CPU ", "chunks ", "segments ", "tiles ", "keys ", "values ",
				"spans ", "steps ", "full blocks ", "reads ", "kernels "} {
				if !strings.Contains("\n"+text, "\n"+line) {
					t.Errorf("%s: %q lacks a line %q", layout, text, line)
				}
			}
		}
	})
}

func TestInspectRefusesWrongCalls(t *testing.T) {
	good := inspect.Call{B: 1, H: 8, KVH: 4, Lq: 3, Lk: 200, D: 24, Dv: 40, Layout: "bhld", Workers: 2}
	for name, c := range map[string]struct {
		change func(c *inspect.Call)
		want   error
		text   string
	}{
		"heads":   {func(c *inspect.Call) { c.KVH = 3 }, ErrShape, "KVH"},
		"no keys": {func(c *inspect.Call) { c.Lk = 0 }, ErrShape, "Lk"},
		"layout":  {func(c *inspect.Call) { c.Layout = "bshd" }, ErrOption, "layout"},
		"queries": {func(c *inspect.Call) {
			c.B, c.H, c.Lq = maxLength, maxLength, 1<<8
		}, ErrShape, "268435456×268435456×256×40"},
		"tokens": {func(c *inspect.Call) {
			c.KVH, c.H, c.Lk = 1<<20, 1<<20, maxLength
		}, ErrShape, "1048576×268435456×40"},
		"workers": {func(c *inspect.Call) { c.Workers = -1 }, ErrShape, "workers"},
	} {
		call := good
		c.change(&call)
		if _, err := inspect.Schedule(call); !errors.Is(err, c.want) ||
			!strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v, want %v that says %s", name, err, c.want, c.text)
		}
	}
}
