package embed

import (
	"errors"
	"fmt"
	"image"
	"image/color"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/models/internal/weights/foldertest"
)

// imageTest is a small folder of a model of images, with its definition in float64 over pixels and
// over tokens.
type imageTest struct {
	name              string
	config, processor map[string]any
	shapes            map[string][]int
	size              rectangle // after preprocessing
	pixels            func(w numbers, patches [][]float64) []float64
	text              func(w numbers, ids []int) []float64 // nil for a model of images only
	classes           bool
}

// tower is a tower of CLIP or SigLIP in float64.
func tower(w numbers, prefix string, epsilon float64, activation func(float64) float64) *encoder {
	e := bertLike(w, epsilon)
	e.preNorm, e.at = true, prefix+"encoder.layers.%d."
	e.q, e.k, e.v, e.out = "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
		"self_attn.out_proj"
	e.norm1, e.norm2 = "layer_norm1", "layer_norm2"
	e.network = func(at string, x []float64) []float64 {
		return w.linear(at+"mlp.fc2", each(w.linear(at+"mlp.fc1", x), activation))
	}
	return e
}

func each(x []float64, f func(float64) float64) []float64 {
	y := make([]float64, len(x))
	for i := range x {
		y[i] = f(x[i])
	}
	return y
}

func quickGELU(x float64) float64 { return x / (1 + math.Exp(-1.702*x)) }
func geluTanh(x float64) float64 {
	return x / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
}

// row returns a row of a tensor.
func (w numbers) row(name string, i int) []float64 { return w[name][i*wide:][:wide] }

// textRows returns the rows of tokens before the layers.
func textRows(w numbers, ids []int) (x [][]float64) {
	for i, id := range ids {
		x = append(x, plus(w.row("text_model.embeddings.token_embedding.weight", id),
			w.row("text_model.embeddings.position_embedding.weight", i)))
	}
	return x
}

func clipImageTest(activation string, f func(float64) float64) imageTest {
	folder := foldertest.CLIP(activation)
	return imageTest{name: "clip", shapes: folder.Shapes, size: rectangle{12, 12},
		config: folder.Config, processor: folder.Processor,
		pixels: func(w numbers, patches [][]float64) []float64 {
			x := [][]float64{w["vision_model.embeddings.class_embedding"]}
			for _, p := range patches {
				x = append(x, w.linear("vision_model.embeddings.patch_embedding", p))
			}
			e := tower(w, "vision_model.", 1e-5, f)
			for i := range x {
				x[i] = e.norm("vision_model.pre_layrnorm",
					plus(x[i], w.row("vision_model.embeddings.position_embedding.weight", i)))
			}
			return w.linear("visual_projection", e.norm("vision_model.post_layernorm", e.run(x)[0]))
		},
		text: func(w numbers, ids []int) []float64 {
			return clipText(w, ids, max(0, slices.Index(ids, 1)), f)
		}}
}

// clipText returns the vector of the token at a place.
func clipText(w numbers, ids []int, at int, activation func(float64) float64) []float64 {
	e := tower(w, "text_model.", 1e-5, activation)
	e.score = func(_, _, query, key int, s float64) float64 {
		if key > query {
			return math.Inf(-1)
		}
		return s
	}
	x := e.run(textRows(w, ids))[at]
	return w.linear("text_projection", e.norm("text_model.final_layer_norm", x))
}

func siglipImageTest() imageTest {
	shapes := foldertest.TowerShapes("text_model.")
	maps.Copy(shapes, foldertest.TowerShapes("vision_model."))
	head := "vision_model.head."
	norms(shapes, "text_model.final_layer_norm", "vision_model.post_layernorm", head+"layernorm")
	maps.Copy(shapes, map[string][]int{"text_model.embeddings.token_embedding.weight": {words, wide},
		"text_model.embeddings.position_embedding.weight":   {9, wide},
		"vision_model.embeddings.patch_embedding.weight":    {wide, 3, side4, side4},
		"vision_model.embeddings.patch_embedding.bias":      {wide},
		"vision_model.embeddings.position_embedding.weight": {9, wide}, head + "probe": {1, 1, wide},
		head + "attention.in_proj_weight": {3 * wide, wide}, head + "attention.in_proj_bias": {3 * wide},
		"logit_scale": {1}, "logit_bias": {1}})
	linears(shapes, wide, wide, "text_model.head", head+"attention.out_proj")
	linears(shapes, wide, inner, head+"mlp.fc1")
	linears(shapes, inner, wide, head+"mlp.fc2")
	section := map[string]any{"hidden_size": wide, "intermediate_size": inner, "num_hidden_layers": 2,
		"num_attention_heads": heads3}
	text := map[string]any{"vocab_size": words, "max_position_embeddings": 9,
		"model_type": "siglip_text_model", "projection_size": wide}
	vision := map[string]any{"image_size": 12, "patch_size": side4, "vision_use_head": true}
	maps.Copy(text, section)
	maps.Copy(vision, section)
	return imageTest{name: "siglip", shapes: shapes, size: rectangle{12, 12},
		config: map[string]any{"text_config": text, "vision_config": vision, "initializer_factor": 1.0},
		processor: map[string]any{"image_processor_type": "SiglipImageProcessor", "resample": 2,
			"size": map[string]any{"height": 12, "width": 12}},
		pixels: func(w numbers, patches [][]float64) []float64 {
			var x [][]float64
			for i, p := range patches {
				x = append(x, plus(w.linear("vision_model.embeddings.patch_embedding", p),
					w.row("vision_model.embeddings.position_embedding.weight", i)))
			}
			e := tower(w, "vision_model.", 1e-6, geluTanh)
			x = e.run(x)
			for i := range x {
				x[i] = e.norm("vision_model.post_layernorm", x[i])
			}
			return siglipHead(w, e, head, x)
		},
		text: func(w numbers, ids []int) []float64 {
			ids = append(slices.Clone(ids), slices.Repeat([]int{11}, 9-len(ids))...)
			e := tower(w, "text_model.", 1e-6, geluTanh)
			x := e.run(textRows(w, ids))[8]
			return w.linear("text_model.head", e.norm("text_model.final_layer_norm", x))
		}}
}

// siglipHead is the attention of SigLIP's learned query.
func siglipHead(w numbers, e *encoder, at string, x [][]float64) []float64 {
	third := func(i int, x []float64) []float64 {
		v := numbers{"x.weight": w[at+"attention.in_proj_weight"][i*wide*wide:][:wide*wide],
			"x.bias": w[at+"attention.in_proj_bias"][i*wide:][:wide]}
		return v.linear("x", x)
	}
	q, attended := third(0, w[at+"probe"]), []float64(nil)
	for h := 0; h < wide; h += width10 {
		head, total := make([]float64, width10), 0.0
		for _, row := range x {
			p := math.Exp(dot(q[h:h+width10], third(1, row)[h:h+width10]) / math.Sqrt(width10))
			head, total = plus(head, scaled(third(2, row)[h:h+width10], p)), total+p
		}
		attended = append(attended, scaled(head, 1/total)...)
	}
	y := w.linear(at+"attention.out_proj", attended)
	return plus(y, w.linear(at+"mlp.fc2", each(w.linear(at+"mlp.fc1", e.norm(at+"layernorm", y)),
		geluTanh)))
}

// vitEncoder is an encoder of ViT and DINOv2 in float64.
func vitEncoder(w numbers, prefix string, epsilon float64) *encoder {
	e := bertLike(w, epsilon)
	e.preNorm, e.at = true, prefix+"encoder.layer.%d."
	e.q, e.k, e.v = "attention.attention.query", "attention.attention.key",
		"attention.attention.value"
	e.out = "attention.output.dense"
	return e
}

// vitRows returns the rows before the layers.
func vitRows(w numbers, prefix string, patches, positions [][]float64) [][]float64 {
	x := [][]float64{plus(w[prefix+"embeddings.cls_token"],
		w.row(prefix+"embeddings.position_embeddings", 0))}
	for i := range len(w[prefix+"embeddings.register_tokens"]) / wide {
		x = append(x, w.row(prefix+"embeddings.register_tokens", i))
	}
	for i, p := range patches {
		x = append(x, plus(w.linear(prefix+"embeddings.patch_embeddings.projection", p), positions[i]))
	}
	return x
}

func vitImageTest() imageTest {
	const prefix = "vit."
	folder := foldertest.ViT()
	vector := func(w numbers, patches [][]float64) []float64 {
		e := vitEncoder(w, prefix, 1e-12)
		e.norm1, e.norm2 = "layernorm_before", "layernorm_after"
		e.network = func(at string, x []float64) []float64 {
			return w.linear(at+"output.dense", each(w.linear(at+"intermediate.dense", x), geluOf))
		}
		var positions [][]float64
		for i := range patches {
			positions = append(positions, w.row(prefix+"embeddings.position_embeddings", i+1))
		}
		return e.norm(prefix+"layernorm", e.run(vitRows(w, prefix, patches, positions))[0])
	}
	return imageTest{name: "vit", shapes: folder.Shapes, size: rectangle{12, 12}, classes: true,
		config: folder.Config, processor: folder.Processor,
		pixels: vector}
}

// dinoImageTest is a DINOv2 with or without registers and SwiGLU, of a size after preprocessing.
func dinoImageTest(registers int, swiglu bool, size rectangle) imageTest {
	shapes := foldertest.ViTShapes("", 10)
	in, at := map[string][]int{}, "encoder.layer.%d."
	norms(in, at+"norm1", at+"norm2")
	in[at+"layer_scale1.lambda1"], in[at+"layer_scale2.lambda1"] = []int{wide}, []int{wide}
	c := imageTest{name: "dinov2", shapes: shapes, size: size,
		config: map[string]any{"hidden_size": wide, "num_hidden_layers": 2, "mlp_ratio": 1.5,
			"num_attention_heads": heads3, "image_size": 12, "patch_size": side4,
			"use_swiglu_ffn": swiglu, "layerscale_value": 1.0, "qkv_bias": true},
		processor: map[string]any{"image_processor_type": "BitImageProcessor",
			"size":      map[string]any{"shortest_edge": 17},
			"crop_size": map[string]any{"height": size.h, "width": size.w}}}
	up, down, ffn, units := "mlp.fc1", "mlp.fc2", 45, 45
	if swiglu { // 45·⅔, rounded up to a multiple of 8
		up, down, ffn, units = "mlp.weights_in", "mlp.weights_out", 32, 64
	}
	linears(in, wide, units, at+up)
	linears(in, ffn, wide, at+down)
	maps.Copy(shapes, shapesOf(2, map[string][]int{}, in))
	shapes["embeddings.mask_token"] = []int{1, wide}
	if registers > 0 {
		c.name, shapes["embeddings.register_tokens"] = "dinov2_with_registers", []int{1, registers, wide}
		c.config["num_register_tokens"] = registers
	}
	c.pixels = func(w numbers, patches [][]float64) []float64 {
		w = maps.Clone(w)
		for i := range 2 { // the matrices include the factors of outputs
			at := fmt.Sprintf("encoder.layer.%d.", i)
			w.scaleOutputs(at+"attention.output.dense", w[at+"layer_scale1.lambda1"])
			w.scaleOutputs(at+down, w[at+"layer_scale2.lambda1"])
		}
		e := vitEncoder(w, "", 1e-6)
		e.norm1, e.norm2 = "norm1", "norm2"
		e.network = func(at string, x []float64) []float64 {
			mid := w.linear(at+up, x)
			if swiglu {
				return w.linear(at+down, gated(mid[:ffn], mid[ffn:], siluOf))
			}
			return w.linear(at+down, each(mid, geluOf))
		}
		grid := rectangle{size.h / side4, size.w / side4}
		positions := torchBicubic(w["embeddings.position_embeddings"][wide:], 3, grid, registers > 0)
		return e.norm("layernorm", e.run(vitRows(w, "", patches, positions))[0])
	}
	return c
}

// Pictures of a DINOv2 without a crop keep their shapes: each has positions of its own grid.
func TestPicturesKeepTheirShapes(t *testing.T) {
	pictures := somePictures(t)
	pictures = append(pictures, pictures[2], pictures[2], pictures[0])
	for _, registers := range []int{0, 2} {
		c := dinoImageTest(registers, false, rectangle{12, 12})
		c.processor["do_center_crop"] = false
		path, values := writeImages(t, &c)
		m := mustOpen(t, path, Options{Workers: 2, BatchTokens: 200})
		got, err := m.EncodeImages(pictures)
		if err != nil {
			t.Fatal(err)
		}
		for j, picture := range pictures {
			b := picture.Bounds()
			size := rectangle{17 * b.Dy() / b.Dx(), 17}
			if b.Dx() > b.Dy() {
				size = rectangle{17, 17 * b.Dx() / b.Dy()}
			}
			definition := dinoImageTest(registers, false, size)
			near(t, fmt.Sprint(c.name, j), got[j], definition.pixels(values, patchesOf(m, picture, size)),
				2e-5)
			one, err := m.EncodeImages(pictures[j : j+1])
			if err != nil || !sameBits(one, got[j:j+1]) {
				t.Errorf("%s, picture %d: other bits alone, %v", c.name, j, err)
			}
		}
		long := []image.Image{pictures[0], image.NewGray(image.Rect(0, 0, 1<<14, 1))}
		const want = "embed: images[1] is of 16384 × 1 pixels: crop_size and size make pictures of 17 " +
			"× 278528, which are 4 × 69632 patches of patch_size 4, want 1 to 65536 patches"
		if _, err := m.EncodeImages(long); err == nil || !strings.HasPrefix(err.Error(), want) ||
			!errors.Is(err, attn.ErrOption) {
			t.Errorf("%v, want %s", err, want)
		}
		if again, err := m.EncodeImages(pictures[:1]); err != nil || !sameBits(again, got[:1]) {
			t.Errorf("after an error: %v", err)
		}
	}
}

func (w numbers) scaleOutputs(name string, by []float64) {
	weight, bias := slices.Clone(w[name+".weight"]), slices.Clone(w[name+".bias"])
	in := len(weight) / len(bias)
	for i := range weight {
		weight[i] *= by[i/in]
	}
	for i := range bias {
		bias[i] *= by[i]
	}
	w[name+".weight"], w[name+".bias"] = weight, bias
}

// torchBicubic is PyTorch's interpolate in mode bicubic, from a square of n rows to a grid: each
// point is a sum over all points, weighted by distance.
func torchBicubic(table []float64, n int, to rectangle, antialias bool) (rows [][]float64) {
	a := -0.75
	if antialias {
		a = -0.5
	}
	kernel := func(x float64) float64 {
		switch x = math.Abs(x); {
		case x <= 1:
			return (a+2)*x*x*x - (a+3)*x*x + 1
		case x < 2:
			return a*x*x*x - 5*a*x*x + 8*a*x - 4*a
		}
		return 0
	}
	line := func(out, i int) []float64 { // weights of n sources
		weights, ratio, total := make([]float64, n), float64(n)/float64(out), 0.0
		center, scale := (float64(i)+0.5)*ratio-0.5, 1.0
		if antialias {
			scale = max(ratio, 1)
		}
		for j := -20; j < n+20; j++ {
			x := kernel((float64(j) - center) / scale)
			if antialias && (j < 0 || j >= n) {
				continue // cut off; the rest is divided by its sum
			}
			weights[min(max(j, 0), n-1)] += x
			total += x
		}
		return scaled(weights, 1/total)
	}
	for y := range to.h {
		for x := range to.w {
			if to == (rectangle{n, n}) {
				rows = append(rows, table[(y*n+x)*wide:][:wide])
				continue
			}
			row := make([]float64, wide)
			for i, wy := range line(to.h, y) {
				for j, wx := range line(to.w, x) {
					row = plus(row, scaled(table[(i*n+j)*wide:][:wide], wy*wx))
				}
			}
			rows = append(rows, row)
		}
	}
	return rows
}

func imageTests() []imageTest {
	return []imageTest{clipImageTest("quick_gelu", quickGELU), clipImageTest("gelu", geluOf),
		siglipImageTest(), vitImageTest(), dinoImageTest(0, false, rectangle{12, 12}),
		dinoImageTest(0, true, rectangle{14, 9}), dinoImageTest(0, false, rectangle{17, 17}),
		dinoImageTest(3, false, rectangle{12, 12}), dinoImageTest(2, true, rectangle{8, 17})}
}

// writeImages writes the folder of a model of images.
func writeImages(t *testing.T, c *imageTest) (string, numbers) {
	t.Helper()
	path := t.TempDir()
	return path, writeImagesTo(t, c, path)
}

func writeImagesTo(t *testing.T, c *imageTest, path string) numbers {
	t.Helper()
	folder := foldertest.Images{Kind: c.name, Config: c.config, Processor: c.processor,
		Shapes: c.shapes}
	if c.text != nil {
		folder.Tokenizer = foldertest.CLIPTokenizer
	}
	if c.name == "siglip" {
		write(t, path, "special_tokens_map.json", []byte(`{}`))
	}
	return numbers(folder.Write(t, path))
}

// somePictures are pictures of several types, sizes and sides.
func somePictures(t *testing.T) (all []image.Image) {
	source := congruential(9)
	for i, mode := range []string{"RGB", "L", "CMYK", "P", "RGBA", "RGB", "I;16"} {
		all = append(all, madePicture(t, mode, 5+7*i, 40-5*i, &source))
	}
	return all
}

// patchesOf returns the numbers of patches in float64, by the definition of preprocessing.
func patchesOf(m *Model, picture image.Image, size rectangle) (all [][]float64) {
	var memory scratch
	p := m.images.vision.processor
	pixels := p.pixels(&memory, picture, size)
	for y := 0; y+side4 <= size.h; y += side4 {
		for x := 0; x+side4 <= size.w; x += side4 {
			var patch []float64
			for c := range 3 {
				for i := range side4 * side4 {
					at := 3*((y+i/side4)*size.w+x+i%side4) + c
					patch = append(patch, float64(p.values[c][pixels[at]]))
				}
			}
			all = append(all, patch)
		}
	}
	return all
}

// TestImagesAgainstFloat64 compares vectors of pictures, and of texts for the same space, with
// their definitions, in a batch and alone.
func TestImagesAgainstFloat64(t *testing.T) {
	pictures := somePictures(t)
	for i, c := range imageTests() {
		path, values := writeImages(t, &c)
		m := mustOpen(t, path, Options{Workers: 2, BatchTokens: 45})
		got, err := m.EncodeImages(pictures)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		for j, picture := range pictures {
			want := c.pixels(values, patchesOf(m, picture, c.size))
			near(t, fmt.Sprint(i, c.name, j), got[j], want, 2e-5)
			one, err := m.EncodeImages(pictures[j : j+1])
			if err != nil || !sameBits(one, got[j:j+1]) {
				t.Errorf("%s: other bits alone, %v", c.name, err)
			}
		}
		if c.classes {
			checkImageClasses(t, m, &c, values, pictures)
		}
		if c.text == nil {
			continue
		}
		texts := []string{"cat", "", "Un,  cat", "cat cat cat cat un cat un un cat",
			"un <|endoftext|> cat"}
		vectors := mustEncode(t, m, texts...)
		for j, text := range texts {
			near(t, c.name+text, vectors[j], c.text(values, idsOf(t, m, text)), 2e-5)
			if !sameBits(mustEncode(t, m, text), vectors[j:j+1]) {
				t.Errorf("%s: other bits of %q alone", c.name, text)
			}
		}
		scale, bias := m.Scale()
		near(t, "scale", []float32{scale}, []float64{math.Exp(values["logit_scale"][0])}, 1e-6)
		if b := values["logit_bias"]; b != nil && float64(bias) != b[0] || b == nil && bias != 0 {
			t.Errorf("%s: the bias is %v, want %v", c.name, bias, b)
		}
	}
}

func checkImageClasses(t *testing.T, m *Model, c *imageTest, w numbers, pictures []image.Image) {
	t.Helper()
	got, err := m.ClassifyImages(pictures)
	if err != nil {
		t.Fatal(err)
	}
	for i, picture := range pictures {
		want := softmaxOf(w.linear("classifier", c.pixels(w, patchesOf(m, picture, c.size))))
		near(t, "classes", got[i], want, 2e-5)
	}
	if fmt.Sprint(m.Labels()) != "[cat dog bicycle]" {
		t.Errorf("labels %q", m.Labels())
	}
}

// TestImageFolders reads folders of sentence-transformers, early CLIP folders and options.
func TestImageFolders(t *testing.T) {
	c := clipImageTest("quick_gelu", quickGELU)
	plain, _ := writeImages(t, &c)
	m := mustOpen(t, plain, Options{})
	pictures := somePictures(t)
	want, err := m.EncodeImages(pictures)
	if err != nil {
		t.Fatal(err)
	}
	lengthOne := func(x []float32) []float64 {
		y := make([]float64, len(x))
		for i := range x {
			y[i] = float64(x[i])
		}
		return scaled(y, 1/math.Sqrt(dot(y, y)))
	}
	for _, place := range []string{"", "0_CLIPModel"} {
		path := t.TempDir()
		writeImagesTo(t, &c, filepath.Join(path, place))
		list := `{"idx": 0, "name": "0", "path": "` + place + `",
			"type": "sentence_transformers.models.CLIPModel"}`
		write(t, path, "modules.json", []byte("["+list+"]"))
		listed := mustOpen(t, path, Options{})
		if got, err := listed.EncodeImages(pictures); err != nil || !sameBits(got, want) {
			t.Errorf("a CLIPModel in %q: other vectors, %v", place, err)
		}
		write(t, path, "modules.json", []byte("["+list+`, {"idx": 1, "name": "1", "path": "1_Normalize",
			"type": "sentence_transformers.models.Normalize"}]`))
		listed = mustOpen(t, path, Options{})
		got, err := listed.EncodeImages(pictures)
		if err != nil {
			t.Fatal(err)
		}
		near(t, "normalized", got[1], lengthOne(want[1]), 1e-6)
		near(t, "a normalized text", mustEncode(t, listed, "cat")[0],
			lengthOne(mustEncode(t, m, "cat")[0]),
			1e-6)
	}
	short := mustOpen(t, plain, Options{Dimensions: 5, Normalize: true})
	got, err := short.EncodeImages(pictures)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "5 dimensions", got[0], lengthOne(want[0][:5]), 1e-6)

	// In a folder with text_config_dict only that counts, with its defaults.
	c.config["text_config_dict"], c.config["vision_config_dict"] = c.config["text_config"],
		c.config["vision_config"]
	c.config["text_config"] = map[string]any{"hidden_size": 7, "eos_token_id": 2}
	path, _ := writeImages(t, &c)
	if got, err := mustOpen(t, path, Options{}).EncodeImages(pictures); err != nil ||
		!sameBits(got, want) {
		t.Errorf("text_config_dict: other vectors, %v", err)
	}
	// With eos_token_id 2, a text ends at its largest number.
	c = clipImageTest("quick_gelu", quickGELU)
	c.config["text_config"].(map[string]any)["eos_token_id"] = 2
	path, values := writeImages(t, &c)
	m = mustOpen(t, path, Options{})
	near(t, "the largest number", mustEncode(t, m, "cat un cat")[0],
		clipText(values, []int{0, 6, 9, 6, 1}, 2, quickGELU), 2e-5)
}

// TestImagesMisuse: refused images and folders are named, with the reason.
func TestImagesMisuse(t *testing.T) {
	c := vitImageTest()
	path, _ := writeImages(t, &c)
	m := mustOpen(t, path, Options{})
	encodes := func(m *Model, images ...image.Image) error {
		_, err := m.EncodeImages(images)
		return err
	}
	fine := image.NewGray(image.Rect(0, 0, 3, 3))
	_, classes := mustOpen(t, writeImagesPath(t, dinoImageTest(0, false, rectangle{12, 12})),
		Options{}).ClassifyImages([]image.Image{fine})
	_, texts := m.Encode([]string{"a"})
	badPalette := image.NewPaletted(image.Rect(0, 0, 3, 2), color.Palette{color.White, color.Black})
	badPalette.Pix[0], badPalette.Pix[2] = 3, 2
	_, ranks := m.Rerank("a", []string{"b"})
	_, entities := m.Entities([]string{"a"}, Simple)
	_, longer := Open(path, Options{MaxTokens: 7})
	_, pools := Open(path, Options{Pooling: []string{"mean"}})
	_, cuts := Open(path, Options{Cut: func(_, _, _ int) {}})
	_, _, queries := m.EncodeQueries([]string{"a"})
	for _, e := range []struct {
		err  error
		want string
	}{
		{encodes(m, fine, nil), "images[1] is nil"}, {encodes(m, (*image.RGBA)(nil)), "images[0] is nil"},
		{encodes(m, image.NewPaletted(image.Rect(2, 3, 5, 9), nil)),
			"images[0]: it has a pixel of color 0, and its palette has 0 colors"},
		{encodes(m, fine, badPalette.SubImage(image.Rect(1, 0, 3, 2))),
			"images[1]: it has a pixel of color 2, and its palette has 2 colors"},
		{encodes(m, badPalette.SubImage(image.Rect(1, 1, 3, 2))), "<nil>"},
		{encodes(m, image.NewGray(image.Rect(0, 0, 0, 3))), "images[0] is of 0 × 3 pixels"},
		{encodes(m, &image.Gray{Rect: image.Rect(0, 0, 1<<14+1, 1)}), "is of 16385 × 1 pixels"},
		{encodes(m, &image.Gray{Rect: image.Rect(0, 0, 1<<14, 1<<13)}), "at most 67108864 pixels"},
		{encodes(m, &image.Gray{Rect: image.Rect(math.MinInt, 0, math.MaxInt, 1)}), "images[0] is of"},
		{encodes(mustRandom(t, Sizes{Hidden: 6, FFN: 6, Vocab: 9}, Options{}), fine), "reads texts only"},
		{classes, "no head that classifies images"}, {texts, "it reads images only"},
		{ranks, "it reads images only"}, {entities, "labels no tokens"}, {longer, "MaxTokens is 7"},
		{pools, "Options.Pooling"},
		{cuts, "it reads images only, want EncodeImages or ClassifyImages, with Options.Cut nil"},
		{queries, "it reads images only"},
	} {
		if !strings.Contains(fmt.Sprint(e.err), e.want) {
			t.Errorf("%v, want %s", e.err, e.want)
		}
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if err := encodes(m, fine); !errors.Is(err, attn.ErrClosed) {
		t.Errorf("a closed model: %v", err)
	}
	clip := mustOpen(t, writeImagesPath(t, clipImageTest("gelu", geluOf)), Options{})
	if err := clip.Close(); err != nil {
		t.Fatal(err)
	}
	if err := encodes(clip, fine); !errors.Is(err, attn.ErrClosed) {
		t.Errorf("a closed CLIP: %v", err)
	}
}

func writeImagesPath(t *testing.T, c imageTest) string {
	t.Helper()
	path, _ := writeImages(t, &c)
	return path
}

// TestRefusedImageConfigs changes a key of a file of each kind.
func TestRefusedImageConfigs(t *testing.T) {
	type change struct {
		file, section, key string
		value              any
		want               string
	}
	dino := dinoImageTest(2, false, rectangle{12, 12})
	for _, c := range []struct {
		test    imageTest
		changes []change
	}{
		{clipImageTest("gelu", geluOf), []change{
			{"c", "", "architectures", []string{"BertModel"}, `architectures is ["BertModel"], want CLIPM`},
			{"c", "", "projection_dim", 0, "projection_dim is 0"}, {"c", "", "new", 1, `"new" is 1`},
			{"c", "text_config", "eos_token_id", -5, "eos_token_id is -5, want 2 or a token that"},
			{"c", "text_config", "eos_token_id", 99999, "eos_token_id is 99999, want 2 or a token"},
			{"c", "text_config", "eos_token_id", 3, "eos_token_id is 3, want 2 or a token that tokenizer"},
			{"c", "text_config", "eos_token_id", nil, "eos_token_id is null"},
			{"c", "text_config", "new", 1, `text_config: key "new" is 1`},
			{"c", "text_config", "num_attention_heads", 7,
				"text_config: hidden_size is 30, want a multiple"},
			{"c", "text_config", "projection_size", 7, "which are SigLIP's"},
			{"c", "vision_config", "hidden_act", "x", `vision_config: hidden_act is "x"`},
			{"c", "vision_config", "image_size", 16, "image_size is 16 × 16, and preprocessor_config.json"},
			{"c", "vision_config", "patch_size", 13, "patch_size is 13 × 13"},
			{"c", "vision_config", "num_channels", 1, "num_channels 1"},
			{"c", "vision_config", "image_size", 1 << 30, "image_size is"},
			{"p", "", "new", 1, `"new" is 1`}, {"p", "", "resample", 6, "resample is 6, want 0 to 5"},
			{"p", "", "do_pad", true, "do_pad is true"}, {"p", "", "image_std", []int{0, 1, 1}, "image_std"},
			{"p", "", "image_mean", []int{1}, "want three numbers each"},
			{"p", "", "rescale_factor", 3e38, "not finite"},
			{"p", "", "rescale_factor", 1e300, "want a number that float32 has"},
			{"p", "", "size", map[string]any{"longest_edge": 3}, "longest_edge"},
			{"p", "", "size", map[string]any{"shortest_edge": 1 << 30}, "size has shortest_edge"},
			{"p", "", "crop_size", map[string]any{"height": 3}, "crop_size is 3 × 0"},
			{"p", "", "image_processor_type", "BlipImageProcessor", `image_processor_type is "Blip`},
			{"p", "", "do_center_crop", false, "want one size for all"}}},
		{siglipImageTest(), []change{
			{"c", "", "architectures", []string{"SiglipForImageClassification"}, "want SiglipModel, or"},
			{"c", "vision_config", "vision_use_head", false, "vision_use_head is false"},
			{"c", "text_config", "projection_size", 7, "vectors of texts have 7 numbers"},
			{"p", "", "do_center_crop", true, "do_center_crop is true"},
			{"t", "", "pad_token", "nothing", `pad_token is "nothing"`}}},
		{vitImageTest(), []change{{"c", "", "architectures", []string{"BeitForImageClassification"},
			"want ViTModel, or to classify images ViTForIm"}, {"c", "", "qkv_bias", false, "has no place"},
			{"c", "", "problem_type", "x", `problem_type is "x"`}}},
		{dino, []change{{"p", "", "crop_size", map[string]any{"height": 12, "width": 3},
			"preprocessor_config.json: crop_size and size make pictures of 12 × 3, which are 3 × 0 patches"},
			{"c", "", "mlp_ratio", -1, "mlp_ratio is -1"},
			{"c", "", "num_register_tokens", 0, "num_register_tokens is 0"},
			{"c", "", "image_size", []int{12, 16}, "want a square"},
			{"c", "", "architectures", []string{"Dinov2WithRegistersForImageClassification"},
				"want Dinov2WithRegistersModel, or"}, {"c", "", "model_type", "dinov2",
				"num_register_tokens is 2"}}},
	} {
		for _, change := range c.changes {
			path, _ := writeImages(t, &c.test)
			name := map[string]string{"c": "config.json", "p": "preprocessor_config.json",
				"t": "tokenizer_config.json"}[change.file]
			all := map[string]any{"model_type": c.test.name}
			switch change.file {
			case "c":
				maps.Copy(all, c.test.config)
			case "p":
				all = maps.Clone(c.test.processor)
			default:
				all = map[string]any{}
			}
			object := all
			if change.section != "" {
				object = maps.Clone(all[change.section].(map[string]any))
				all[change.section] = object
			}
			object[change.key] = change.value
			write(t, path, name, encode(t, all))
			if err := openError(path); err == nil || !strings.Contains(err.Error(), change.want) {
				t.Errorf("%s with %s %s %v: %v, want %s", c.test.name, change.section, change.key,
					change.value, err, change.want)
			}
		}
	}
}

// TestAllocationsOfImages counts allocations of the steady state.
func TestAllocationsOfImages(t *testing.T) {
	c := clipImageTest("quick_gelu", quickGELU)
	path, _ := writeImages(t, &c)
	m := mustOpen(t, path, Options{Workers: 2})
	box := image.Rect(0, 0, 30, 21)
	pictures := []image.Image{image.NewNRGBA(box), image.NewGray(box),
		image.NewYCbCr(box, image.YCbCrSubsampleRatio420)}
	dst := make([]float32, 3*m.Dimensions())
	if n := testing.AllocsPerRun(20, func() {
		if err := m.images.computeImages(dst, pictures, outVectors); err != nil {
			t.Error(err)
		}
	}); n >= 1 {
		t.Errorf("%v allocations, want none", n)
	}
}

// TestMutatedImageFolders opens folders of which a key has another value: they are refused, or make
// vectors. TestRefusedImageConfigs has the errors.
func TestMutatedImageFolders(t *testing.T) {
	source := rand.New(rand.NewPCG(8, 8))
	values := []any{nil, -1, 0, 1, 2, 3, 1 << 20, int64(1 << 40), 0.5, 1e300, "", "x", true, false,
		[]int{},
		[]int{5}, []int{1 << 30, 1 << 30}, map[string]any{}, map[string]any{"height": 1}}
	times := 400
	if testing.Short() {
		times = 60
	}
	if os.Getenv("ATTN_TEST_FULL") != "" {
		times = 10000
	}
	picture := image.NewGray(image.Rect(0, 0, 5, 4))
	for _, c := range []imageTest{clipImageTest("gelu", geluOf), siglipImageTest(), vitImageTest(),
		dinoImageTest(2, true, rectangle{8, 17})} {
		path, _ := writeImages(t, &c)
		for range times / 4 {
			name, all := "config.json", maps.Clone(c.config)
			all["model_type"] = c.name
			if source.IntN(3) == 0 {
				name, all = "preprocessor_config.json", maps.Clone(c.processor)
			}
			original := encode(t, all)
			object := all
			for keys := slices.Sorted(maps.Keys(object)); len(keys) > 0; {
				key := keys[source.IntN(len(keys))]
				inside, ok := object[key].(map[string]any)
				if !ok || source.IntN(4) == 0 {
					object[key] = values[source.IntN(len(values))]
					break
				}
				object[key] = maps.Clone(inside)
				object, keys = object[key].(map[string]any), slices.Sorted(maps.Keys(inside))
			}
			write(t, path, name, encode(t, all))
			if m, err := Open(path, Options{Workers: 1}); err == nil {
				if _, err := m.EncodeImages([]image.Image{picture}); err != nil &&
					!strings.Contains(err.Error(), "want finite") {
					t.Errorf("%s with %s: %v", c.name, encode(t, all), err)
				}
				_ = m.Close()
			}
			write(t, path, name, original)
		}
	}
}
