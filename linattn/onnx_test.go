package linattn

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/kernel/kerneltest"
)

// operator is a call of ONNX's LinearAttention: inputs are packed [B, T, H·D], states
// [B, kv heads, KeyDim, ValueDim].
type operator struct {
	rule                            string
	batch, rows, qHeads, kvHeads    int
	keyDim, valueDim                int
	scale                           float32
	q, k, v, past, decay, beta      []float32 // nil where the rule does not use it
	decayOfChannels, betaOfAllHeads bool
}

var rules = map[string]Rule{"linear": Linear, "gated": Gated, "delta": Delta,
	"gated_delta": GatedDelta}

func (o *operator) String() string {
	return fmt.Sprintf("%s: [%d %d], %d and %d heads of %d and %d, scale %v, past %v, channels %v, %v",
		o.rule, o.batch, o.rows, o.qHeads, o.kvHeads, o.keyDim, o.valueDim, o.scale, o.past != nil,
		o.decayOfChannels, o.betaOfAllHeads)
}

// fill draws the inputs that the rule uses.
func (o *operator) fill(r *rand.Rand) {
	draw := func(n int, f func() float64) []float32 {
		x := make([]float32, o.batch*o.rows*n)
		for i := range x {
			x[i] = float32(f())
		}
		return x
	}
	o.q, o.k = draw(o.qHeads*o.keyDim, r.NormFloat64), draw(o.kvHeads*o.keyDim, r.NormFloat64)
	o.v = draw(o.kvHeads*o.valueDim, r.NormFloat64)
	for i := 0; i < len(o.k); i += o.keyDim {
		unit(o.k[i:][:o.keyDim])
	}
	if rules[o.rule].decays() {
		n := o.kvHeads
		if o.decayOfChannels {
			n *= o.keyDim
		}
		o.decay = draw(n, func() float64 { return -r.Float64() })
	}
	if rules[o.rule].corrects() {
		n := o.kvHeads
		if o.betaOfAllHeads {
			n = 1
		}
		o.beta = draw(n, r.Float64)
	}
}

// reference is the operator's definition in float64.
func (o *operator) reference() (out, present []float64) {
	scale := float64(o.scale)
	if scale == 0 {
		scale = 1 / math.Sqrt(float64(o.keyDim))
	}
	group, dk, dv := o.qHeads/o.kvHeads, o.keyDim, o.valueDim
	out = make([]float64, o.batch*o.rows*o.qHeads*dv)
	present = make([]float64, o.batch*o.kvHeads*dk*dv)
	for i, e := range o.past {
		present[i] = float64(e)
	}
	for b := range o.batch {
		for h := range o.kvHeads {
			s := present[(b*o.kvHeads+h)*dk*dv:][:dk*dv]
			for t := range o.rows {
				at := (b*o.rows + t) * o.kvHeads
				k, v := o.k[(at+h)*dk:][:dk], o.v[(at+h)*dv:][:dv]
				for d := range dk {
					if o.decay == nil {
						break
					}
					g := o.decay[(at+h)*len(o.decay)/(o.batch*o.rows*o.kvHeads)+d*btoi(o.decayOfChannels)]
					for m := range dv {
						s[d*dv+m] *= math.Exp(float64(g))
					}
				}
				for m := range dv {
					e := float64(v[m])
					if o.beta != nil {
						for d := range dk {
							e -= s[d*dv+m] * float64(k[d])
						}
						e *= float64(o.beta[(at+h)*len(o.beta)/(o.batch*o.rows*o.kvHeads)])
					}
					for d := range dk {
						s[d*dv+m] += float64(k[d]) * e
					}
				}
				for g := range group {
					to := (b*o.rows+t)*o.qHeads + h*group + g
					for m := range dv {
						for d := range dk {
							out[to*dv+m] += scale * s[d*dv+m] * float64(o.q[to*dk+d])
						}
					}
				}
			}
		}
	}
	return out, present
}

func btoi(x bool) int {
	if x {
		return 1
	}
	return 0
}

// run is the operator by this package: entries of the batch are sequences of one call.
func (o *operator) run(t *testing.T) (out, present []float32) {
	c := Config{Heads: o.kvHeads, QueryHeads: o.qHeads, KeyDim: o.keyDim, ValueDim: o.valueDim,
		Rule: rules[o.rule], ChannelDecay: o.decayOfChannels, Scale: o.scale}
	rows := o.batch * o.rows
	packed := func(x []float32, heads, d int) attn.Tensor {
		if x == nil {
			return attn.Tensor{}
		}
		return attn.BLHD(x, 1, rows, heads, d)
	}
	decay := packed(o.decay, o.kvHeads, max(1, len(o.decay)/rows/o.kvHeads))
	beta := packed(o.beta, o.kvHeads, 1)
	if o.betaOfAllHeads {
		beta = attn.Tensor{Data: o.beta, B: 1, H: o.kvHeads, L: rows, D: 1, SB: 1, SH: attn.Broadcast,
			SL: 1}
	}
	states, lens := make([]*State, o.batch), make([]int, o.batch)
	n := o.kvHeads * o.keyDim * o.valueDim
	matrices := func(x []float32, b int) attn.Tensor {
		return attn.BHLD(x[b*n:][:n], 1, o.kvHeads, o.keyDim, o.valueDim)
	}
	for b := range states {
		states[b], lens[b] = newState(t, c), o.rows
		if o.past != nil {
			must(t, states[b].Start(matrices(o.past, b)))
		}
	}
	out, present = make([]float32, rows*o.qHeads*o.valueDim), make([]float32, o.batch*n)
	must(t, AppendStates(nil, packed(out, o.qHeads, o.valueDim), packed(o.q, o.qHeads, o.keyDim),
		packed(o.k, o.kvHeads, o.keyDim), packed(o.v, o.kvHeads, o.valueDim), decay, beta, states, lens))
	for b, s := range states {
		must(t, s.Read(matrices(present, b)))
	}
	return out, present
}

// ONNX's LinearAttention of opset 27, with each attribute and input that it has: within the
// tolerance of ONNX's own tests, 10⁻³ of the result, and 10⁻⁶ where sums cancel.
func TestONNX(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	var list []operator
	for rule, is := range rules {
		for _, heads := range [][2]int{{4, 4}, {4, 2}, {4, 1}} {
			for _, rows := range []int{1, 5, 40} {
				o := operator{rule: rule, batch: 1 + r.IntN(3), rows: rows, qHeads: heads[0], kvHeads: heads[1],
					keyDim: 8, valueDim: 12, scale: []float32{0, 0.5}[r.IntN(2)],
					betaOfAllHeads: is.corrects() && r.IntN(2) == 0}
				list = append(list, o)
				if o.decayOfChannels = true; is.decays() {
					list = append(list, o)
				}
			}
		}
	}
	near := func(what string, o *operator, got []float32, want []float64) {
		t.Helper()
		for i, w := range want {
			if e := math.Abs(float64(got[i]) - w); !(e <= 1e-3*math.Abs(w)+1e-6) {
				t.Fatalf("%v: %s %d is %v, want %v", o, what, i, got[i], w)
			}
		}
	}
	for i := range list {
		o := &list[i]
		o.fill(r)
		for range 2 { // without past_state, and with it
			out, present := o.run(t)
			wantOut, wantPresent := o.reference()
			near("output", o, out, wantOut)
			near("present_state", o, present, wantPresent)
			o.past = make([]float32, len(present))
			kerneltest.Normal.Fill(r, o.past)
		}
	}
}
