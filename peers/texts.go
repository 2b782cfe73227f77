package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"image"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nlpodyssey/safetensors"

	"github.com/seed-1415985d/attn/models/embed"
)

// Texts become embeddings by a BERT with random weights, of a published shape. A case is one call
// for as many texts as it has queries, of 8 to 512 tokens; its dimension is the size of an
// embedding. To label tokens it has one text, with as many words as queries, and the result is the
// probability of each word's label. An image becomes one embedding.

// encoder is the shape of a model of texts, or of images: a tower of CLIP or SigLIP.
type encoder struct {
	embed.Sizes
	image, patch int // sides; 0: it reads texts
	sigmoid      bool
}

// encoder returns the shape of a case, if it has one.
func (c *Case) encoder() (shape encoder, integers, ok bool) {
	name, kind, _ := strings.Cut(c.Type, " ")
	shape, ok = encoders[name]
	return shape, kind == "integers", ok
}

var encoders = map[string]encoder{
	"minilm": {Sizes: embed.Sizes{Layers: 6, Hidden: 384, Heads: 12, FFN: 1536, Vocab: 30522}},
	"base":   {Sizes: embed.Sizes{Layers: 12, Hidden: 768, Heads: 12, FFN: 3072, Vocab: 30522}},
	"entities": {Sizes: embed.Sizes{Layers: 12, Hidden: 768, Heads: 12, FFN: 3072, Vocab: 28996,
		TokenLabels: 9}},
	"clip":   {embed.Sizes{Layers: 12, Hidden: 768, Heads: 12, FFN: 3072, Vocab: 4}, 224, 32, false},
	"siglip": {embed.Sizes{Layers: 12, Hidden: 768, Heads: 12, FFN: 3072, Vocab: 4}, 224, 16, true},
	"so400m": {embed.Sizes{Layers: 27, Hidden: 1152, Heads: 16, FFN: 4304, Vocab: 4}, 384, 14, true},
}

// longestText is the number of positions of the models.
const longestText = 512

const (
	bertLayer  = "encoder.layer.%d."
	bertSelf   = bertLayer + "attention.self."
	bertOutput = bertLayer + "attention.output."
	epsilon    = 1e-12
)

// The vocabulary begins with tokens for padding and for what it lacks.
const beginToken, endToken, firstWord = 2, 3, 4

// textsOf returns the tokens of a case's texts. The logarithms of the lengths are uniformly
// distributed, unless there is one text, to label tokens.
func (c *Case) textsOf() [][]int32 {
	s, _, _ := c.encoder()
	source := rand.New(rand.NewPCG(1, 2))
	if s.TokenLabels > 0 {
		text := []int32{beginToken}
		for range c.Lq {
			text = append(text, int32(firstWord+source.IntN(s.Vocab-firstWord)))
		}
		return [][]int32{append(text, endToken)}
	}
	texts := make([][]int32, c.Lq)
	for i := range texts {
		text := make([]int32, int(8*math.Exp2(6*(float64(i)+0.5)/float64(len(texts)))))
		for j := range text {
			text[j] = int32(1 + source.IntN(s.Vocab-1))
		}
		texts[i] = text
	}
	source.Shuffle(len(texts), func(i, j int) { texts[i], texts[j] = texts[j], texts[i] })
	return texts
}

// encoderWork returns two operations for each multiply-add of texts without padding, or of the
// patches and layers of an image.
func (c *Case) encoderWork() (work float64) {
	s, _, _ := c.encoder()
	if s.image > 0 {
		return s.layersWork(s.rows()) + 6*float64(s.Hidden*s.patches()*s.patch*s.patch)
	}
	for _, text := range c.textsOf() {
		work += s.layersWork(len(text))
	}
	return work
}

// layersWork returns the operations of the layers for a number of rows.
func (s *encoder) layersWork(rows int) float64 {
	n := float64(rows)
	return 2 * n * float64(s.Layers*s.Hidden) * (4*float64(s.Hidden) + 2*float64(s.FFN) + 2*n)
}

// tensors are shapes by name.
type tensors map[string][]int

// linear adds matrices with biases.
func (t tensors) linear(in, out int, names ...string) {
	for _, name := range names {
		t[name+".weight"], t[name+".bias"] = []int{out, in}, []int{out}
	}
}

// norm adds norms.
func (t tensors) norm(size int, names ...string) {
	for _, name := range names {
		t[name+".weight"], t[name+".bias"] = []int{size}, []int{size}
	}
}

// tensors returns the tensors of a model.
func (s *encoder) tensors() tensors {
	d, f, t := s.Hidden, s.FFN, tensors{}
	if s.image > 0 {
		s.imageTensors(t)
		return t
	}
	for name, rows := range map[string]int{"word": s.Vocab, "position": longestText, "token_type": 2} {
		t["embeddings."+name+"_embeddings.weight"] = []int{rows, d}
	}
	t.norm(d, "embeddings.LayerNorm")
	for i := range s.Layers {
		at := func(name string) string { return fmt.Sprintf(name, i) }
		t.linear(d, d, at(bertSelf+"query"), at(bertSelf+"key"), at(bertSelf+"value"),
			at(bertOutput+"dense"))
		t.linear(d, f, at(bertLayer+"intermediate.dense"))
		t.linear(f, d, at(bertLayer+"output.dense"))
		t.norm(d, at(bertOutput+"LayerNorm"), at(bertLayer+"output.LayerNorm"))
	}
	if s.TokenLabels > 0 {
		t.linear(d, s.TokenLabels, "classifier")
	}
	return t
}

// config returns config.json.
func (s *encoder) config() map[string]any {
	if s.image > 0 {
		return s.imageConfig()
	}
	config := map[string]any{"model_type": "bert", "hidden_size": s.Hidden,
		"num_hidden_layers": s.Layers, "num_attention_heads": s.Heads, "intermediate_size": s.FFN,
		"vocab_size": s.Vocab, "max_position_embeddings": longestText, "layer_norm_eps": epsilon}
	if s.TokenLabels > 0 {
		labels := map[string]string{}
		for i := range s.TokenLabels {
			labels[fmt.Sprint(i)] = fmt.Sprint("label ", i)
		}
		config["architectures"], config["id2label"] = []string{"BertForTokenClassification"}, labels
	}
	return config
}

// wordOf returns a word of the vocabulary.
func wordOf(id int32) string {
	if id < firstWord {
		return []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]"}[id]
	}
	return fmt.Sprintf("w%x", id)
}

// encoderPath returns the folder of a case's model.
func (c *Case) encoderPath(dir string) string {
	name, _, _ := strings.Cut(c.Type, " ")
	return filepath.Join(dir, name)
}

// writeEncoder writes the folder, unless it exists.
func (c *Case) writeEncoder(dir string) error {
	path := c.encoderPath(dir)
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	s, _, _ := c.encoder()
	vocabulary := make([]string, s.Vocab)
	for i := range vocabulary {
		vocabulary[i] = wordOf(int32(i))
	}
	views := map[string]safetensors.TensorView{}
	source := rand.New(rand.NewPCG(3, 4))
	shapes := s.tensors()
	for _, name := range slices.Sorted(maps.Keys(shapes)) {
		var err error
		if views[name], err = randomTensor(source, name, shapes[name]); err != nil {
			return err
		}
	}
	weights, err := safetensors.Serialize(views, nil)
	files := map[string][]byte{"model.safetensors": weights,
		"vocab.txt": []byte(strings.Join(vocabulary, "\n"))}
	values := map[string]map[string]any{"config.json": s.config()}
	if s.image > 0 {
		values["preprocessor_config.json"] = s.processor()
		values["tokenizer_config.json"] = map[string]any{"pad_token": wordOf(0)}
	}
	for name, value := range values {
		if err == nil {
			files[name], err = json.Marshal(value)
		}
	}
	if err == nil {
		err = os.Mkdir(path, 0o700)
	}
	for name, data := range files {
		if err == nil {
			err = os.WriteFile(filepath.Join(path, name), data, 0o600)
		}
	}
	return err
}

func randomTensor(source *rand.Rand, name string, shape []int) (safetensors.TensorView, error) {
	n, dims := 1, []uint64{}
	for _, size := range shape {
		n, dims = n*size, append(dims, uint64(size))
	}
	data := make([]byte, 0, 4*n)
	for range n {
		x := float32(0.04 * source.NormFloat64())
		if len(shape) == 1 && strings.HasSuffix(name, ".weight") { // of a norm
			x++
		}
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(x))
	}
	return safetensors.NewTensorView(safetensors.F32, dims, data)
}

// encodeWith returns attn's call for a case of texts or images, and its result.
func encodeWith(c *Case, m *embed.Model) (call func() error, dst []float32) {
	s, _, _ := c.encoder()
	dst, texts := make([]float32, c.queries()), c.textsOf()
	switch {
	case s.image > 0:
		pictures := []image.Image{s.picture()}
		return func() error {
			vectors, err := m.EncodeImages(pictures)
			if err == nil {
				copy(dst, vectors[0])
			}
			return err
		}, dst
	case s.TokenLabels > 0:
		return entities(m, dst, texts[0][1:1+c.Lq]), dst
	}
	return func() error { return m.EncodeTokens(dst, texts) }, dst
}

// entities returns the call that labels a text. Since no label is O, each word is an entity.
func entities(m *embed.Model, dst []float32, tokens []int32) func() error {
	words := make([]string, len(tokens))
	for i, id := range tokens {
		words[i] = wordOf(id)
	}
	texts := []string{strings.Join(words, " ")}
	return func() error {
		found, err := m.Entities(texts, embed.NoAggregation)
		if err == nil && len(found[0]) != len(dst) {
			err = fmt.Errorf("%d entities, want %d", len(found[0]), len(dst))
		}
		if err == nil {
			for i, e := range found[0] {
				dst[i] = e.Score
			}
		}
		return err
	}
}

// encoderCall returns attn's call for a case, and its result.
func encoderCall(c *Case, dir string, integers bool, threads int) (call func() error,
	result func() []float32, err error) {
	m, err := embed.Open(c.encoderPath(dir), embed.Options{Workers: threads, Integers: integers})
	if err != nil {
		return nil, nil, err
	}
	opened = m
	call, dst := encodeWith(c, m)
	return call, func() []float32 { return dst }, nil
}

// encoderReference returns the result in float32.
func encoderReference(c *Case, dir string) ([]float32, error) {
	m, err := embed.Open(c.encoderPath(dir), embed.Options{})
	if err != nil {
		return nil, err
	}
	defer m.Close()
	call, dst := encodeWith(c, m)
	return dst, call()
}
