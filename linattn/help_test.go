package linattn

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/kernel/kerneltest"
)

// Tests of kernels' choices swap the row of this package.
func init() { kerneltest.Tuned = &tuned }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// mustFail wants an error of a kind whose text has a part.
func mustFail(t testing.TB, err, kind error, text string) {
	t.Helper()
	if !errors.Is(err, kind) || !strings.Contains(err.Error(), text) ||
		!strings.Contains(err.Error(), "linattn.") {
		t.Errorf("the error is %v, want %q: … %s", err, kind, text)
	}
}

// sameBits compares with == on bits, any NaN equal to any other.
func sameBits(t testing.TB, what string, got, want []float32) {
	t.Helper()
	if i := kerneltest.FirstDifference(got, want); i >= 0 {
		t.Fatalf("%s: element %d of %d is %v (%#08x), want %v (%#08x)", what, i, len(want), got[i],
			math.Float32bits(got[i]), want[i], math.Float32bits(want[i]))
	}
}

func newState(t testing.TB, c Config) *State {
	t.Helper()
	s, err := NewState(c)
	must(t, err)
	return s
}

// tokens are the arguments of a call, without strides.
type tokens struct {
	layout
	q, k, v, decay, beta attn.Tensor
}

func zeros(h, l, d int) attn.Tensor { return attn.BHLD(make([]float32, h*l*d), 1, h, l, d) }

// drawn fills a tensor.
func drawn(h, l, d int, draw func() float32) attn.Tensor {
	x := zeros(h, l, d)
	for i := range x.Data {
		x.Data[i] = draw()
	}
	return x
}

// randomTokens are as a model has them: keys and queries of length 1, decays of 0 to most, betas of
// 0 to 1.
func randomTokens(t testing.TB, r *rand.Rand, c Config, n int, most float64) tokens {
	t.Helper()
	g, err := layoutOf(c)
	must(t, err)
	normal := func() float32 { return float32(r.NormFloat64()) }
	x := tokens{layout: g, q: drawn(g.QueryHeads, n, g.KeyDim, normal),
		k: drawn(g.KeyHeads, n, g.keyRow(), normal), v: drawn(g.Heads, n, g.ValueDim, normal)}
	for _, a := range []attn.Tensor{x.q, x.k} {
		for i := 0; i < len(a.Data); i += a.D {
			unit(a.Data[i:][:a.D])
		}
	}
	if g.Rule.decays() {
		x.decay = drawn(g.Heads, n, max(1, g.decays), func() float32 {
			return float32(-most * r.Float64() * r.Float64())
		})
	}
	if g.Rule.corrects() {
		x.beta = drawn(g.Heads, n, 1, r.Float32)
	}
	return x
}

// key is the key of a token that is written, readKey the one that is read.
func (x *tokens) key(head, token int) []float32 { return x.k.Row(0, head, token)[:x.KeyDim] }

func (x *tokens) readKey(head, token int) []float32 {
	row := x.k.Row(0, head, token)
	return row[len(row)-x.KeyDim:]
}

// unit scales to length 1.
func unit(x []float32) {
	var sum float64
	for _, e := range x {
		sum += float64(e) * float64(e)
	}
	for i := range x {
		x[i] = float32(float64(x[i]) / math.Sqrt(sum))
	}
}

// slice are some of the tokens.
func (x *tokens) slice(from, to int) tokens {
	y := *x
	for _, a := range []*attn.Tensor{&y.q, &y.k, &y.v, &y.decay, &y.beta} {
		if a.Data != nil {
			*a = a.Slice(from, to)
		}
	}
	return y
}

// append appends tokens to a state and writes their outputs.
func (x *tokens) append(p *attn.Pool, s *State, dst attn.Tensor) error {
	return s.Append(p, dst, x.q, x.k, x.v, x.decay, x.beta)
}

// whole is a state's outputs of all tokens, in one call.
func (x *tokens) whole(t testing.TB, s *State) attn.Tensor {
	t.Helper()
	dst := zeros(x.outputs(), x.q.L, x.ValueDim)
	must(t, x.append(nil, s, dst))
	return dst
}

// byFormula is all tokens by the formula of doc.go, in plain loops: outputs, and the matrices in
// the end.
// start has the matrices at first.
func (x *tokens) byFormula(start attn.Tensor) (dst, end attn.Tensor) {
	n := x.q.L
	dst, end = zeros(x.outputs(), n, x.ValueDim), zeros(x.Heads, x.KeyDim, x.ValueDim)
	for h := range x.Heads {
		s := make([][]float32, x.KeyDim)
		for d := range s {
			s[d] = make([]float32, x.ValueDim)
			if start.Data != nil {
				copy(s[d], start.Row(0, h, d))
			}
		}
		for from := 0; from < n; from += Chunk {
			s = x.chunkByFormula(h, from, min(from+Chunk, n), s, dst)
		}
		for d := range s {
			copy(end.Row(0, h, d), s[d])
		}
	}
	return dst, end
}

// chunkByFormula returns the matrix after a chunk.
func (x *tokens) chunkByFormula(h, from, to int, s [][]float32, dst attn.Tensor) [][]float32 {
	dk, dv := x.KeyDim, x.ValueDim
	kh, group := x.headOf(h, x.KeyHeads), x.group()
	var u, w [Chunk][]float32 // of a row j; w of a row and a channel
	g := make([]float32, dk)
	// chain is (Σ_d S_d·x_d·G_d), then the rows before one, for all values.
	chain := func(row []float32, rows int) []float32 {
		pairs, sums := make([]float32, rows), make([]float32, dv)
		for j := range pairs {
			k := x.key(kh, from+j)
			for d, e := range row {
				if x.ChannelDecay {
					e = float32(e * w[j][d])
				}
				pairs[j] = f32.FMA(e, k[d], pairs[j])
			}
			if !x.ChannelDecay {
				pairs[j] *= w[j][0]
			}
		}
		for m := range sums {
			var sum float32
			for d, e := range row {
				if x.ChannelDecay {
					e = float32(e * g[d])
				}
				sum = f32.FMA(e, s[d][m], sum)
			}
			if x.Rule.decays() && !x.ChannelDecay {
				sum = float32(sum * g[0])
			}
			for j, product := range pairs {
				sum = f32.FMA(product, u[j][m], sum)
			}
			sums[m] = sum
		}
		return sums
	}
	for i := range to - from {
		at := from + i
		for d := range dk {
			a := float32(1)
			if x.Rule.decays() {
				e := x.decay.Row(0, h, at)
				log := [1]float32{e[min(d, len(e)-1)]}
				attn.Exp(log[:], log[:])
				a = log[0]
			}
			if i == 0 {
				g[d] = a
			} else {
				g[d] *= a
			}
			for j := range i {
				w[j][d] *= a
			}
		}
		w[i] = slices.Repeat([]float32{1}, dk)
		u[i] = slices.Clone(x.v.Row(0, h, at))
		if x.Rule.corrects() {
			for m, e := range chain(x.readKey(kh, at), i) {
				u[i][m] = x.beta.Row(0, h, at)[0] * float32(u[i][m]-e)
			}
		}
		for o := range group {
			q := x.q.Row(0, x.queryHead(h, o), at)
			for m, e := range chain(q, i+1) {
				dst.Row(0, h*group+o, at)[m] = e * x.Scale
			}
		}
	}
	after := make([][]float32, dk)
	for d := range after {
		after[d] = make([]float32, dv)
		for m := range dv {
			sum := s[d][m]
			if x.Rule.decays() {
				sum *= g[d]
			}
			for j := range to - from {
				sum = f32.FMA(float32(x.k.Row(0, kh, from+j)[d]*w[j][d]), u[j][m], sum)
			}
			after[d][m] = sum
		}
	}
	return after
}

// exact is all tokens by the recurrence in float64.
func (x *tokens) exact() []float64 {
	n, group := x.q.L, x.group()
	dst := make([]float64, x.outputs()*n*x.ValueDim)
	for h := range x.Heads {
		s := make([]float64, x.KeyDim*x.ValueDim)
		r := make([]float64, x.ValueDim)
		for t := range n {
			x.exactDecay(s, h, t)
			k, v := x.key(x.headOf(h, x.KeyHeads), t), x.v.Row(0, h, t)
			for m := range r {
				r[m] = float64(v[m])
			}
			if x.Rule.corrects() {
				for d, e := range x.readKey(x.headOf(h, x.KeyHeads), t) {
					for m := range r {
						r[m] -= float64(e) * s[d*x.ValueDim+m]
					}
				}
				for m := range r {
					r[m] *= float64(x.beta.Row(0, h, t)[0])
				}
			}
			for d, e := range k {
				for m := range r {
					s[d*x.ValueDim+m] += float64(e) * r[m]
				}
			}
			for o := range group {
				to := dst[((h*group+o)*n+t)*x.ValueDim:][:x.ValueDim]
				for d, e := range x.q.Row(0, x.queryHead(h, o), t) {
					for m := range to {
						to[m] += float64(e) * float64(x.Scale) * s[d*x.ValueDim+m]
					}
				}
			}
		}
	}
	return dst
}

func (x *tokens) exactDecay(s []float64, h, t int) {
	if !x.Rule.decays() {
		return
	}
	decay := x.decay.Row(0, h, t)
	for d := range x.KeyDim {
		a := math.Exp(float64(decay[min(d, len(decay)-1)]))
		for m := range x.ValueDim {
			s[d*x.ValueDim+m] *= a
		}
	}
}

// plain is all tokens by the recurrence in float32, with multiply-adds.
func (x *tokens) plain() []float32 {
	n, group := x.q.L, x.group()
	dst := make([]float32, x.outputs()*n*x.ValueDim)
	factors := make([]float32, max(1, x.decays))
	for h := range x.Heads {
		s := make([]float32, x.KeyDim*x.ValueDim)
		r := make([]float32, x.ValueDim)
		for t := range n {
			if x.Rule.decays() {
				attn.Exp(factors, x.decay.Row(0, h, t))
				for d := range x.KeyDim {
					for m := range x.ValueDim {
						s[d*x.ValueDim+m] *= factors[min(d, len(factors)-1)]
					}
				}
			}
			k, v := x.key(x.headOf(h, x.KeyHeads), t), x.v.Row(0, h, t)
			clear(r)
			if x.Rule.corrects() {
				addRows(r, s, x.readKey(x.headOf(h, x.KeyHeads), t))
			}
			for m := range r {
				r[m] = v[m] - r[m]
				if x.Rule.corrects() {
					r[m] *= x.beta.Row(0, h, t)[0]
				}
			}
			for d, e := range k {
				for m := range r {
					s[d*x.ValueDim+m] = f32.FMA(e, r[m], s[d*x.ValueDim+m])
				}
			}
			for o := range group {
				to := dst[((h*group+o)*n+t)*x.ValueDim:][:x.ValueDim]
				addRows(to, s, x.q.Row(0, x.queryHead(h, o), t))
				for m := range to {
					to[m] *= x.Scale
				}
			}
		}
	}
	return dst
}

// addRows is to = FMA(x_d, s_d, to) for ascending d.
func addRows(to, s, x []float32) {
	for d, e := range x {
		for m := range to {
			to[m] = f32.FMA(e, s[d*len(to)+m], to[m])
		}
	}
}

// configs are of every rule, with heads and groups of all kinds.
func configs() []Config {
	list := firstConfigs()
	for _, c := range list {
		if c.ReadKeys = true; c.Rule.corrects() {
			list = append(list, c)
		}
	}
	return list
}

// firstConfigs are configs without ReadKeys, which have a hash of their own.
func firstConfigs() (list []Config) {
	for rule := Linear; rule <= GatedDelta; rule++ {
		for _, channel := range []bool{false, true} {
			if channel && !rule.decays() {
				continue
			}
			list = append(list,
				Config{Heads: 2, KeyDim: 16, ValueDim: 16, Rule: rule, ChannelDecay: channel},
				Config{Heads: 4, QueryHeads: 2, KeyHeads: 2, KeyDim: 20, ValueDim: 35, Rule: rule,
					ChannelDecay: channel, Grouping: Interleaved, Scale: -0.7},
				Config{Heads: 4, QueryHeads: 1, KeyHeads: 2, KeyDim: 7, ValueDim: 48, Rule: rule,
					ChannelDecay: channel},
				Config{Heads: 2, QueryHeads: 6, KeyHeads: 1, KeyDim: 33, ValueDim: 1, Rule: rule,
					ChannelDecay: channel, Grouping: Interleaved},
				Config{Heads: 1, QueryHeads: 2, KeyDim: 1, ValueDim: 65, Rule: rule, ChannelDecay: channel,
					Scale: 1})
		}
	}
	return list
}
