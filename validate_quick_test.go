package attn

import (
	"math"
	"testing"
)

// Calls that the quick validation accepts pass the thorough one, and give the same plan.
func TestQuickValidIsValid(t *testing.T) {
	r := random(t.Name())
	buffer := make([]float32, 4096)
	view := func(b, h, l, d int) Tensor {
		v := BHLD(buffer[r.IntN(len(buffer)):], b, h, l, d)
		if r.IntN(2) == 0 {
			v = BLHD(v.Data, b, l, h, d)
		}
		for _, stride := range []*int{&v.SB, &v.SH, &v.SL} {
			switch r.IntN(12) {
			case 0:
				*stride = r.IntN(300) - 5
			case 1:
				*stride += r.IntN(3) - 1
			}
		}
		return v
	}
	var accepted int
	for range 200_000 {
		b, kvh, h, lq, lk, d, dv := 1+r.IntN(3), 1+r.IntN(2), 1+r.IntN(4), 1+r.IntN(4), 1+r.IntN(4), 1+r.IntN(9), 1+r.IntN(9)
		wrong := func(n int) int { // now and then
			if r.IntN(40) == 0 {
				return r.IntN(5)
			}
			return n
		}
		q, dst := view(b, h, lq, d), view(b, wrong(h), wrong(lq), wrong(dv))
		k, v := view(wrong(b), kvh, lk, wrong(d)), view(b, wrong(kvh), wrong(lk), dv)
		p := newPlan(dst, q, k, v, nil)
		if !p.quickValid(nil) {
			continue
		}
		accepted++
		thorough := newPlan(dst, q, k, v, nil)
		err := thorough.initKeys()
		if err == nil {
			err = thorough.initCall(k.B, nil)
		}
		if err != nil {
			t.Fatalf("dst %+v, q %+v, k %+v, v %+v: %v", dst, q, k, v, err)
		}
		if err := p.init(nil); err != nil || p.batch != thorough.batch || p.heads != thorough.heads || p.kvHeads != thorough.kvHeads ||
			p.group != thorough.group || p.lq != thorough.lq || p.lk != thorough.lk || p.d != thorough.d || p.dv != thorough.dv ||
			p.scale != thorough.scale || p.left != thorough.left || p.right != thorough.right {
			t.Fatalf("error %v, plan %+v, want %+v", err, p, thorough)
		}
	}
	if accepted < 1000 && math.MaxInt > math.MaxInt32 { // with 32 bits none is accepted
		t.Errorf("only %d calls were accepted quickly", accepted)
	}
}
