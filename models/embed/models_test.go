package embed

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/nlpodyssey/safetensors"
	"github.com/seed-1415985d/attn/models/internal/weights/foldertest"
)

// kindTest is a small folder of a kind of model, and what it computes in float64, one number at a
// time, as its authors' code has it.
type kindTest struct {
	kind    string
	config  map[string]any
	shapes  map[string][]int
	rows    func(w numbers, ids, segments []int) [][]float64
	tooLong int // how many tokens a text has at most
}

// The sizes of all.
const (
	wide, heads3, width10 = foldertest.Wide, foldertest.Heads, foldertest.Wide / foldertest.Heads
	inner, words, side4   = foldertest.Inner, foldertest.Words, foldertest.Side
)

// Helpers for tensors.
var linears, norms, shapesOf = foldertest.Linears, foldertest.Norms, foldertest.Layered

// encoder is what the kinds have in common: a sum of rows, then layers.
type encoder struct {
	w             numbers
	epsilon       float64
	first, layers int    // that run computes
	at            string // of a layer
	q, k, v, qkv  string
	out, up, down string
	norm1, norm2  string
	after1        string // norms of outputs, "" for none
	after2        string
	norm          func(name string, x []float64) []float64
	score         func(layer, head, query, key int, s float64) float64 // −Inf hides a key
	scoreOf       func(layer, head, query, key int, q, k []float64) float64
	turn          func(layer, position int, x []float64) []float64 // a head of queries or keys
	network       func(at string, x []float64) []float64
	preNorm       bool
	keyHeads      int
	width, heads  int
}

func (e *encoder) run(x [][]float64) [][]float64 {
	for i := e.first; i < e.first+e.layers; i++ {
		at := strings.ReplaceAll(e.at, "%d", fmt.Sprint(i))
		norm := func(name string, x []float64) []float64 {
			if _, ok := e.w[at+name+".weight"]; !ok || name == "" {
				return x // ModernBERT's first
			}
			return e.norm(at+name, x)
		}
		in := slices.Clone(x)
		if e.preNorm {
			for j := range in {
				in[j] = norm(e.norm1, in[j])
			}
		}
		attended := e.attention(i, at, in)
		for j := range x {
			x[j] = plus(x[j], norm(e.after1, e.w.linear(at+e.out, attended[j])))
			if e.preNorm {
				x[j] = plus(x[j], norm(e.after2, e.network(at, norm(e.norm2, x[j]))))
			} else {
				x[j] = norm(e.norm1, x[j])
				x[j] = norm(e.norm2, plus(x[j], e.network(at, x[j])))
			}
		}
	}
	return x
}

func (e *encoder) attention(layer int, at string, x [][]float64) (out [][]float64) {
	heads, keyHeads, width := e.heads, e.keyHeads, e.width
	var q, k, v [][]float64
	for i, row := range x {
		var a, b, c []float64
		if e.qkv != "" {
			all := e.w.linear(at+e.qkv, row)
			n := len(all) / 3
			a, b, c = all[:n], all[n:2*n], all[2*n:]
		} else {
			a, b, c = e.w.linear(at+e.q, row), e.w.linear(at+e.k, row), e.w.linear(at+e.v, row)
		}
		turned := func(x []float64, norm string) (all []float64) {
			for h := 0; h < len(x); h += width {
				one := x[h : h+width]
				if w, ok := e.w[at+norm+".weight"]; ok && norm != "" {
					one = rms(one, w)
				}
				if e.turn != nil {
					one = e.turn(layer, i, one)
				}
				all = append(all, one...)
			}
			return all
		}
		q, k, v = append(q, turned(a, "self_attn.q_norm")), append(k, turned(b, "self_attn.k_norm")),
			append(v, c)
	}
	for i := range x {
		var row []float64
		for h := range heads {
			g := h / (heads / keyHeads) * width
			head, total := make([]float64, width), 0.0
			for j := range x {
				s := dot(q[i][h*width:][:width], k[j][g:][:width]) / math.Sqrt(float64(width))
				if e.score != nil {
					s = e.score(layer, h, i, j, s)
				}
				if e.scoreOf != nil {
					s = e.scoreOf(layer, h, i, j, q[i][h*width:][:width], k[j][g:][:width])
				}
				p := math.Exp(s)
				head, total = plus(head, scaled(v[j][g:][:width], p)), total+p
			}
			row = append(row, scaled(head, 1/total)...)
		}
		out = append(out, row)
	}
	return out
}

// layerNorm has an epsilon, and a bias if there is one.
func (w numbers) layerNorm(name string, x []float64, epsilon float64) []float64 {
	mean, variance, out := 0.0, 0.0, make([]float64, len(x))
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		variance += (v - mean) * (v - mean) / float64(len(x))
	}
	for i, v := range x {
		out[i] = (v - mean) / math.Sqrt(variance+epsilon) * w[name+".weight"][i]
		if bias := w[name+".bias"]; bias != nil {
			out[i] += bias[i]
		}
	}
	return out
}

func rms(x, weight []float64) []float64 {
	out := make([]float64, len(x))
	for i := range x {
		out[i] = x[i] / math.Sqrt(dot(x, x)/float64(len(x))+1e-6) * weight[i]
	}
	return out
}

func geluOf(v float64) float64 { return v / 2 * (1 + math.Erf(v/math.Sqrt2)) }
func siluOf(v float64) float64 { return v / (1 + math.Exp(-v)) }

// gated is f(gate)·up.
func gated(gate, up []float64, f func(float64) float64) []float64 {
	out := make([]float64, len(gate))
	for i := range out {
		out[i] = f(gate[i]) * up[i]
	}
	return out
}

// rotated turns the pairs (i, i + n/2).
func rotated(x []float64, position int, frequency func(i int) float64) []float64 {
	n := len(x) / 2
	out := make([]float64, len(x))
	for i := range n {
		sin, cos := math.Sincos(float64(position) * frequency(i))
		out[i], out[i+n] = x[i]*cos-x[i+n]*sin, x[i+n]*cos+x[i]*sin
	}
	return out
}

func power(base float64, width int) func(i int) float64 {
	return func(i int) float64 { return math.Pow(base, -2*float64(i)/float64(width)) }
}

// sumOf are rows of tables added up.
func (w numbers) sumOf(i, n int, at map[string]int) []float64 {
	row := make([]float64, n)
	for name, index := range at {
		row = plus(row, w[name+".weight"][index*n:][:n])
	}
	return row
}

func bertLike(w numbers, epsilon float64) *encoder {
	e := &encoder{w: w, epsilon: epsilon, layers: 2, heads: heads3, keyHeads: heads3, width: width10}
	e.norm = func(name string, x []float64) []float64 { return w.layerNorm(name, x, epsilon) }
	e.network = func(at string, x []float64) []float64 {
		mid := w.linear(at+e.up, x)
		for i, v := range mid {
			mid[i] = geluOf(v)
		}
		return w.linear(at+e.down, mid)
	}
	return e
}

// positionsOf are RoBERTa's: a token that fills texts up does not count.
func positionsOf(ids []int, pad int) (at []int) {
	next := pad + 1
	for _, id := range ids {
		if id == pad {
			at = append(at, pad)
			continue
		}
		at = append(at, next)
		next++
	}
	return at
}

func kindTests() []kindTest {
	base := func(more map[string]any) map[string]any {
		c := map[string]any{"hidden_size": wide, "num_hidden_layers": 2,
			"num_attention_heads": heads3, "intermediate_size": inner, "vocab_size": words}
		maps.Copy(c, more)
		return c
	}
	var list []kindTest
	add := func(k kindTest) { list = append(list, k) }

	roberta := map[string][]int{"embeddings.word_embeddings.weight": {words, wide},
		"embeddings.position_embeddings.weight":   {25, wide},
		"embeddings.token_type_embeddings.weight": {1, wide}}
	norms(roberta, "embeddings.LayerNorm")
	in := map[string][]int{}
	at := "encoder.layer.%d."
	linears(in, wide, wide, at+"attention.self.query", at+"attention.self.key",
		at+"attention.self.value", at+"attention.output.dense")
	linears(in, wide, inner, at+"intermediate.dense")
	linears(in, inner, wide, at+"output.dense")
	norms(in, at+"attention.output.LayerNorm", at+"output.LayerNorm")
	bert := maps.Clone(roberta)
	bert["embeddings.token_type_embeddings.weight"] = []int{2, wide}
	bert["embeddings.position_embeddings.weight"] = []int{20, wide}
	add(kindTest{"bert", base(map[string]any{"max_position_embeddings": 20, "type_vocab_size": 2}),
		shapesOf(2, bert, in), func(w numbers, ids, segments []int) (x [][]float64) {
			e := bertLike(w, 1e-12)
			e.at, e.q, e.k, e.v = at, "attention.self.query", "attention.self.key", "attention.self.value"
			e.out, e.up, e.down = "attention.output.dense", "intermediate.dense", "output.dense"
			e.norm1, e.norm2 = "attention.output.LayerNorm", "output.LayerNorm"
			for i, id := range ids {
				row := w.sumOf(i, wide, map[string]int{"embeddings.word_embeddings": id,
					"embeddings.position_embeddings": i, "embeddings.token_type_embeddings": segments[i]})
				x = append(x, e.norm("embeddings.LayerNorm", row))
			}
			return e.run(x)
		}, 20})
	for _, kind := range []string{"roberta", "xlm-roberta", "camembert"} {
		add(kindTest{kind, base(map[string]any{"max_position_embeddings": 25, "type_vocab_size": 1,
			"pad_token_id": 4}), shapesOf(2, roberta, in),
			func(w numbers, ids, _ []int) (x [][]float64) {
				e := bertLike(w, 1e-5)
				e.at, e.q, e.k, e.v = at, "attention.self.query", "attention.self.key", "attention.self.value"
				e.out, e.up, e.down = "attention.output.dense", "intermediate.dense", "output.dense"
				e.norm1, e.norm2 = "attention.output.LayerNorm", "output.LayerNorm"
				for i, place := range positionsOf(ids, 4) {
					row := w.sumOf(i, wide, map[string]int{"embeddings.word_embeddings": ids[i],
						"embeddings.position_embeddings": place, "embeddings.token_type_embeddings": 0})
					x = append(x, e.norm("embeddings.LayerNorm", row))
				}
				return e.run(x)
			}, 20})
	}

	distil := map[string][]int{"distilbert.embeddings.word_embeddings.weight": {words, wide},
		"distilbert.embeddings.position_embeddings.weight": {20, wide}}
	norms(distil, "distilbert.embeddings.LayerNorm")
	in = map[string][]int{}
	dat := "distilbert.transformer.layer.%d."
	linears(in, wide, wide, dat+"attention.q_lin", dat+"attention.k_lin", dat+"attention.v_lin",
		dat+"attention.out_lin")
	linears(in, wide, inner, dat+"ffn.lin1")
	linears(in, inner, wide, dat+"ffn.lin2")
	norms(in, dat+"sa_layer_norm", dat+"output_layer_norm")
	add(kindTest{"distilbert", map[string]any{"dim": wide, "n_layers": 2, "n_heads": heads3,
		"hidden_dim": inner, "vocab_size": words, "max_position_embeddings": 20,
		"activation": "gelu", "sinusoidal_pos_embds": false}, shapesOf(2, distil, in),
		func(w numbers, ids, _ []int) (x [][]float64) {
			e := bertLike(w, 1e-12)
			e.at, e.q, e.k, e.v = dat, "attention.q_lin", "attention.k_lin", "attention.v_lin"
			e.out, e.up, e.down = "attention.out_lin", "ffn.lin1", "ffn.lin2"
			e.norm1, e.norm2 = "sa_layer_norm", "output_layer_norm"
			for i, id := range ids {
				row := w.sumOf(i, wide, map[string]int{"distilbert.embeddings.word_embeddings": id,
					"distilbert.embeddings.position_embeddings": i})
				x = append(x, e.norm("distilbert.embeddings.LayerNorm", row))
			}
			return e.run(x)
		}, 20})

	mpnet := map[string][]int{"embeddings.word_embeddings.weight": {words, wide},
		"embeddings.position_embeddings.weight":  {22, wide},
		"encoder.relative_attention_bias.weight": {32, heads3}}
	norms(mpnet, "embeddings.LayerNorm")
	in = map[string][]int{}
	linears(in, wide, wide, at+"attention.attn.q", at+"attention.attn.k", at+"attention.attn.v",
		at+"attention.attn.o")
	linears(in, wide, inner, at+"intermediate.dense")
	linears(in, inner, wide, at+"output.dense")
	norms(in, at+"attention.LayerNorm", at+"output.LayerNorm")
	add(kindTest{"mpnet", base(map[string]any{"max_position_embeddings": 22,
		"layer_norm_eps": 1e-5, "relative_attention_num_buckets": 32}), shapesOf(2, mpnet, in),
		func(w numbers, ids, _ []int) (x [][]float64) {
			e := bertLike(w, 1e-5)
			e.at, e.q, e.k, e.v = at, "attention.attn.q", "attention.attn.k", "attention.attn.v"
			e.out, e.up, e.down = "attention.attn.o", "intermediate.dense", "output.dense"
			e.norm1, e.norm2 = "attention.LayerNorm", "output.LayerNorm"
			e.score = func(_, head, query, key int, s float64) float64 {
				return s + w["encoder.relative_attention_bias.weight"][t5Bucket(key-query)*heads3+head]
			}
			for i, place := range positionsOf(ids, 1) {
				row := w.sumOf(i, wide, map[string]int{"embeddings.word_embeddings": ids[i],
					"embeddings.position_embeddings": place})
				x = append(x, e.norm("embeddings.LayerNorm", row))
			}
			return e.run(x)
		}, 20})

	modern := map[string][]int{"model.embeddings.tok_embeddings.weight": {words, wide},
		"model.embeddings.norm.weight": {wide}, "model.final_norm.weight": {wide}}
	mat := "model.layers.%d."
	modernIn := map[string][]int{mat + "attn.Wqkv.weight": {3 * wide, wide},
		mat + "attn.Wo.weight": {wide, wide}, mat + "mlp_norm.weight": {wide},
		mat + "mlp.Wi.weight": {2 * inner, wide}, mat + "mlp.Wo.weight": {wide, inner},
		mat + "attn_norm.weight": {wide}}
	shapes := shapesOf(4, modern, modernIn)
	delete(shapes, "model.layers.0.attn_norm.weight")
	add(kindTest{"modernbert", base(map[string]any{"num_hidden_layers": 4, "local_attention": 6,
		"max_position_embeddings": 20, "norm_eps": 1e-5, "global_rope_theta": 160000.0,
		"local_rope_theta": 10000.0, "global_attn_every_n_layers": 3,
		"classifier_activation": "silu"}), shapes,
		func(w numbers, ids, _ []int) (x [][]float64) {
			e := bertLike(w, 1e-5)
			e.layers, e.at, e.qkv, e.out, e.preNorm = 4, mat, "attn.Wqkv", "attn.Wo", true
			e.norm1, e.norm2 = "attn_norm", "mlp_norm"
			e.network = func(at string, x []float64) []float64 {
				both := w.linear(at+"mlp.Wi", x)
				return w.linear(at+"mlp.Wo", gated(both[:inner], both[inner:], geluOf))
			}
			e.score = func(layer, _, query, key int, s float64) float64 {
				if modernLocal(layer) && max(query-key, key-query) > 3 {
					return math.Inf(-1)
				}
				return s
			}
			e.turn = func(layer, position int, x []float64) []float64 {
				base := 160000.0
				if modernLocal(layer) {
					base = 10000
				}
				return rotated(x, position, power(base, width10))
			}
			for _, id := range ids {
				x = append(x, e.norm("model.embeddings.norm",
					w["model.embeddings.tok_embeddings.weight"][id*wide:][:wide]))
			}
			x = e.run(x)
			for i := range x {
				x[i] = e.norm("model.final_norm", x[i])
			}
			return x
		}, 20})

	nomic := map[string][]int{"embeddings.word_embeddings.weight": {words, wide},
		"embeddings.token_type_embeddings.weight": {2, wide}}
	norms(nomic, "emb_ln")
	nat := "encoder.layers.%d."
	in = map[string][]int{nat + "attn.Wqkv.weight": {3 * wide, wide},
		nat + "attn.out_proj.weight": {wide, wide}, nat + "mlp.fc11.weight": {inner, wide},
		nat + "mlp.fc12.weight": {inner, wide}, nat + "mlp.fc2.weight": {wide, inner}}
	norms(in, nat+"norm1", nat+"norm2")
	add(kindTest{"nomic_bert", map[string]any{"n_embd": wide, "n_layer": 2, "n_head": heads3,
		"n_inner": inner, "vocab_size": words, "n_positions": 20, "type_vocab_size": 2,
		"activation_function": "swiglu", "rotary_emb_base": 1000, "rotary_emb_fraction": 1.0,
		"auto_map": map[string]string{"AutoModel": "x"}, "qkv_proj_bias": false, "prenorm": false},
		shapesOf(2, nomic, in), func(w numbers, ids, segments []int) (x [][]float64) {
			e := bertLike(w, 1e-12)
			e.at, e.qkv, e.out, e.norm1, e.norm2 = nat, "attn.Wqkv", "attn.out_proj", "norm1", "norm2"
			e.network = func(at string, x []float64) []float64 {
				return w.linear(at+"mlp.fc2", gated(w.linear(at+"mlp.fc12", x), w.linear(at+"mlp.fc11", x),
					siluOf))
			}
			e.turn = func(_, position int, x []float64) []float64 {
				return rotated(x, position, power(1000, width10))
			}
			for i, id := range ids {
				row := w.sumOf(i, wide, map[string]int{"embeddings.word_embeddings": id,
					"embeddings.token_type_embeddings": segments[i]})
				x = append(x, e.norm("emb_ln", row))
			}
			return e.run(x)
		}, 20})
	add(t5Test("relu", "1.DenseReluDense.wi"))
	add(debertaTest(nil))
	add(gemmaTest())
	add(jinaTest())
	add(nomicExpertsTest())
	return append(list, decoderTests(base)...)
}

func decoderTests(base func(more map[string]any) map[string]any) (list []kindTest) {
	const pairs = 8 // a power of two
	gte := map[string][]int{"new.embeddings.word_embeddings.weight": {words, 48},
		"new.embeddings.LayerNorm.weight": {48}, "new.embeddings.LayerNorm.bias": {48}}
	at := "new.encoder.layer.%d."
	in := map[string][]int{at + "mlp.up_gate_proj.weight": {2 * inner, 48}}
	linears(in, 48, 3*48, at+"attention.qkv_proj")
	linears(in, 48, 48, at+"attention.o_proj")
	linears(in, inner, 48, at+"mlp.down_proj")
	for _, name := range []string{"attn_ln", "mlp_ln"} {
		in[at+name+".weight"], in[at+name+".bias"] = []int{48}, []int{48}
	}
	list = append(list, kindTest{"new", base(map[string]any{"hidden_size": 48, "type_vocab_size": 0,
		"max_position_embeddings": 20, "position_embedding_type": "rope", "rope_theta": 500000,
		"rope_scaling": map[string]any{"type": "ntk", "factor": 2.0}, "pack_qkv": true}),
		shapesOf(2, gte, in), func(w numbers, ids, _ []int) (x [][]float64) {
			e := bertLike(w, 1e-12)
			e.width, e.at, e.qkv, e.out = 16, at, "attention.qkv_proj", "attention.o_proj"
			e.norm1, e.norm2 = "attn_ln", "mlp_ln"
			e.network = func(at string, x []float64) []float64 {
				both := w.linear(at+"mlp.up_gate_proj", x)
				return w.linear(at+"mlp.down_proj", gated(both[inner:], both[:inner], geluOf))
			}
			e.turn = func(_, position int, x []float64) []float64 {
				return rotated(x, position, func(i int) float64 {
					return math.Pow(2*500000, -float64(i)/pairs) / math.Pow(2, 1.0/pairs)
				})
			}
			for _, id := range ids {
				x = append(x, e.norm("new.embeddings.LayerNorm",
					w["new.embeddings.word_embeddings.weight"][id*48:][:48]))
			}
			return e.run(x)
		}, 20})

	qwen := map[string][]int{"model.embed_tokens.weight": {words, wide}, "model.norm.weight": {wide}}
	qat := "model.layers.%d."
	in = map[string][]int{qat + "self_attn.q_proj.weight": {4 * 8, wide},
		qat + "self_attn.k_proj.weight": {2 * 8, wide}, qat + "self_attn.v_proj.weight": {2 * 8, wide},
		qat + "self_attn.o_proj.weight": {wide, 4 * 8}, qat + "self_attn.q_norm.weight": {8},
		qat + "self_attn.k_norm.weight": {8}, qat + "mlp.gate_proj.weight": {inner, wide},
		qat + "mlp.up_proj.weight": {inner, wide}, qat + "mlp.down_proj.weight": {wide, inner},
		qat + "input_layernorm.weight": {wide}, qat + "post_attention_layernorm.weight": {wide}}
	return append(list, kindTest{"qwen3", base(map[string]any{"num_attention_heads": 4,
		"num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 20, "rms_norm_eps": 1e-6,
		"rope_theta": 1000000, "hidden_act": "silu", "attention_bias": false}),
		shapesOf(2, qwen, in), qwenRows, 20})
}

// qwenRows is the decoder in float64.
func qwenRows(w numbers, ids, _ []int) (x [][]float64) {
	e := bertLike(w, 1e-6)
	e.heads, e.keyHeads, e.width, e.preNorm = 4, 2, 8, true
	e.at, e.q, e.k, e.v = "model.layers.%d.", "self_attn.q_proj", "self_attn.k_proj",
		"self_attn.v_proj"
	e.out, e.norm1, e.norm2 = "self_attn.o_proj", "input_layernorm", "post_attention_layernorm"
	e.norm = func(name string, x []float64) []float64 { return rms(x, w[name+".weight"]) }
	e.network = func(at string, x []float64) []float64 {
		return w.linear(at+"mlp.down_proj", gated(w.linear(at+"mlp.gate_proj", x),
			w.linear(at+"mlp.up_proj", x), siluOf))
	}
	e.turn = func(_, position int, x []float64) []float64 {
		return rotated(x, position, power(1000000, 8))
	}
	e.score = func(_, _, query, key int, s float64) float64 {
		if key > query {
			return math.Inf(-1)
		}
		return s
	}
	for _, id := range ids {
		x = append(x, w["model.embed_tokens.weight"][id*wide:][:wide])
	}
	x = e.run(x)
	for i := range x {
		x[i] = e.norm("model.norm", x[i])
	}
	return x
}

// t5Bucket is as T5's code has it, in float64.
func t5Bucket(distance int) int {
	first, n := 0, -distance
	if n < 0 {
		first, n = 16, -n
	}
	if n < 8 {
		return first + n
	}
	return first + min(15, 8+int(math.Log(float64(n)/8)/math.Log(16)*8+1e-9))
}

// writeKind writes the folder of a kind, with WordPiece for all.
func writeKind(t *testing.T, k *kindTest, kind safetensors.DType) (string, numbers) {
	t.Helper()
	views, values := foldertest.Tensors(t, kind, k.shapes)
	path := t.TempDir()
	writeTensors(t, path, views)
	config := maps.Clone(k.config)
	if config["model_type"] == nil {
		config["model_type"] = k.kind
	}
	write(t, path, "config.json", encode(t, config))
	write(t, path, "vocab.txt", []byte(foldertest.TinyVocabulary))
	write(t, path, "modules.json", fmt.Appendf(nil, threeModules, andNormalize))
	write(t, path, "1_Pooling/config.json", []byte(`{"pooling_mode": ["cls", "mean", "lasttoken"]}`))
	return path, numbers(values)
}

// TestKindsAgainstFloat64 compares each kind of model with its definition in float64, and its
// vectors in a batch with vectors of texts alone.
func TestKindsAgainstFloat64(t *testing.T) {
	texts := append(slices.Clone(ragged), "cat un believ, cat!", "zurich cat 中 cat, un, cat! zurich")
	for _, k := range kindTests() {
		checkKind(t, &k, texts)
	}
}

// checkKind compares the vectors of texts with the definition.
func checkKind(t *testing.T, k *kindTest, texts []string) {
	t.Helper()
	path, values := writeKind(t, k, safetensors.F32)
	m := mustOpen(t, path, Options{Workers: 2})
	if got := m.MaxTokens(); got != k.tooLong {
		t.Errorf("%s: MaxTokens is %d, want %d", k.kind, got, k.tooLong)
	}
	got, worst := inEveryCompany(t, m, nil, texts), 0.0
	for i, text := range texts {
		ids := idsOf(t, m, text)
		rows := k.rows(values, ids, make([]int, len(ids)))
		want := slices.Concat(rows[0], meanOf(rows), rows[len(rows)-1])
		want = scaled(want, 1/math.Sqrt(dot(want, want)))
		for j, x := range want {
			worst = max(worst, math.Abs(float64(got[i][j])-x))
		}
	}
	t.Logf("%s: largest difference %.1e", k.kind, worst)
	if !(worst < 3e-6) {
		t.Errorf("%s: largest difference %.1e, want less than 3e-6", k.kind, worst)
	}
}

func meanOf(rows [][]float64) []float64 {
	sum := make([]float64, len(rows[0]))
	for _, row := range rows {
		sum = plus(sum, row)
	}
	return scaled(sum, 1/float64(len(rows)))
}

// modernLocal says which layers of the modernbert of kindTests are local.
var modernLocal = func(layer int) bool { return layer%3 != 0 }

// TestNewerKeys reads configs as transformers 5 writes them: layers and rotations by their types.
func TestNewerKeys(t *testing.T) {
	texts := []string{"cat", "unbelievable, zurich! cat, un, cat"}
	for _, k := range kindTests() {
		k.config = maps.Clone(k.config)
		full := map[string]any{"rope_type": "default", "rope_theta": 160000.0}
		switch k.kind {
		case "modernbert":
			sliding := map[string]any{"rope_type": "default", "rope_theta": 10000.0}
			k.config["rope_parameters"] = map[string]any{"full_attention": full,
				"sliding_attention": sliding}
			for _, key := range []string{"global_rope_theta", "local_rope_theta"} {
				delete(k.config, key)
			}
			pattern := []string{"sliding_attention", "sliding_attention", "full_attention",
				"sliding_attention"}
			k.config["layer_types"] = pattern
			defer func(f func(int) bool) { modernLocal = f }(modernLocal)
			modernLocal = func(layer int) bool { return pattern[layer] == "sliding_attention" }
		case "qwen3":
			k.config["rope_parameters"] = map[string]any{"rope_type": "default",
				"rope_theta": k.config["rope_theta"]}
			delete(k.config, "rope_theta")
			k.config["layer_types"] = slices.Repeat([]string{"full_attention"},
				k.config["num_hidden_layers"].(int))
		default:
			continue
		}
		checkKind(t, &k, texts)
	}
}

// TestPublishedConfigs reads configs with the keys that published models have.
func TestPublishedConfigs(t *testing.T) {
	training := map[string]any{"attention_probs_dropout_prob": 0.1, "classifier_dropout": nil,
		"hidden_dropout_prob": 0.1, "initializer_range": 0.02, "torch_dtype": "float32",
		"transformers_version": "4.44.2", "matryoshka_dimensions": []int{8}}
	for name, c := range map[string]struct {
		kind string
		more map[string]any
	}{
		"Arctic Embed L 2": {"xlm-roberta", map[string]any{"architectures": []string{"XLMRobertaModel"},
			"bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 1, "output_past": true,
			"layer_norm_eps": 1e-5, "position_embedding_type": "absolute", "use_cache": true}},
		"Granite Embedding 30M": {"roberta", map[string]any{"architectures": []string{"RobertaModel"},
			"bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 1, "layer_norm_eps": 1e-12,
			"position_embedding_type": "absolute", "gradient_checkpointing": false, "use_cache": true}},
		"Granite Embedding 97M R2": {"modernbert", map[string]any{"hidden_activation": "silu",
			"architectures": []string{"ModernBertModel"}, "classifier_activation": "gelu"}},
		"Arctic Embed M 2": {"new", map[string]any{"architectures": []string{"GteModel"},
			"model_type": "gte", "auto_map": map[string]any{"AutoModel": "modeling.GteModel"},
			"layer_norm_type": "layer_norm", "logn_attention_clip1": false, "pad_token_id": 1,
			"logn_attention_scale": false, "rope_scaling": nil, "rope_theta": 160000,
			"unpad_inputs": "true", "use_memory_efficient_attention": "true"}},
	} {
		k := kindNamed(t, c.kind)
		k.config = maps.Clone(k.config)
		maps.Copy(k.config, training)
		maps.Copy(k.config, c.more)
		path, _ := writeKind(t, &k, safetensors.F32)
		m, err := Open(path, Options{Workers: 1})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		mustEncode(t, m, "cat")
		_ = m.Close()
	}
}
