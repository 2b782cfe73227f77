package embed

import (
	"math"
	"testing"
)

// jinaTest is a small model of version 2 of Jina's embeddings.
func jinaTest() kindTest {
	outer := map[string][]int{"embeddings.word_embeddings.weight": {words, wide},
		"embeddings.token_type_embeddings.weight": {2, wide}}
	norms(outer, "embeddings.LayerNorm")
	in, at := map[string][]int{}, "encoder.layer.%d."
	linears(in, wide, wide, at+"attention.self.query", at+"attention.self.key",
		at+"attention.self.value", at+"attention.output.dense")
	in[at+"mlp.gated_layers.weight"] = []int{2 * inner, wide}
	linears(in, inner, wide, at+"mlp.wo")
	norms(in, at+"attention.output.LayerNorm", at+"mlp.layernorm")
	return kindTest{jinaGGUF, map[string]any{"model_type": "bert", "hidden_size": wide,
		"num_hidden_layers": 2, "num_attention_heads": heads3, "intermediate_size": inner,
		"vocab_size": words, "max_position_embeddings": 20, "position_embedding_type": "alibi",
		"feed_forward_type": "geglu", "emb_pooler": "mean", "attn_implementation": "torch",
		"hidden_act": "gelu"}, shapesOf(2, outer, in), func(w numbers, ids,
		segments []int) [][]float64 {
		e := bertLike(w, 1e-12)
		e.at, e.q, e.k, e.v = at, "attention.self.query", "attention.self.key", "attention.self.value"
		e.out, e.norm1, e.norm2 = "attention.output.dense", "attention.output.LayerNorm", "mlp.layernorm"
		e.network = func(at string, x []float64) []float64 {
			both := w.linear(at+"mlp.gated_layers", x)
			return w.linear(at+"mlp.wo", gated(both[:inner], both[inner:], geluOf))
		}
		return jinaRows(e, ids, func(i, id int) []float64 {
			return e.norm("embeddings.LayerNorm", w.sumOf(i, wide, map[string]int{
				"embeddings.word_embeddings": id, "embeddings.token_type_embeddings": segments[i]}))
		})
	}, 20}
}

// jinaRows runs an encoder with the slopes of 2 or 3 heads: 2⁻⁴, 2⁻⁸ and the first of four heads.
func jinaRows(e *encoder, ids []int, row func(i, id int) []float64) (x [][]float64) {
	e.score = func(_, head, query, key int, s float64) float64 {
		slope := []float64{1.0 / 16, 1.0 / 256, 1.0 / 4}[head]
		return s - slope*math.Abs(float64(query-key))
	}
	for i, id := range ids {
		x = append(x, row(i, id))
	}
	return e.run(x)
}

// TestALiBiSlopes has heads of a power of two, and others: the published model's 12.
func TestALiBiSlopes(t *testing.T) {
	for heads, want := range map[int][]float64{1: {8}, 2: {4, 8}, 3: {4, 8, 2},
		12: {1, 2, 3, 4, 5, 6, 7, 8, 0.5, 1.5, 2.5, 3.5},
		16: {.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 5.5, 6, 6.5, 7, 7.5, 8}} {
		got := alibiSlopes(heads)
		for i, exponent := range want {
			if got[i] != float32(math.Exp2(-exponent)) || len(got) != heads {
				t.Errorf("%d heads: slopes %v, want 2 to the power of minus %v", heads, got, want)
			}
		}
	}
}
