package lm

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

// reference is a decoder in float64, written from the papers' formulas for whole sequences: without
// cache, batch or packed matrices.
type reference struct {
	f                           *fake
	layers, heads, kv, head     int
	epsilon, theta              float64
	factor, low, high, original float64 // of rotations; factor 0: none
	tied, linear, yarn          bool
	windows                     map[int]int // of some layers

	// of gemma
	gelu, after, lessOne bool
	embeddings           float64 // they are multiplied by it; 0: 1
	scalar               float64 // scores are divided by its root; 0: the head's size
	scoreCap, logitCap   float64
	residual, divisor    float64 // of what is added to rows, and of logits; 0 for none
	localTheta           float64 // of layers with a window
	unrotated            string  // a layer, or all
	none                 bool    // no rotation
	pairs                bool    // neighbours rotate together
	queryScale           float64 // queries grow by it; 0: they do not
	// of mixtures: experts that a token uses; 0: no mixture
	used        int
	normalized  bool
	routeScale  float64 // of sigmoids
	softmaxed   bool    // instead of sigmoids
	least       float64 // added to their sum
	limit       float64 // of the clamped gate; 0: none
	untruncated bool    // yarn's ramp
	// of qwen3.5: heads of keys of its states. State h uses head h mod stateKeys if they are tiled
	stateKeys int
	stateKey  int // elements of keys that statesGGUF makes; 0: 16
	tiled     bool
	negated   bool // A_log is −e^A already
	gate      bool // the output of attention is gated
	// of phi3
	rotated   int          // channels of a head; 0 for all
	further   furtherNames // in folders, of the layer that guesses further tokens
	factors   []float64
	magnitude float64
	layered   *layered // of gemma4, instead of this
	parallel  bool     // attention and network read the same rows, of LayerNorm without biases
}

// logits returns the logits after the last token.
func (r *reference) logits(tokens []int) []float64 {
	if r.layered != nil {
		return r.layered.logits(r, tokens)
	}
	rows := r.lastRows(tokens)
	head := "lm_head"
	if r.tied {
		head = "model.embed_tokens"
	}
	logits := r.linearMap(rows[len(rows)-1], head)
	for i := range logits {
		logits[i] = capped(logits[i], r.logitCap)
		if r.divisor != 0 {
			logits[i] /= r.divisor
		}
	}
	return logits
}

// lastRows returns the normed rows of all layers.
func (r *reference) lastRows(tokens []int) [][]float64 {
	var states [][]float64
	for _, token := range tokens {
		states = append(states, times(r.row("model.embed_tokens.weight", token), r.embeddings))
	}
	for i := range r.layers {
		r.layer(states, fmt.Sprintf("model.layers.%d.", i), r.windows[i])
	}
	for t := range states {
		states[t] = r.norm(states[t], "model.norm.weight")
	}
	return states
}

// layer runs rows through a layer.
func (r *reference) layer(states [][]float64, at string, window int) {
	var mixed [][]float64
	if _, ok := r.f.tensors[at+"linear_attn.out_proj.weight"]; ok {
		mixed = r.delta(states, at)
	} else if _, ok := r.f.tensors[at+"mamba.D"]; ok {
		mixed = r.mamba(states, at)
	} else if _, ok := r.f.tensors[at+"conv.conv.weight"]; ok {
		mixed = r.shortConv(states, at)
	} else {
		mixed = r.attention(states, at, window)
	}
	for t := range states {
		mixed[t] = times(mixed[t], r.residual)
		before := at + "post_attention_layernorm.weight"
		if r.parallel {
			y := r.network(r.norm(states[t], at+"input_layernorm.weight"), at)
			states[t] = sum(sum(states[t], mixed[t]), y)
		} else if _, ok := r.f.tensors[at+"post_mlp_layernorm.weight"]; ok { // of glm4
			mixed[t] = r.norm(mixed[t], at+"post_self_attn_layernorm.weight")
			states[t] = sum(states[t], mixed[t])
			y := r.network(r.norm(states[t], before), at)
			states[t] = sum(states[t], r.norm(y, at+"post_mlp_layernorm.weight"))
		} else if r.after {
			states[t] = sum(states[t], r.norm(mixed[t], before))
			x := r.norm(states[t], at+"pre_feedforward_layernorm.weight")
			y := r.network(x, at)
			states[t] = sum(states[t], r.norm(y, at+"post_feedforward_layernorm.weight"))
		} else {
			states[t] = sum(states[t], mixed[t])
			y := r.network(r.norm(states[t], before), at)
			states[t] = sum(states[t], times(y, r.residual))
		}
	}
}

// furtherLogits returns the logits after the last guess, or after the tokens if there is none, of
// the layer that guesses further tokens.
func (r *reference) furtherLogits(tokens, guesses []int) (logits []float64) {
	n, rows := &r.further, r.lastRows(tokens)
	head, embedding := "lm_head", "model.embed_tokens"
	if _, ok := r.f.tensors[n.head+".weight"]; ok {
		head, embedding = n.head, n.embedding
	}
	rows = rows[:len(rows)-1] // the next token of the last one is not known
	for {
		var states [][]float64
		for i, row := range rows {
			token := slices.Concat(tokens, guesses)[i+1]
			both := slices.Concat(r.norm(r.row(embedding+".weight", token), n.tokenNorm+".weight"),
				r.norm(row, n.rowNorm+".weight"))
			states = append(states, r.linearMap(both, n.join))
		}
		r.layer(states, n.layer, 0)
		last := r.norm(states[len(states)-1], n.norm+".weight")
		if logits = r.linearMap(last, head); len(rows) == len(tokens)+len(guesses)-1 {
			return logits
		}
		rows = append(rows, last)
	}
}

// network computes the feed-forward network of a layer, or its experts.
func (r *reference) network(x []float64, at string) []float64 {
	if _, ok := r.f.tensors[at+"mlp.gate.weight"]; ok {
		return r.mixture(x, at+"mlp.")
	}
	return r.gated(x, at+"mlp.")
}

func (r *reference) gated(x []float64, at string) []float64 {
	if _, ok := r.f.tensors[at+"gate_proj.weight"]; !ok {
		up := r.linearMap(x, at+"up_proj")
		for j, u := range up {
			if up[j] = max(u, 0) * max(u, 0); r.gelu {
				up[j] = r.activation(u)
			}
		}
		return r.linearMap(up, at+"down_proj")
	}
	gate, up := r.linearMap(x, at+"gate_proj"), r.linearMap(x, at+"up_proj")
	for j, g := range gate {
		if r.limit > 0 {
			g = min(g, r.limit)
			up[j] = (max(-r.limit, min(up[j], r.limit)) + 1) * g / (1 + math.Exp(-1.702*g))
		} else {
			up[j] *= r.activation(g)
		}
	}
	return r.linearMap(up, at+"down_proj")
}

// mixture returns the sum of the outputs of the likeliest experts of x, times their probabilities.
func (r *reference) mixture(x []float64, at string) []float64 {
	if r.routeScale > 0 {
		return r.sigmoidMixture(x, at)
	}
	p, total := r.linearMap(x, at+"gate"), 0.0
	for i := range p {
		p[i] = math.Exp(p[i])
		total += p[i]
	}
	ranked := slices.Clone(p)
	slices.Sort(ranked)
	if slices.Reverse(ranked); r.normalized {
		total = 0
		for _, e := range ranked[:r.used] {
			total += e
		}
	}
	y := make([]float64, len(x))
	for i := range p {
		if p[i] >= ranked[r.used-1] {
			y = sum(y, times(r.gated(x, fmt.Sprintf("%sexperts.%d.", at, i)), p[i]/total))
		}
	}
	if _, ok := r.f.tensors[at+"shared_experts.gate_proj.weight"]; ok {
		y = sum(y, r.gated(x, at+"shared_experts."))
	}
	if _, ok := r.f.tensors[at+"shared_expert_gate.weight"]; ok {
		share := 1 / (1 + math.Exp(-r.linearMap(x, at+"shared_expert_gate")[0]))
		y = sum(y, times(r.gated(x, at+"shared_expert."), share))
	}
	return y
}

// sigmoidMixture weighs experts by sigmoids, and chooses those with the largest sum of sigmoid and
// bias.
func (r *reference) sigmoidMixture(x []float64, at string) []float64 {
	p, total := r.linearMap(x, at+"gate"), 0.0
	var keys []float64
	all := 0.0
	for i := range p {
		all += math.Exp(p[i])
	}
	for i := range p {
		if r.softmaxed {
			p[i] = math.Exp(p[i]) / all
		} else {
			p[i] = 1 / (1 + math.Exp(-p[i]))
		}
		keys = append(keys, p[i])
		if bias, ok := r.f.tensors[at+"gate.e_score_correction_bias"]; ok {
			keys[i] += float64(bias.data[i])
		}
	}
	ranked := slices.Sorted(slices.Values(keys))
	least := ranked[len(ranked)-r.used]
	for i := range p {
		if keys[i] >= least {
			total += p[i]
		}
	}
	if !r.normalized {
		total = 1
	}
	y := make([]float64, len(x))
	for i := range p {
		if keys[i] >= least {
			share := p[i] / (total + r.least) * r.routeScale
			y = sum(y, times(r.gated(x, fmt.Sprintf("%sexperts.%d.", at, i)), share))
		}
	}
	if _, ok := r.f.tensors[at+"shared_experts.gate_proj.weight"]; ok {
		y = sum(y, r.gated(x, at+"shared_experts."))
	}
	return y
}

func (r *reference) activation(g float64) float64 {
	if r.gelu {
		return g / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(g+0.044715*g*g*g)))
	}
	return g / (1 + math.Exp(-g))
}

// capped bounds x by most, if that is not 0.
func capped(x, most float64) float64 {
	if most == 0 {
		return x
	}
	return most * math.Tanh(x/most)
}

func times(x []float64, by float64) []float64 {
	for i := range x {
		if by != 0 {
			x[i] *= by
		}
	}
	return x
}

// attention is causal softmax attention with rotated queries and keys, over the last tokens of a
// window if it is not 0.
func (r *reference) attention(states [][]float64, at string, window int) [][]float64 {
	var q, k, v [][]float64
	scalar := cmp.Or(r.scalar, float64(r.head))
	local := *r
	if window > 0 && r.localTheta > 0 {
		local.theta, local.factor, local.yarn, local.magnitude = r.localTheta, 0, false, 0
	}
	local.none = at == r.unrotated || r.unrotated == "all"
	var gates [][]float64
	for t, s := range states {
		x := r.norm(s, at+"input_layernorm.weight")
		query, key := r.linearMap(x, at+"self_attn.q_proj"), r.linearMap(x, at+"self_attn.k_proj")
		if r.gate {
			var both [2][]float64
			for i, part := range slices.Collect(slices.Chunk(query, r.head)) {
				both[i%2] = append(both[i%2], part...)
			}
			query, gates = both[0], append(gates, both[1])
		}
		query = local.rotate(r.headNorm(query, at+"self_attn.q_norm"), t)
		if r.queryScale != 0 {
			query = times(query, 1+r.queryScale*math.Log(1+math.Floor(float64(t)/r.original)))
		}
		q = append(q, query)
		k = append(k, local.rotate(r.headNorm(key, at+"self_attn.k_norm"), t))
		v = append(v, r.linearMap(x, at+"self_attn.v_proj"))
	}
	var out [][]float64
	for t := range states {
		all := make([]float64, r.heads*r.head)
		for h := range r.heads {
			g := h / (r.heads / r.kv) * r.head
			weights, total := []float64{}, 0.0
			for j := range t + 1 {
				s := 0.0
				for d := range r.head {
					s += q[t][h*r.head+d] * k[j][g+d]
				}
				s = capped(s/math.Sqrt(scalar), r.scoreCap)
				if window > 0 && t-j >= window {
					s = math.Inf(-1)
				}
				weights = append(weights, math.Exp(s))
				total += weights[j]
			}
			if sinks, ok := r.f.tensors[at+"self_attn.sinks"]; ok {
				total += math.Exp(float64(sinks.data[h]))
			}
			for j, w := range weights {
				for d := range r.head {
					all[h*r.head+d] += w / total * v[j][g+d]
				}
			}
		}
		for i := range all {
			if r.gate {
				all[i] /= 1 + math.Exp(-gates[t][i])
			}
		}
		out = append(out, r.linearMap(all, at+"self_attn.o_proj"))
	}
	return out
}

// mamba is Mamba-2, token by token.
func (r *reference) mamba(states [][]float64, at string) (out [][]float64) {
	head := func(name string, h int) float64 { return float64(r.f.tensors[at+"mamba."+name].data[h]) }
	conv, heads := r.f.tensors[at+"mamba.conv1d.weight"], r.f.tensors[at+"mamba.D"].shape[0]
	inner := r.f.tensors[at+"mamba.norm.weight"].shape[0]
	channels, width := conv.shape[0], conv.shape[len(conv.shape)-1]
	size, value := (channels-inner)/2, inner/heads
	memory := make([]float64, inner*size)
	var inputs [][]float64
	for t, state := range states {
		all := r.linearMap(r.norm(state, at+"input_layernorm.weight"), at+"mamba.in_proj")
		inputs = append(inputs, all[inner:inner+channels])
		x, y := make([]float64, channels), make([]float64, inner)
		for c := range x {
			if bias, ok := r.f.tensors[at+"mamba.conv1d.bias"]; ok {
				x[c] = float64(bias.data[c])
			}
			for j := range width {
				if i := t - width + 1 + j; i >= 0 {
					x[c] += float64(conv.data[c*width+j]) * inputs[i][c]
				}
			}
			x[c] /= 1 + math.Exp(-x[c])
		}
		for c := range inner {
			h := c / value
			step := math.Log1p(math.Exp(all[inner+channels+h] + head("dt_bias", h)))
			for d := range size {
				m := &memory[c*size+d]
				*m = *m*math.Exp(step*r.rate(head("A_log", h))) + step*x[c]*x[inner+d]
				y[c] += *m * x[inner+size+d]
			}
			y[c] = (y[c] + head("D", h)*x[c]) * all[c] / (1 + math.Exp(-all[c]))
		}
		out = append(out, r.linearMap(r.norm(y, at+"mamba.norm.weight"), at+"mamba.out_proj"))
	}
	return out
}

// shortConv is a convolution over tokens, with a gate before and one after it.
func (r *reference) shortConv(states [][]float64, at string) (out [][]float64) {
	conv, dim := r.f.tensors[at+"conv.conv.weight"], len(states[0])
	width := conv.shape[len(conv.shape)-1]
	var inputs [][]float64
	for t, state := range states {
		all := r.linearMap(r.norm(state, at+"input_layernorm.weight"), at+"conv.in_proj")
		input, y := make([]float64, dim), make([]float64, dim)
		for c := range input {
			input[c] = all[c] * all[2*dim+c]
		}
		inputs = append(inputs, input)
		for c := range y {
			for j := range width {
				if i := t - width + 1 + j; i >= 0 {
					y[c] += float64(conv.data[c*width+j]) * inputs[i][c]
				}
			}
			y[c] *= all[dim+c]
		}
		out = append(out, r.linearMap(y, at+"conv.out_proj"))
	}
	return out
}

// delta is the gated delta rule, token by token: the state's value for a key is subtracted from the
// new value before that is written.
func (r *reference) delta(states [][]float64, at string) [][]float64 {
	at += "linear_attn."
	weight := func(name string) fakeTensor { return r.f.tensors[at+name] }
	conv, heads := weight("conv1d.weight"), weight("A_log").shape[0]
	channels, width := conv.shape[0], conv.shape[len(conv.shape)-1]
	value := weight("norm.weight").shape[0]
	size := (channels - heads*value) / 2 / r.stateKeys // of a key
	memory := make([][][]float64, heads)
	for h := range memory {
		for range size {
			memory[h] = append(memory[h], make([]float64, value))
		}
	}
	var mixed, out [][]float64
	for t, state := range states {
		x := r.norm(state, strings.TrimSuffix(at, "linear_attn.")+"input_layernorm.weight")
		mixed = append(mixed, r.linearMap(x, at+"in_proj_qkv"))
		z, b := r.linearMap(x, at+"in_proj_z"), r.linearMap(x, at+"in_proj_b")
		a, row := r.linearMap(x, at+"in_proj_a"), make([]float64, channels)
		for c := range row {
			for j := range width {
				if i := t - width + 1 + j; i >= 0 {
					row[c] += float64(conv.data[c*width+j]) * mixed[i][c]
				}
			}
			row[c] /= 1 + math.Exp(-row[c])
		}
		var all []float64
		for h := range heads {
			from := h / (heads / r.stateKeys)
			if r.tiled {
				from = h % r.stateKeys
			}
			q, k := unit(row[from*size:][:size]), unit(row[(r.stateKeys+from)*size:][:size])
			v := row[2*r.stateKeys*size+h*value:][:value]
			step := math.Log1p(math.Exp(a[h] + float64(weight("dt_bias").data[h])))
			decay := math.Exp(r.rate(float64(weight("A_log").data[h])) * step)
			y, squares := make([]float64, value), 0.0
			for c := range value {
				had := 0.0
				for d := range size {
					memory[h][d][c] *= decay
					had += memory[h][d][c] * k[d]
				}
				for d := range size {
					memory[h][d][c] += k[d] * (v[c] - had) / (1 + math.Exp(-b[h]))
					y[c] += memory[h][d][c] * q[d] / math.Sqrt(float64(size))
				}
				squares += y[c] * y[c] / float64(value)
			}
			for c := range value {
				g := z[h*value+c]
				all = append(all, y[c]/math.Sqrt(squares+r.epsilon)*
					float64(weight("norm.weight").data[c])*g/(1+math.Exp(-g)))
			}
		}
		out = append(out, r.linearMap(all, at+"out_proj"))
	}
	return out
}

// rate returns the rate of a state's decay: GGUF files have −e^A, folders A.
func (r *reference) rate(stored float64) float64 {
	if r.tiled || r.negated {
		return stored
	}
	return -math.Exp(stored)
}

// unit returns x divided by its length.
func unit(x []float64) []float64 {
	squares := 1e-6
	for _, e := range x {
		squares += e * e
	}
	return times(slices.Clone(x), 1/math.Sqrt(squares))
}

// rotate turns elements i and i+head/2, or neighbours, of each head, as a complex number, by
// position·θ^(−2i/head).
func (r *reference) rotate(x []float64, position int) []float64 {
	if r.none {
		return x
	}
	size := 1.0
	if r.yarn {
		size = 0.1*math.Log(r.factor) + 1
	}
	if r.magnitude != 0 {
		size = r.magnitude
	}
	half := cmp.Or(r.rotated, r.head) / 2
	for h := 0; h < len(x); h += r.head {
		for i := range half {
			angle, j, k := float64(position)*r.frequency(i), h+i, h+i+half
			if r.pairs {
				j, k = h+2*i, h+2*i+1
			}
			a, b := x[j], x[k]
			x[j] = size * (a*math.Cos(angle) - b*math.Sin(angle))
			x[k] = size * (a*math.Sin(angle) + b*math.Cos(angle))
		}
	}
	return x
}

// frequency is a frequency of Llama 3.1: long waves are stretched, short ones are not, with a ramp
// between them.
func (r *reference) frequency(i int) float64 {
	f := 1 / math.Pow(r.theta, float64(2*i)/float64(cmp.Or(r.rotated, r.head)))
	if r.factors != nil {
		return f / r.factors[i]
	}
	if factors, ok := r.f.tensors["factors"]; ok {
		f /= float64(factors.data[i])
	}
	if r.yarn {
		return r.yarnFrequency(f, i)
	}
	wave := 2 * math.Pi / f
	switch {
	case r.factor == 0 || !r.linear && wave < r.original/r.high:
		return f
	case r.linear || wave > r.original/r.low:
		return f / r.factor
	}
	smooth := (r.original/wave - r.low) / (r.high - r.low)
	return (1-smooth)*f/r.factor + smooth*f
}

// yarnFrequency keeps pairs that turn 32 times within the original positions, stretches pairs that
// turn once, and is linear between them.
func (r *reference) yarnFrequency(f float64, i int) float64 {
	pair := func(turns float64) float64 {
		return float64(r.head) * math.Log(r.original/(2*math.Pi*turns)) / (2 * math.Log(r.theta))
	}
	first, last := max(0, math.Floor(pair(32))), min(float64(r.head-1), math.Ceil(pair(1)))
	if r.untruncated {
		first, last = max(0, pair(32)), min(float64(r.head-1), pair(1))
	}
	switch at := float64(i); {
	case at <= first:
		return f
	case at >= last:
		return f / r.factor
	default:
		t := (at - first) / (last - first)
		return f*(1-t) + f/r.factor*t
	}
}

// headNorm norms each head, or all heads as one row, if there is a weight for it.
func (r *reference) headNorm(x []float64, weight string) []float64 {
	if _, ok := r.f.tensors[weight+".weight"]; !ok {
		return x
	}
	var y []float64
	for head := range slices.Chunk(x, r.f.tensors[weight+".weight"].shape[0]) {
		y = append(y, r.norm(head, weight+".weight")...)
	}
	return y
}

func (r *reference) norm(x []float64, weight string) []float64 {
	if _, ok := r.f.tensors[weight]; !ok {
		return x
	}
	y := make([]float64, len(x))
	bias, centered := r.f.tensors[strings.TrimSuffix(weight, "weight")+"bias"]
	if centered || r.parallel {
		center := 0.0
		for _, e := range x {
			center += e / float64(len(x))
		}
		x = slices.Clone(x)
		for i := range x {
			if x[i] -= center; centered {
				y[i] = float64(bias.data[i])
			}
		}
	}
	mean := 0.0
	for _, e := range x {
		mean += e * e / float64(len(x))
	}
	for i, e := range x {
		w := float64(r.f.tensors[weight].data[i])
		if r.lessOne {
			w++
		}
		y[i] += e / math.Sqrt(mean+r.epsilon) * w
	}
	return y
}

// linearMap multiplies by a layer's weight and adds its bias, if there is one.
func (r *reference) linearMap(x []float64, name string) []float64 {
	y := make([]float64, r.f.tensors[name+".weight"].shape[0])
	for i := range y {
		for j, w := range r.row(name+".weight", i) {
			y[i] += w * x[j]
		}
		if bias, ok := r.f.tensors[name+".bias"]; ok {
			y[i] += float64(bias.data[i])
		}
	}
	return y
}

func (r *reference) row(name string, i int) []float64 {
	t := r.f.tensors[name]
	row := make([]float64, t.shape[1])
	for j := range row {
		row[j] = float64(t.data[i*len(row)+j])
	}
	return row
}

func sum(a, b []float64) []float64 {
	c := make([]float64, len(a))
	for i := range c {
		c[i] = a[i] + b[i]
	}
	return c
}

// TestReference compares logits with the reference, for folders of each supported kind.
func TestReference(t *testing.T) {
	base := reference{layers: 2, heads: 4, kv: 2, head: 8, epsilon: 1e-5, theta: 500}
	for _, c := range []struct {
		name   string
		kind   string
		change func(*fake, *reference)
	}{
		{"F32", "F32", func(*fake, *reference) {}},
		{"F16", "F16", func(*fake, *reference) {}},
		{"BF16", "BF16", func(*fake, *reference) {}},
		{"three files", "BF16", func(f *fake, _ *reference) { f.shards = 3 }},
		{"tied", "F32", func(f *fake, r *reference) {
			f.config["tie_word_embeddings"], f.config["eos_token_id"], r.tied = true, nil, true
		}},
		{"biases of Qwen2", "F32", func(f *fake, _ *reference) {
			f.config["model_type"], f.config["sliding_window"], f.config["use_sliding_window"] = "qwen2",
				4096, false
			addBiases(f, "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
		}},
		{"a window that Qwen2 does not use", "F32", func(f *fake, _ *reference) {
			f.config["model_type"], f.config["sliding_window"] = "qwen2", 8
			addBiases(f, "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
		}},
		{"biases of Llama", "F32", func(f *fake, _ *reference) {
			f.config["attention_bias"], f.config["mlp_bias"] = true, true
			addBiases(f, "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
				"mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")
		}},
		{"mistral", "BF16", func(f *fake, _ *reference) {
			f.config["model_type"], f.config["sliding_window"] = "mistral", nil
		}},
		{"mistral's window", "F32", func(f *fake, r *reference) {
			f.config["model_type"], f.config["sliding_window"] = "mistral", 5
			f.config["layer_types"] = []string{"sliding_attention", "sliding_attention"}
			r.windows = map[int]int{0: 5, 1: 5}
		}},
		{"mistral's window of one", "F32", func(f *fake, r *reference) {
			f.config["model_type"], f.config["sliding_window"] = "mistral", 1
			f.config["use_sliding_window"] = false
			r.windows = map[int]int{0: 1, 1: 1}
		}},
		{"windows of Qwen2's last layers", "F32", func(f *fake, r *reference) {
			f.config["model_type"], f.config["sliding_window"] = "qwen2", 7
			f.config["use_sliding_window"], f.config["max_window_layers"] = true, 1
			addBiases(f, "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
			r.windows = map[int]int{1: 7}
		}},
		{"windows by layer_types", "F32", func(f *fake, r *reference) {
			f.config["model_type"], f.config["sliding_window"] = "qwen2", 7
			f.config["use_sliding_window"], f.config["max_window_layers"] = true, 1
			f.config["layer_types"] = []string{"sliding_attention", "full_attention"}
			addBiases(f, "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
			r.windows = map[int]int{0: 7}
		}},
		{"several types", "F32", func(f *fake, _ *reference) {
			f.kinds = map[string]string{"model.embed_tokens.weight": "F16",
				"model.layers.0.self_attn.k_proj.weight": "BF16", "lm_head.weight": "F16"}
			for i := range f.tensors["model.layers.1.mlp.down_proj.weight"].data {
				f.tensors["model.layers.1.mlp.down_proj.weight"].data[i] *= 1e6 // too large for F16
			}
		}},
		{"theta beside rope_parameters", "F32", func(f *fake, _ *reference) {
			f.config["rope_parameters"] = map[string]any{"rope_type": "default"}
		}},
		{"tensors of no use", "F32", func(f *fake, _ *reference) {
			f.add("model.layers.0.self_attn.rotary_emb.inv_freq", 4)
			f.kinds = map[string]string{"model.layers.0.self_attn.rotary_emb.inv_freq": "F8_E8M0"}
		}},
		{"one key/value head for all", "F32", func(f *fake, r *reference) {
			r.kv = 1
			f.config["num_key_value_heads"] = 1
			for _, at := range []string{"model.layers.0.self_attn.", "model.layers.1.self_attn."} {
				f.add(at+"k_proj.weight", 8, 24)
				f.add(at+"v_proj.weight", 8, 24)
			}
		}},
		{"left out and newer names", "F32", func(f *fake, r *reference) {
			delete(f.config, "num_key_value_heads")
			delete(f.config, "head_dim")
			delete(f.config, "rope_theta")
			f.config["eos_token_id"] = []int{18, 19}
			f.config["num_attention_heads"], f.config["rope_parameters"] = 3,
				map[string]any{"rope_type": "default", "rope_theta": 700}
			r.heads, r.kv, r.theta = 3, 3, 700
			for _, at := range []string{"model.layers.0.self_attn.", "model.layers.1.self_attn."} {
				for _, name := range []string{"q", "k", "v", "o"} {
					f.add(at+name+"_proj.weight", 24, 24)
				}
			}
		}},
		{"rotations of Llama 3.1", "F32", func(f *fake, r *reference) {
			r.factor, r.low, r.high, r.original = 8, 1, 4, 64
			f.config["rope_scaling"] = map[string]any{"rope_type": "llama3", "factor": 8,
				"low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 64}
		}},
		{"rotations of YaRN", "F32", func(f *fake, r *reference) {
			r.factor, r.original, r.yarn = 4, 64, true
			f.config["rope_scaling"] = map[string]any{"type": "yarn", "factor": 4,
				"original_max_position_embeddings": 64}
		}},
		{"YaRN of two magnitudes", "F32", func(f *fake, r *reference) {
			r.factor, r.original, r.yarn = 4, 64, true
			r.magnitude = (0.1*0.7*math.Log(4) + 1) / (0.1*1.5*math.Log(4) + 1)
			f.config["rope_scaling"] = map[string]any{"type": "yarn", "factor": 4, "mscale": 0.7,
				"mscale_all_dim": 1.5, "original_max_position_embeddings": 64}
		}},
		{"YaRN of two equal magnitudes", "F32", func(f *fake, r *reference) {
			r.factor, r.original, r.yarn, r.magnitude = 4, 64, true, 1
			f.config["rope_parameters"] = map[string]any{"rope_type": "yarn", "factor": 4, "mscale": 1.0,
				"mscale_all_dim": 1.0, "original_max_position_embeddings": 64,
				"max_position_embeddings": 256}
		}},
		{"YaRN of one magnitude", "F32", func(f *fake, r *reference) {
			r.factor, r.original, r.yarn = 4, 64, true
			f.config["rope_scaling"] = map[string]any{"type": "yarn", "factor": 4, "mscale": 0.7,
				"original_max_position_embeddings": 64, "finetuned": true}
		}},
		{"a magnitude besides two", "F32", func(f *fake, r *reference) {
			r.factor, r.original, r.yarn, r.magnitude = 4, 64, true, 1.25
			f.config["rope_scaling"] = map[string]any{"type": "yarn", "factor": 4, "mscale": 1,
				"mscale_all_dim": 2, "attention_factor": 1.25, "original_max_position_embeddings": 64}
		}},
		{"a class of others", "F32", func(f *fake, _ *reference) {
			f.config["architectures"] = []string{"LlavaLlamaForCausalLM"}
		}},
		{"YaRN as newer files have it", "F32", func(f *fake, r *reference) {
			r.factor, r.original, r.yarn = 2, 512, true
			f.config["rope_parameters"] = map[string]any{"rope_type": "yarn", "factor": 2,
				"beta_fast": 32, "beta_slow": 1, "attention_factor": 0.1*math.Log(2) + 1}
		}},
		{"qwen3", "F32", func(f *fake, _ *reference) {
			f.config["model_type"] = "qwen3"
			for _, at := range []string{"model.layers.0.", "model.layers.1."} {
				f.add(at+"self_attn.q_norm.weight", 8)
				f.add(at+"self_attn.k_norm.weight", 8)
			}
		}},
		{"biases of qwen3, and a window", "F32", func(f *fake, r *reference) {
			f.config["model_type"], f.config["attention_bias"] = "qwen3", true
			f.config["sliding_window"], f.config["use_sliding_window"] = 7, true
			f.config["max_window_layers"], r.windows = 1, map[int]int{1: 7}
			addBiases(f, "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj")
			for _, at := range []string{"model.layers.0.", "model.layers.1."} {
				f.add(at+"self_attn.q_norm.weight", 8)
				f.add(at+"self_attn.k_norm.weight", 8)
			}
		}},
		{"linear rotations", "F32", func(f *fake, r *reference) {
			r.factor, r.linear = 2.5, true
			f.config["rope_scaling"] = map[string]any{"type": "linear", "factor": 2.5}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, r := newFake(c.kind), base
			c.change(f, &r)
			r.f = f
			m, _, err := (&options{model: f.write(t), weights: -1}).open()
			must(t, err)
			if eos, ok := f.config["eos_token_id"].([]int); ok && !slices.Equal(m.Stop, eos) || !ok &&
				len(m.Stop) > 1 {
				t.Errorf("answers stop at %v, want %v", m.Stop, f.config["eos_token_id"])
			}
			prompt := []int{3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4, 6, 2, 6, 4, 3, 3, 8,
				3, 2, 7, 9, 5, 0, 2, 8, 8, 4, 1, 9, 7}
			for _, textbook := range []bool{false, true} {
				compareLogits(t, m, textbook, prompt, r.logits(prompt))
			}
		})
	}
}

// addBiases adds a bias to matrices of both layers.
func addBiases(f *fake, names ...string) {
	for _, at := range []string{"model.layers.0.", "model.layers.1."} {
		for _, name := range names {
			f.add(at+name+".bias", f.tensors[at+name+".weight"].shape[0])
		}
	}
}

// compareLogits allows for the rounding of float32.
func compareLogits(t *testing.T, m *model, textbook bool, prompt []int, want []float64) {
	t.Helper()
	got := firstLogits(t, m, settings{workers: 2, places: 1, chunk: 16, context: 64}, textbook, prompt)
	worst, size := 0.0, 0.0
	for i, x := range got {
		worst, size = max(worst, math.Abs(float64(x)-want[i])), max(size, math.Abs(want[i]))
	}
	if !(worst < 1e-5*size) {
		t.Errorf("textbook %v: logits differ by %v from those of float64, the largest of which is %v",
			textbook, worst, size)
	}
}

// firstLogits returns the logits after a prompt.
func firstLogits(t *testing.T, m *model, s settings, textbook bool, prompt []int) []float32 {
	t.Helper()
	e, err := newTester(m, s)
	must(t, err)
	defer e.close()
	if textbook {
		e.runner.cache = newTextbook(e.engine)
	}
	var logits []float32
	e.queue((&call{prompt: prompt, most: 1, choose: func(x []float32) int {
		logits = append(logits, x...)
		return 0
	}}))
	must(t, e.answer())
	return logits
}
