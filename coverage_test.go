package attn

import (
	"errors"
	"runtime"
	"testing"
)

// A pool of 0 workers has as many as the program may use at the same time.
func TestPoolOfAllProcessors(t *testing.T) {
	p := NewPool(0)
	defer p.Close()
	if want := runtime.GOMAXPROCS(0); p.size != want {
		t.Errorf("NewPool(0) has %d workers, want GOMAXPROCS = %d", p.size, want)
	}
}

// A window bounds what a call costs, whatever the number of keys.
func TestCostOfWindow(t *testing.T) {
	p := newProblem(random("cost"), normal, shape{1, 1, 1, 8, 4096, 8, 8})
	cost := func(w *Window) float64 {
		opt := Options{Window: w}
		dst, _, _ := p.results()
		call := newPlan(dst, p.q, p.k, p.v, &opt)
		if err := call.init(&opt); err != nil {
			t.Fatal(err)
		}
		return call.cost(&tuned)
	}
	all, few := cost(nil), cost(&Window{Left: 31, Right: 0})
	if want := all * 32 / 4096; few != want {
		t.Errorf("32 of 4096 keys cost %v ns, want %v", few, want)
	}
	if half := cost(&Window{Left: 31, Right: -1}); half != all {
		t.Errorf("a window without a right end costs %v ns, want %v", half, all)
	}
}

// Products without elements have nothing to write, but wrong strides are found
// all the same.
func TestMatMulOfNothing(t *testing.T) {
	none := BHLD([]float32{}, 1, 1, 0, 4)
	b := BHLD(make([]float32, 4*4), 1, 1, 4, 4)
	if err := MatMul(none, none, b); err != nil {
		t.Errorf("no rows: %v", err)
	}
	wrong := none
	wrong.SL = -1
	if err := MatMul(none, wrong, b); !errors.Is(err, ErrStride) {
		t.Errorf("a negative stride of a: %v, want ErrStride", err)
	}
	if err := MatMul(wrong, none, b); !errors.Is(err, ErrStride) {
		t.Errorf("a negative stride of dst: %v, want ErrStride", err)
	}
}
