package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
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
// embedding.

// bert returns the shape of a case, if it is one of texts.
func (c *Case) bert() (shape embed.Sizes, integers, ok bool) {
	name, kind, _ := strings.Cut(c.Type, " ")
	shape, ok = berts[name]
	return shape, kind == "integers", ok
}

var berts = map[string]embed.Sizes{
	"minilm": {Layers: 6, Hidden: 384, Heads: 12, FFN: 1536, Vocab: 30522},
	"base":   {Layers: 12, Hidden: 768, Heads: 12, FFN: 3072, Vocab: 30522},
}

// longestText is the number of positions of the models.
const longestText = 512

const (
	fillToken  = 0
	bertLayer  = "encoder.layer.%d."
	bertSelf   = bertLayer + "attention.self."
	bertOutput = bertLayer + "attention.output."
	epsilon    = 1e-12
)

// textsOf returns the tokens of a case's texts. The logarithms of the lengths are uniformly
// distributed.
func (c *Case) textsOf() [][]int32 {
	s, _, _ := c.bert()
	source := rand.New(rand.NewPCG(1, 2))
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

// textsWork returns two operations for each multiply-add of texts without padding.
func (c *Case) textsWork() (work float64) {
	s, _, _ := c.bert()
	for _, text := range c.textsOf() {
		n := float64(len(text))
		work += 2 * n * float64(s.Layers*s.Hidden) * (4*float64(s.Hidden) + 2*float64(s.FFN) + 2*n)
	}
	return work
}

// bertShapes returns the tensors of a case's model.
func (c *Case) bertShapes() map[string][]int {
	s, _, _ := c.bert()
	d, f := s.Hidden, s.FFN
	shapes := map[string][]int{"embeddings.word_embeddings.weight": {s.Vocab, d},
		"embeddings.position_embeddings.weight":   {longestText, d},
		"embeddings.token_type_embeddings.weight": {2, d},
		"embeddings.LayerNorm.weight":             {d}, "embeddings.LayerNorm.bias": {d}}
	for i := range s.Layers {
		for name, size := range map[string][2]int{bertSelf + "query": {d, d}, bertSelf + "key": {d, d},
			bertSelf + "value": {d, d}, bertOutput + "dense": {d, d},
			bertLayer + "intermediate.dense": {f, d}, bertLayer + "output.dense": {d, f}} {
			shapes[fmt.Sprintf(name, i)+".weight"] = size[:]
			shapes[fmt.Sprintf(name, i)+".bias"] = size[:1]
		}
		for _, name := range []string{bertOutput + "LayerNorm", bertLayer + "output.LayerNorm"} {
			shapes[fmt.Sprintf(name, i)+".weight"] = []int{d}
			shapes[fmt.Sprintf(name, i)+".bias"] = []int{d}
		}
	}
	return shapes
}

// bertPath returns the folder of a case's model.
func (c *Case) bertPath(dir string) string {
	name, _, _ := strings.Cut(c.Type, " ")
	return filepath.Join(dir, name)
}

// writeBERT writes the folder, unless it exists.
func (c *Case) writeBERT(dir string) error {
	path := c.bertPath(dir)
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	s, _, _ := c.bert()
	config, err := json.Marshal(map[string]any{"model_type": "bert", "hidden_size": s.Hidden,
		"num_hidden_layers": s.Layers, "num_attention_heads": s.Heads, "intermediate_size": s.FFN,
		"vocab_size": s.Vocab, "max_position_embeddings": longestText, "layer_norm_eps": epsilon})
	if err != nil {
		return err
	}
	words := []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]"}
	for i := len(words); i < s.Vocab; i++ {
		words = append(words, fmt.Sprintf("##%x", i))
	}
	views := map[string]safetensors.TensorView{}
	source := rand.New(rand.NewPCG(3, 4))
	shapes := c.bertShapes()
	for _, name := range slices.Sorted(maps.Keys(shapes)) {
		if views[name], err = randomTensor(source, name, shapes[name]); err != nil {
			return err
		}
	}
	tensors, err := safetensors.Serialize(views, nil)
	if err == nil {
		err = os.Mkdir(path, 0o700)
	}
	for name, data := range map[string][]byte{"config.json": config, "model.safetensors": tensors,
		"vocab.txt": []byte(strings.Join(words, "\n"))} {
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
		if strings.HasSuffix(name, "LayerNorm.weight") {
			x++
		}
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(x))
	}
	return safetensors.NewTensorView(safetensors.F32, dims, data)
}

// textVectors returns attn's call for a case's texts, and its result.
func textVectors(c *Case, dir string, integers bool, threads int) (call func() error,
	result func() []float32, err error) {
	m, err := embed.Open(c.bertPath(dir), embed.Options{Workers: threads, Integers: integers})
	if err != nil {
		return nil, nil, err
	}
	opened = m
	texts, dst := c.textsOf(), make([]float32, c.queries())
	return func() error { return m.EncodeTokens(dst, texts) }, func() []float32 { return dst }, nil
}

// textReference returns the embeddings in float32.
func textReference(c *Case, dir string) ([]float32, error) {
	m, err := embed.Open(c.bertPath(dir), embed.Options{})
	if err != nil {
		return nil, err
	}
	defer m.Close()
	dst := make([]float32, c.queries())
	return dst, m.EncodeTokens(dst, c.textsOf())
}
