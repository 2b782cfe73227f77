package embed

import (
	"cmp"
	"slices"
)

// nomicExpertsTest is a small nomic-embed-text of version 2, whose second layer has experts.
func nomicExpertsTest() kindTest {
	const count, top = 5, 2
	outer := map[string][]int{"embeddings.word_embeddings.weight": {words, wide},
		"embeddings.token_type_embeddings.weight": {1, wide}}
	norms(outer, "emb_ln")
	in, at := map[string][]int{}, "encoder.layers.%d."
	linears(in, wide, 3*wide, at+"attn.Wqkv")
	linears(in, wide, wide, at+"attn.out_proj")
	norms(in, at+"norm1", at+"norm2")
	shapes := shapesOf(2, outer, in)
	linears(shapes, wide, inner, "encoder.layers.0.mlp.fc1")
	linears(shapes, inner, wide, "encoder.layers.0.mlp.fc2")
	second := "encoder.layers.1.mlp."
	shapes[second+"router.layer.weight"] = []int{count, wide}
	shapes[second+"experts.mlp.w1"] = []int{count * inner, wide}
	shapes[second+"experts.mlp.w2"] = []int{count * inner, wide}
	shapes[second+"experts.bias"] = []int{wide}
	return kindTest{"nomic_bert with experts", map[string]any{"model_type": "nomic_bert",
		"n_embd": wide, "n_layer": 2, "n_head": heads3, "n_inner": inner, "vocab_size": words,
		"n_positions": 20, "type_vocab_size": 1, "activation_function": "gelu",
		"rotary_emb_base": 10000, "rotary_emb_fraction": 1.0, "qkv_proj_bias": true,
		"mlp_fc1_bias": true, "mlp_fc2_bias": true, "moe_every_n_layers": 2, "num_experts": count,
		"moe_top_k": top, "moe_normalize_expert_weights": false, "num_shared_experts": 0,
		"expert_choice_router": false, "ffn_div": 1, "layer_norm_epsilon": 1e-5, "prenorm": false},
		shapes, func(w numbers, ids, segments []int) (x [][]float64) {
			e := bertLike(w, 1e-5)
			e.at, e.qkv, e.out, e.norm1, e.norm2 = at, "attn.Wqkv", "attn.out_proj", "norm1", "norm2"
			e.network = func(at string, x []float64) []float64 {
				if _, ok := w[at+"mlp.fc1.weight"]; ok {
					return w.linear(at+"mlp.fc2", each(w.linear(at+"mlp.fc1", x), geluOf))
				}
				return w.chosenExperts(at+"mlp.", x, count, top)
			}
			e.turn = func(_, position int, x []float64) []float64 {
				return rotated(x, position, power(10000, width10))
			}
			for i, id := range ids {
				x = append(x, e.norm("emb_ln", w.sumOf(i, wide, map[string]int{
					"embeddings.word_embeddings": id, "embeddings.token_type_embeddings": segments[i]})))
			}
			return e.run(x)
		}, 20}
}

// chosenExperts is the sum of the outputs of the experts that a row chooses, and a bias.
func (w numbers) chosenExperts(at string, x []float64, count, top int) []float64 {
	shares := softmaxOf(w.linear(at+"router.layer", x))
	var order []int
	for e := range count {
		order = append(order, e)
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(shares[b], shares[a]) })
	sum := slices.Clone(w[at+"experts.bias"])
	for _, e := range order[:top] {
		for f := range inner {
			row := (e*inner + f) * wide
			mid := geluOf(dot(w[at+"experts.mlp.w1"][row:][:wide], x)) * shares[e]
			sum = plus(sum, scaled(w[at+"experts.mlp.w2"][row:][:wide], mid))
		}
	}
	return sum
}
