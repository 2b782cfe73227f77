package attn

import "testing"

// The scratch of a worker fits the L2 cache, whatever the lengths.
func TestScratchFitsTheCache(t *testing.T) {
	for _, cache := range []int{512 << 10, 1 << 20, 2 << 20} {
		row := tuned.withCaches(0, cache)
		useTuning(t, row)
		for _, d := range []int{32, 64, 80, 128, 256} {
			for _, l := range []int{1 << 10, 1 << 16} {
				dst, x := BHLD(make([]float32, l*d), 1, 1, l, d), BHLD(make([]float32, l*d), 1, 1, l, d)
				p := newPlan(dst, x, x, x, nil)
				must(t, p.init(nil))
				p.decide(&tuned, 1)
				var w scratch
				w.fit(&p)
				got := 0
				for _, s := range [][]float32{w.q, w.total.m, w.total.l, w.total.o, w.part.m, w.part.l, w.part.o, w.alpha, w.beta, w.s, w.k, w.v} {
					got += 4 * cap(s)
				}
				if got > row.scratchBytes() || got < row.scratchBytes()*3/4 && l > 1<<10 {
					t.Errorf("cache %d, dimension %d, length %d: scratch of %d bytes", cache, d, l, got)
				}
			}
		}
	}
}
