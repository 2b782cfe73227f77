package main

import (
	"math"
	"math/rand/v2"

	"github.com/seed-1415985d/attn"
)

// sizes are the sizes of a layer, under the names of DeepSeek's config.json: hidden_size,
// num_attention_heads, kv_lora_rank, qk_rope_head_dim, qk_nope_head_dim and v_head_dim.
type sizes struct{ dim, heads, latent, rotary, plain, value int }

// layer is the weights, each [inner, columns] or, one for each head, [heads, inner, columns].
// Models with a q_lora_rank make queries of two matrices; here it is one.
type layer struct {
	sizes
	query      []float32 // dim → heads × (plain + rotary)
	down       []float32 // dim → latent + rotary: W_DKV and W_KR
	norm       []float32 // of the latent vector
	keyUp      []float32 // W_UK transposed, for each head plain → latent
	valueUp    []float32 // W_UV, for each head latent → value
	output     []float32 // heads × value → dim
	turns      []float64 // angles of a position, one for each pair of rotary channels
	keyChannel int       // of a key as a head sees it, from which the scale follows
}

// newLayer is a random layer.
func newLayer(s sizes, seed uint64) *layer {
	matrix := func(n, inner int) []float32 {
		seed++
		w := normal(seed, n)
		for i := range w {
			w[i] /= float32(math.Sqrt(float64(inner)))
		}
		return w
	}
	l := &layer{sizes: s, keyChannel: s.plain + s.rotary}
	l.query = matrix(s.dim*s.heads*l.keyChannel, s.dim)
	l.down = matrix(s.dim*(s.latent+s.rotary), s.dim)
	l.norm = matrix(s.latent, 1)
	l.keyUp = matrix(s.heads*s.plain*s.latent, s.latent)
	l.valueUp = matrix(s.heads*s.latent*s.value, s.latent)
	l.output = matrix(s.heads*s.value*s.dim, s.heads*s.value)
	for i := range s.rotary / 2 {
		l.turns = append(l.turns, math.Pow(10000, -2*float64(i)/float64(s.rotary)))
	}
	return l
}

// weights is how many numbers the layer has.
func (s *sizes) weights() float64 {
	queries := float64(s.dim) * float64(s.heads) * float64(s.plain+s.rotary+s.value)
	return queries + float64(s.heads)*float64(s.latent)*float64(s.plain+s.value) +
		float64(s.dim)*float64(s.latent+s.rotary)
}

// normal is n random numbers.
func normal(seed uint64, n int) []float32 {
	r := rand.New(rand.NewPCG(seed, 0))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

// decoder is a layer with the cache of one sequence.
type decoder struct {
	*layer
	cache    *attn.Cache
	integers bool // attention multiplies integers
}

// decoder keeps one vector a token: its latent channels are keys and values of all heads, and the
// rotary ones behind them belong to keys only.
func (l *layer) decoder(f attn.Format, capacity int) (*decoder, error) {
	cache, err := attn.NewCache(attn.CacheConfig{Batch: 1, KVHeads: 1, HeadDim: l.latent + l.rotary,
		ValueDim: l.latent, Capacity: capacity, Format: f, ValuesInKeys: true})
	return &decoder{layer: l, cache: cache}, err
}

// forward appends n tokens [n, dim] and returns as many outputs. The matrices that would compute
// keys and values from each latent vector are absorbed: a head's key is W_UK·c, so its product with
// a query q is the product of W_UKᵀ·q with c, and W_UV is applied to the weighted sum of the c.
func (d *decoder) forward(x []float32) ([]float32, error) {
	n, first, width := len(x)/d.dim, d.cache.Len(), d.latent+d.rotary
	c := make([]float32, n*width)
	q := make([]float32, n*d.heads*d.keyChannel)
	absorbed := make([]float32, n*d.heads*width)
	sums, values := make([]float32, n*d.heads*d.latent), make([]float32, n*d.heads*d.value)
	out := make([]float32, n*d.dim)
	rows := func(x []float32) attn.Tensor { return attn.BHLD(x, 1, 1, n, len(x)/n) }
	matrix := func(w []float32, inner int) attn.Tensor {
		return attn.BHLD(w, 1, 1, inner, len(w)/inner)
	}
	each := func(w []float32, inner int) attn.Tensor {
		return attn.BHLD(w, 1, d.heads, inner, len(w)/d.heads/inner)
	}
	heads := func(x []float32) attn.Tensor {
		return attn.BLHD(x, 1, n, d.heads, len(x)/n/d.heads)
	}
	for _, step := range []func() error{
		func() error { return attn.MatMul(rows(c), rows(x), matrix(d.down, d.dim)) },
		func() error { d.keys(c, first); return d.cache.Append(rows(c), attn.Tensor{}) },
		func() error { return attn.MatMul(rows(q), rows(x), matrix(d.query, d.dim)) },
		func() error {
			d.rotaryQueries(absorbed, q, first)
			return attn.MatMul(front(heads(absorbed), d.latent), front(heads(q), d.plain),
				each(d.keyUp, d.plain))
		},
		func() error {
			return d.cache.Attend(heads(sums), heads(absorbed), &attn.Options{Causal: attn.BottomRight,
				Scale: d.scale(), Integers: d.integers})
		},
		func() error { return attn.MatMul(heads(values), heads(sums), each(d.valueUp, d.latent)) },
		func() error {
			return attn.MatMul(rows(out), rows(values), matrix(d.output, d.heads*d.value))
		},
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// front is the first d channels of each row of a view that gives its strides, which stay.
func front(x attn.Tensor, d int) attn.Tensor {
	x.D = d
	return x
}

// scale is the scale for keys as a head sees them, not for the vectors in the cache.
func (l *layer) scale() float32 { return float32(1 / math.Sqrt(float64(l.keyChannel))) }

// keys makes what the cache keeps of rows [latent + rotary] of tokens from position first on: the
// latent channels are normalised, and the rotary ones rotated.
func (l *layer) keys(c []float32, first int) {
	for i := 0; len(c) > 0; i, c = i+1, c[l.latent+l.rotary:] {
		latent := c[:l.latent]
		scale := 1 / math.Sqrt(float64(attn.Dot(latent, latent))/float64(l.latent)+1e-6)
		for j, w := range l.norm {
			latent[j] = float32(float64(latent[j]*w) * scale)
		}
		l.rotate(c[l.latent:][:l.rotary], first+i)
	}
}

// rotaryQueries writes the rotated channels of each head's query behind its absorbed ones.
func (l *layer) rotaryQueries(absorbed, q []float32, first int) {
	for r := 0; len(q) > 0; r++ {
		to := absorbed[l.latent:][:l.rotary]
		copy(to, q[l.plain:l.keyChannel])
		l.rotate(to, first+r/l.heads)
		q, absorbed = q[l.keyChannel:], absorbed[l.latent+l.rotary:]
	}
}

// rotate turns the pairs (i, i + rotary/2) by the angles of a position (RoPE).
func (l *layer) rotate(x []float32, position int) {
	for i, turn := range l.turns {
		sin, cos := math.Sincos(turn * float64(position))
		a, b := float64(x[i]), float64(x[i+len(l.turns)])
		x[i], x[i+len(l.turns)] = float32(a*cos-b*sin), float32(b*cos+a*sin)
	}
}
