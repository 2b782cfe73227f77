package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nlpodyssey/safetensors"
)

// config is what is needed of config.json, and of two files that only models made for embeddings have.
type config struct {
	Type      string  `json:"model_type"`
	GELU      string  `json:"hidden_act"`
	Hidden    int     `json:"hidden_size"`
	Layers    int     `json:"num_hidden_layers"`
	Heads     int     `json:"num_attention_heads"`
	FFN       int     `json:"intermediate_size"`
	Vocab     int     `json:"vocab_size"`
	Positions int     `json:"max_position_embeddings"`
	Types     int     `json:"type_vocab_size"`
	Epsilon   float32 `json:"layer_norm_eps"`
	CLS       bool    `json:"pooling_mode_cls_token"` // the first token's row is the embedding, not the mean of all
	Mean      bool    `json:"pooling_mode_mean_tokens"`
	Longest   int     `json:"max_seq_length"`
}

// standard is what the files may leave out.
var standard = config{Type: "bert", GELU: "gelu", Positions: 512, Types: 2, Epsilon: 1e-12, Mean: true, Longest: 512}

// loader reads a model's folder, or makes random weights. After the first error it does nothing.
type loader struct {
	folder  string
	tensors map[string]*safetensors.TensorInfo
	data    []byte     // of the tensors
	random  *rand.Rand // nil for a folder
	packed  int        // bytes of matrices
	err     error
}

// load returns a model of sizes c, or that of the folder.
func (l *loader) load(c config) (*model, *tokenizer) {
	t := &tokenizer{Normalizer: normalizer{Lower: true}}
	if l.random == nil {
		c = standard
		l.json("config.json", &c, true)
		l.json("1_Pooling/config.json", &c, false)
		l.json("sentence_bert_config.json", &c, false)
		t = l.tokenizer(c.Vocab)
		l.open()
	}
	t.size, t.longest = c.Vocab, min(c.Longest, c.Positions)
	if c.Type != "bert" || c.GELU != "gelu" || c.CLS == c.Mean {
		l.fail("config.json: %+v: want a bert with gelu, and pooling by the mean or the cls token", c)
	}
	if min(c.Hidden, c.Layers, c.Heads, c.FFN, c.Vocab-1, c.Types, t.longest-1) < 1 || c.Hidden%max(c.Heads, 1) != 0 {
		l.fail("config.json: %+v: a size is missing, or heads do not divide the hidden size", c)
	}
	return l.model(c), t
}

func (l *loader) fail(format string, args ...any) {
	if l.err == nil {
		l.err = fmt.Errorf(format, args...)
	}
}

// read returns nil for a file that is missing, which is an error if it is needed.
func (l *loader) read(name string, needed bool) []byte {
	data, err := os.ReadFile(filepath.Join(l.folder, name))
	if err != nil && (needed || !errors.Is(err, fs.ErrNotExist)) {
		l.fail("%w", err)
	}
	return data
}

func (l *loader) json(name string, into any, needed bool) {
	if data := l.read(name, needed); data != nil {
		if err := json.Unmarshal(data, into); err != nil {
			l.fail("%s: %w", name, err)
		}
	}
}

func (l *loader) open() {
	data := l.read("model.safetensors", true)
	size, metadata, err := safetensors.ReadMetadata(data)
	if err != nil {
		l.fail("model.safetensors: %w", err)
		return
	}
	l.tensors, l.data = metadata.Tensors(), data[8+size:]
}

// tensor gives a tensor by its name in PyTorch's BertModel.
func (l *loader) tensor(name string, shape ...int) []float32 {
	info := l.tensors[name]
	if info == nil { // a model with a head has the encoder in a part of its own
		info = l.tensors["bert."+name]
	}
	switch {
	case l.err != nil:
	case l.random != nil:
		x := make([]float32, shape[0]*append(shape, 1)[1])
		for i := range x {
			x[i] = float32(0.1 * (l.random.Float32() - 0.5))
			if strings.HasSuffix(name, "LayerNorm.weight") {
				x[i]++
			}
		}
		return x
	case info == nil:
		l.fail("model.safetensors has no tensor %s", name)
	case !slices.EqualFunc(info.Shape, shape, func(a uint64, b int) bool { return a == uint64(b) }):
		l.fail("model.safetensors: %s is %d, want %d by config.json", name, info.Shape, shape)
	default:
		return l.floats(name, l.data[info.DataOffsets[0]:info.DataOffsets[1]], info.DType)
	}
	return nil
}

// floats converts to float32, which is exact.
func (l *loader) floats(name string, data []byte, kind safetensors.DType) []float32 {
	x := make([]float32, len(data)/int(kind.Size()))
	for i := range x {
		switch kind {
		case safetensors.F32:
			x[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
		case safetensors.F16:
			x[i] = half(uint32(binary.LittleEndian.Uint16(data[2*i:])))
		case safetensors.BF16:
			x[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(data[2*i:])) << 16)
		default:
			l.fail("model.safetensors: %s is of type %s, want F32, F16 or BF16", name, kind)
		}
	}
	return x
}

// half is the value of a finite float16: its bits where float32 has them, times the difference of the exponents.
func half(h uint32) float32 { return math.Float32frombits(h&0x8000<<16|h&0x7fff<<13) * 0x1p112 }
