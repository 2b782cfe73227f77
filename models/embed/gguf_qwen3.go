package embed

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/seed-1415985d/attn/internal/strictjson"
	"github.com/seed-1415985d/attn/models/internal/tokenize"
	"github.com/seed-1415985d/attn/models/internal/weights"
	"github.com/seed-1415985d/attn/nn"
)

// ggufQwen3Keys are the keys of a Qwen3 in a GGUF file, under its architecture's name.
type ggufQwen3Keys struct {
	Layers    int      `json:"block_count"`
	Positions int      `json:"context_length"`
	Hidden    int      `json:"embedding_length"`
	FFN       int      `json:"feed_forward_length"`
	Heads     int      `json:"attention.head_count"`
	KeyHeads  int      `json:"attention.head_count_kv"`
	Width     int      `json:"attention.key_length"`
	Values    *int     `json:"attention.value_length"`
	Epsilon   float32  `json:"attention.layer_norm_rms_epsilon"`
	Base      float64  `json:"rope.freq_base"`
	Pooling   *int     `json:"pooling_type"`
	Vocab     *int     `json:"vocab_size"`
	Labels    []string `json:"classifier.output_labels"`
}

// ggufQwen3Names are the tensor names of a Qwen3 in a GGUF file.
var ggufQwen3Names = names{
	prefixes: []string{""}, words: "token_embd", final: "output_norm", layer: "blk.%d.",
	input: []string{"attn_q", "attn_k", "attn_v"}, inputs: "attn_qkv", output: "attn_output",
	attentionNorm: "attn_norm", up: []string{"ffn_gate", "ffn_up"}, down: "ffn_down",
	ffnNorm: "ffn_norm", queryNorm: "attn_q_norm", keyNorm: "attn_k_norm", firstNorm: true,
	idle: []string{"output.weight"}, // scores have read it already
}

// endOfText is the last token of a text in Qwen3-Embedding: its vector is the text's vector.
const endOfText = "<|endoftext|>"

// openGGUFQwen3 reads a Qwen3-Embedding or a Qwen3-Reranker from a GGUF file.
func (m *Model) openGGUFQwen3(l *weights.Loader) {
	const kind = "qwen3"
	k := ggufQwen3Keys{Base: qwen3Base}
	l.Metadata(kind, &k, strictjson.Idle{"attention.causal": {"true"},
		"rope.scaling.type": {`"none"`}})
	texts, vocabulary := tokenize.ReadTextsOfBPE(l, k.Positions)
	m.texts = texts
	l.CheckMetadata(strictjson.Idle{"quantize.imatrix.*": nil})
	if l.Err != nil {
		return
	}
	d := &description{kind: kind, pad: -1, rms: true, preNorm: true, causal: true, gated: true,
		blocks: true, answers: true, activation: nn.SiLU, names: ggufQwen3Names, layers: k.Layers,
		hidden: k.Hidden, ffn: k.FFN, vocab: m.texts.Size(), heads: k.Heads, keyHeads: k.KeyHeads,
		width: k.Width, longest: k.Positions, epsilon: k.Epsilon}
	keys := ggufSizes(kind)
	keys.epsilon = kind + ".attention.layer_norm_rms_epsilon"
	keys.keyHeads, keys.width = kind+".attention.head_count_kv", kind+".attention.key_length"
	l.Check("", d.check(keys))
	for key, n := range map[string][2]int{"vocab_size": {*cmp.Or(k.Vocab, &d.vocab), d.vocab},
		"attention.value_length": {*cmp.Or(k.Values, &d.width), d.width}} {
		if n[0] != n[1] {
			l.Check("", fmt.Errorf("%s.%s is %d, want %d", kind, key, n[0], n[1]))
		}
	}
	d.rope = &nn.RopeConfig{Dim: d.width, Base: k.Base}
	m.description, m.sentence = d, usualSentence()
	m.modes = pooling{"lasttoken"}
	m.noEnd = vocabulary.EndsTexts(endOfText)
	switch p := *cmp.Or(k.Pooling, new(rankPooling)); {
	case p == rankPooling:
		if k.Labels != nil && !slices.Equal(k.Labels, []string{"yes", "no"}) {
			l.Check("", fmt.Errorf(`%s.classifier.output_labels is %q, want ["yes" "no"]`, kind, k.Labels))
		}
		if want := rerankBefore + question(rerankInstruction, "{query}", "{document}") +
			rerankAfter; vocabulary.Rerank != "" && vocabulary.Rerank != want {
			l.Check("", fmt.Errorf("tokenizer.chat_template.rerank is %q, want %q", vocabulary.Rerank, want))
		}
		m.noVector = errors.New("pooling_type is 4 or not there, so that it scores pairs of texts, " +
			"want Rerank, or Options.Pooling")
	case p < 1 || p >= len(ggufPoolings):
		l.Check("", fmt.Errorf("%s.pooling_type is %d, want 1 to %d", kind, p, rankPooling))
	default:
		m.listed, m.modes = true, pooling{ggufPoolings[p]}
	}
}
