//go:build cgo

package main

// image adds a tower of images, from the rows of an image's patches to its vector.
func (b *onnxEncoder) image(s *encoder) {
	d, in := s.Hidden, 3*s.patch*s.patch
	b.inputs = []onnxValue{{"patches", onnxFloat, []int64{1, int64(s.patches()), int64(in)}, nil}}
	x := b.placed(s, b.product("patches", towerPatches, in, d))
	y := b.norm(x, towerImages+layerName(towerLayer, 0)+"layer_norm1", d)
	for b.layer = range s.Layers {
		x, y = b.towerLayer(s, x, y)
	}
	if s.sigmoid {
		y = b.pooled(s, y)
	} else {
		first := b.put(onnxValue{"first", onnxInt32, nil, bytesOf([]int32{0})})
		b.standard("Gather", []string{y, first}, []string{"class"},
			onnxAttribute{name: "axis", number: 1})
		y = b.product("class", projection, d, s.vector())
	}
	b.outputs = []onnxValue{{y, onnxFloat, []int64{-1, -1}, nil}}
	if s.sigmoid {
		b.outputs[0].dims = []int64{-1, -1, -1}
	}
}

// placed adds positions, and in a CLIP the row of the class and a norm.
func (b *onnxEncoder) placed(s *encoder, x string) string {
	d := int64(s.Hidden)
	add := func(to, of string) {
		b.standard("Add", []string{x, of}, []string{to})
		x = to
	}
	if s.sigmoid {
		add("patches biased", b.floats(towerPatches+".bias", d))
		add("placed", b.floats(towerPlaces, -1, d))
		return x
	}
	class := b.put(onnxValue{towerClass, onnxFloat, []int64{1, 1, d}, bytesOf(b.tensor(towerClass))})
	b.standard("Concat", []string{class, x}, []string{"rows"}, onnxAttribute{name: "axis", number: 1})
	x = "rows"
	add("placed", b.floats(towerPlaces, -1, d))
	return b.norm(x, towerFirst, s.Hidden)
}

// norm adds a norm.
func (b *onnxEncoder) norm(x, name string, d int) string {
	b.standard("LayerNormalization", []string{x, b.floats(name+".weight", int64(d)),
		b.floats(name+".bias", int64(d))}, []string{name},
		onnxAttribute{name: "axis", number: -1}, onnxAttribute{name: "epsilon", fraction: epsilon})
	return name
}

// towerLayer adds a layer, from the sum x of those before and its norm y to the next ones.
func (b *onnxEncoder) towerLayer(s *encoder, x, y string) (sum, next string) {
	at, d := towerImages+layerName(towerLayer, b.layer), s.Hidden
	names := []string{at + "self_attn.q_proj", at + "self_attn.k_proj", at + "self_attn.v_proj"}
	out, middle := at+"self_attn.out_proj", b.named("middle")
	attended := b.product(b.attention(y, names, d, s.Heads, ""), out, d, d)
	y = b.skip(attended, x, int64(d), at+"layer_norm2", out+".bias", "", "", middle)
	norm := towerLast
	if b.layer < s.Layers-1 {
		norm = towerImages + layerName(towerLayer, b.layer+1) + "layer_norm1"
	}
	sum = b.named("sum")
	y = b.network(s, y, at+"mlp.")
	return sum, b.skip(y, middle, int64(d), norm, at+"mlp.fc2.bias", "", "", sum)
}

// network adds two products and an activation, without the last bias.
func (b *onnxEncoder) network(s *encoder, y, at string) string {
	d, f, act := s.Hidden, s.FFN, b.named(at+"act")
	if s.sigmoid {
		up := b.product(y, at+"fc1", d, f)
		b.node("FastGelu", []string{up, b.floats(at+"fc1.bias", int64(f))}, []string{act})
	} else {
		b.node("QuickGelu", []string{b.biased(y, at+"fc1", d, f)}, []string{act},
			onnxAttribute{name: "alpha", fraction: 1.702})
	}
	return b.product(act, at+"fc2", f, d)
}

// pooled adds the attention of a learned query, and a network.
func (b *onnxEncoder) pooled(s *encoder, x string) string {
	d, at := s.Hidden, towerHead+"attention."
	in, biases, probe := b.tensor(at+"in_proj_weight"), b.tensor(at+"in_proj_bias"),
		b.tensor(towerHead+"probe")
	if b.err != nil {
		return ""
	}
	query := make([]float32, d)
	for i := range query {
		sum := float64(biases[i])
		for j, p := range probe {
			sum += float64(in[i*d+j]) * float64(p)
		}
		query[i], biases[i] = float32(sum), 0
	}
	both := b.matrix(x, "keys and values", d, 2*d, transposed(in[d*d:], 2*d, d))
	b.standard("Split", []string{both}, []string{"keys", "values"},
		onnxAttribute{name: "axis", number: -1})
	b.node("MultiHeadAttention", []string{b.constant("query", []int64{1, 1, int64(d)}, query), "keys",
		"values", b.constant("biases", []int64{int64(3 * d)}, biases)}, []string{"pooled"},
		onnxAttribute{name: "num_heads", number: s.Heads})
	x = b.biased("pooled", at+"out_proj", d, d)
	y := b.network(s, b.norm(x, towerHead+"layernorm", d), towerHead+"mlp.")
	b.standard("Add", []string{y, b.floats(towerHead+"mlp.fc2.bias", int64(d))}, []string{"moved"})
	b.standard("Add", []string{x, "moved"}, []string{"vector"})
	return "vector"
}

// patchRows returns the rows of numbers of an image's patches: channels, rows and columns of each.
func (s *encoder) patchRows() (x []float32) {
	picture, grid := s.picture(), s.image/s.patch
	for i := range s.patches() {
		for channel := range 3 {
			for at := range s.patch * s.patch {
				y, column := i/grid*s.patch+at/s.patch, i%grid*s.patch+at%s.patch
				b := picture.Pix[picture.PixOffset(column, y)+channel]
				x = append(x, (float32(b)/255-0.5)/0.5)
			}
		}
	}
	return x
}
