package embed

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/seed-1415985d/attn/internal/strictjson"
	"github.com/seed-1415985d/attn/models/internal/tokenize"
	"github.com/seed-1415985d/attn/models/internal/weights"
	"github.com/seed-1415985d/attn/nn"
)

// gemmaGGUF is the architecture of EmbeddingGemma in GGUF files.
const gemmaGGUF = "gemma-embedding"

// ggufGemmaNames are the tensor names of an EmbeddingGemma in a GGUF file.
var ggufGemmaNames = names{
	prefixes: []string{""}, words: "token_embd", final: "output_norm", layer: "blk.%d.",
	input: []string{"attn_q", "attn_k", "attn_v"}, inputs: "attn_qkv", output: "attn_output",
	attentionNorm: "attn_norm", outputNorm: "post_attention_norm",
	up: []string{"ffn_gate", "ffn_up"}, down: "ffn_down", ffnNorm: "ffn_norm",
	downNorm: "post_ffw_norm", queryNorm: "attn_q_norm", keyNorm: "attn_k_norm", firstNorm: true,
}

// openGGUFGemma reads an EmbeddingGemma from a GGUF file, with its Dense modules.
func (m *Model) openGGUFGemma(l *weights.Loader) {
	k := struct {
		ggufQwen3Keys
		Window    int     `json:"attention.sliding_window"`
		LocalBase float64 `json:"rope.freq_base_swa"`
		WideIn    int     `json:"dense_2_feat_in"`
		WideOut   int     `json:"dense_2_feat_out"`
		LastIn    int     `json:"dense_3_feat_in"`
		LastOut   int     `json:"dense_3_feat_out"`
	}{ggufQwen3Keys: ggufQwen3Keys{Base: gemmaBase}, LocalBase: gemmaLocalBase}
	l.Metadata(gemmaGGUF, &k, strictjson.Idle{"attention.causal": {"false"},
		"rope.scaling.type": {`"none"`}, "attention.sliding_window_pattern": {"6"}})
	texts, vocabulary := tokenize.ReadTextsOfBPE(l, k.Positions)
	l.CheckMetadata(strictjson.Idle{"quantize.imatrix.*": nil})
	if l.Err != nil {
		return
	}
	d := &description{kind: gemmaGGUF, blocks: true, activation: nn.GELUTanh, names: ggufGemmaNames,
		layers: k.Layers, hidden: k.Hidden, ffn: k.FFN, vocab: texts.Size(), heads: k.Heads,
		keyHeads: k.KeyHeads, width: k.Width, longest: k.Positions, epsilon: k.Epsilon}
	keys := ggufSizes(gemmaGGUF)
	keys.epsilon = gemmaGGUF + ".attention.layer_norm_rms_epsilon"
	keys.keyHeads, keys.width = gemmaGGUF+".attention.head_count_kv", gemmaGGUF+".attention.key_length"
	l.Check("", d.check(keys))
	l.Check("", weights.Sizes([]string{gemmaGGUF + ".attention.sliding_window"}, k.Window))
	for key, n := range map[string][2]int{"vocab_size": {*cmp.Or(k.Vocab, &d.vocab), d.vocab},
		"attention.value_length": {*cmp.Or(k.Values, &d.width), d.width}} {
		if n[0] != n[1] {
			l.Check("", fmt.Errorf("%s.%s is %d, want %d", gemmaGGUF, key, n[0], n[1]))
		}
	}
	l.Check("", vocabulary.EndsTexts("<eos>"))
	if *cmp.Or(k.Pooling, new(0)) != 1 {
		l.Check("", errors.New(gemmaGGUF+".pooling_type is not 1, want 1, the mean"))
	}
	if k.WideIn == 0 || !l.Has("dense_2.weight") || !l.Has("dense_3.weight") {
		l.Check("", errors.New("there are no tensors dense_2.weight and dense_3.weight with sizes under "+
			gemmaGGUF+".dense_*, want them: without these Dense modules vectors are not EmbeddingGemma's; "+
			"convert the folder with --sentence-transformers-dense-modules"))
		return
	}
	l.Check("", weights.Sizes([]string{gemmaGGUF + ".dense_2_feat_out",
		gemmaGGUF + ".dense_3_feat_out"}, k.WideOut, k.LastOut))
	if k.WideIn != k.Hidden || k.LastIn != k.WideOut {
		l.Check("", fmt.Errorf("%s.dense_2_feat_in and dense_3_feat_in are %d and %d, want "+
			"embedding_length and dense_2_feat_out, %d and %d", gemmaGGUF, k.WideIn, k.LastIn, k.Hidden,
			k.WideOut))
	}
	if l.Err != nil {
		return
	}
	d.setGemma(k.Window, k.Base, k.LocalBase)
	d.locals = gemmaLocals(k.Layers, gemmaPattern)
	m.description, m.texts, m.sentence = d, texts, usualSentence()
	b := newBuilder(l, d)
	m.listed, m.steps = true, []step{
		{&dense{b.loadLinear(k.Hidden, false, "dense_2", k.WideOut), nn.None}},
		{&dense{b.loadLinear(k.WideOut, false, "dense_3", k.LastOut), nn.None}}, {}}
}
