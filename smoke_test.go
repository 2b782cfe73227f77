package attn

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestSmoke(t *testing.T) {
	for _, c := range []struct{ h, kv, lq, lk, d, dv int; causal Causal }{{2, 1, 77, 77, 40, 24, BottomRight}, {1, 1, 3, 1500, 64, 64, Full}, {4, 2, 130, 150, 16, 16, TopLeft}, {4, 4, 1, 1500, 16, 16, Full}} {
		f := func(n int) []float32 {
			x := make([]float32, n)
			for i := range x {
				x[i] = float32(rand.NormFloat64())
			}
			return x
		}
		q, k, v := f(c.h*c.lq*c.d), f(c.kv*c.lk*c.d), f(c.kv*c.lk*c.dv)
		dst := make([]float32, c.h*c.lq*c.dv)
		if err := Attend(BHLD(dst, 1, c.h, c.lq, c.dv), BHLD(q, 1, c.h, c.lq, c.d), BHLD(k, 1, c.kv, c.lk, c.d), BHLD(v, 1, c.kv, c.lk, c.dv), &Options{Causal: c.causal}); err != nil {
			t.Fatal(err)
		}
		worst := 0.0
		for h := range c.h {
			for i := range c.lq {
				off := 0
				if c.causal == BottomRight {
					off = c.lk - c.lq
				}
				p := make([]float64, c.lk)
				m := math.Inf(-1)
				for j := range c.lk {
					if c.causal != Full && j > i+off {
						p[j] = math.Inf(-1)
						continue
					}
					s := 0.0
					for x := range c.d {
						s += float64(q[(h*c.lq+i)*c.d+x]) * float64(k[(h/(c.h/c.kv)*c.lk+j)*c.d+x])
					}
					p[j] = s / math.Sqrt(float64(c.d))
					m = max(m, p[j])
				}
				l := 0.0
				for j := range p {
					p[j] = math.Exp(p[j] - m)
					l += p[j]
				}
				for x := range c.dv {
					o := 0.0
					for j := range p {
						o += p[j] / l * float64(v[(h/(c.h/c.kv)*c.lk+j)*c.dv+x])
					}
					worst = max(worst, math.Abs(o-float64(dst[(h*c.lq+i)*c.dv+x])))
				}
			}
		}
		t.Log(c, worst)
		if worst > 1e-5 {
			t.Error("off")
		}
	}
}
