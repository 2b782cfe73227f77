package embed

import (
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nlpodyssey/safetensors"
)

// debertaTest is a DeBERTa of version 3, or with other values of some keys.
func debertaTest(changes map[string]any) kindTest {
	config := map[string]any{"hidden_size": wide, "num_hidden_layers": 2,
		"num_attention_heads": heads3, "intermediate_size": inner, "vocab_size": words,
		"max_position_embeddings": 20, "type_vocab_size": 0, "layer_norm_eps": 1e-7,
		"relative_attention": true, "position_biased_input": false, "position_buckets": 8,
		"max_relative_positions": 12, "norm_rel_ebd": "layer_norm", "share_att_key": true,
		"pos_att_type": "p2c|c2p"}
	maps.Copy(config, changes)
	d := debertaNumbers{span: config["position_buckets"].(int),
		most:   config["max_relative_positions"].(int),
		norm:   strings.Contains(fmt.Sprint(config["norm_rel_ebd"]), "layer_norm"),
		shared: config["share_att_key"].(bool), biased: config["position_biased_input"].(bool),
		types: config["type_vocab_size"].(int), embedding: wide}
	if size, ok := config["embedding_size"]; ok {
		d.embedding = size.(int)
	}
	if size, ok := config["conv_kernel_size"]; ok {
		d.kernel = size.(int)
	}
	d.buckets = d.span
	if d.most < 1 {
		d.most = 20
	}
	if d.span < 1 {
		d.buckets, d.span = 0, d.most
	}
	terms := strings.ToLower(fmt.Sprint(config["pos_att_type"]))
	d.c2p, d.p2c = strings.Contains(terms, "c2p"), strings.Contains(terms, "p2c")
	return kindTest{"deberta-v2", config, d.shapes(), d.rows, 20}
}

// debertaNumbers is a DeBERTa in float64.
type debertaNumbers struct {
	span, buckets, most, types, embedding, kernel int
	norm, shared, biased, c2p, p2c                bool
}

const debertaLayer = "deberta.encoder.layer.%d."

func (d *debertaNumbers) shapes() map[string][]int {
	const at = debertaLayer
	outside := map[string][]int{"deberta.embeddings.word_embeddings.weight": {words, d.embedding},
		"deberta.encoder.rel_embeddings.weight":         {2 * d.span, wide},
		"lm_predictions.lm_head.dense.weight":           {3},
		"deberta.embeddings.position_embeddings.weight": {20, d.embedding}} // not always of effect
	norms(outside, "deberta.embeddings.LayerNorm")
	if d.norm {
		norms(outside, "deberta.encoder.LayerNorm")
	}
	if d.types > 0 {
		outside["deberta.embeddings.token_type_embeddings.weight"] = []int{d.types, d.embedding}
	}
	if d.embedding != wide {
		outside["deberta.embeddings.embed_proj.weight"] = []int{wide, d.embedding}
	}
	if d.kernel > 0 {
		norms(outside, "deberta.encoder.conv.LayerNorm", "deberta.encoder.conv.conv")
		outside["deberta.encoder.conv.conv.weight"] = []int{wide, wide, d.kernel}
	}
	in := map[string][]int{}
	linears(in, wide, wide, at+"attention.self.query_proj", at+"attention.self.key_proj",
		at+"attention.self.value_proj", at+"attention.output.dense")
	if !d.shared && d.c2p {
		linears(in, wide, wide, at+"attention.self.pos_key_proj")
	}
	if !d.shared && d.p2c {
		linears(in, wide, wide, at+"attention.self.pos_query_proj")
	}
	linears(in, wide, inner, at+"intermediate.dense")
	linears(in, inner, wide, at+"output.dense")
	norms(in, at+"attention.output.LayerNorm", at+"output.LayerNorm")
	return shapesOf(2, outside, in)
}

func (d *debertaNumbers) rows(w numbers, ids, segments []int) (x [][]float64) {
	e := bertLike(w, 1e-7)
	e.at, e.q, e.k, e.v = debertaLayer, "attention.self.query_proj", "attention.self.key_proj",
		"attention.self.value_proj"
	e.out, e.up, e.down = "attention.output.dense", "intermediate.dense", "output.dense"
	e.norm1, e.norm2 = "attention.output.LayerNorm", "output.LayerNorm"
	e.scoreOf = func(layer, head, query, key int, q, k []float64) float64 {
		return d.score(e, layer, head, d.row(query-key), q, k)
	}
	for i, id := range ids {
		at := map[string]int{"deberta.embeddings.word_embeddings": id}
		if d.biased {
			at["deberta.embeddings.position_embeddings"] = i
		}
		if d.types > 0 {
			at["deberta.embeddings.token_type_embeddings"] = segments[i]
		}
		row := w.sumOf(i, d.embedding, at)
		if d.embedding != wide {
			row = w.linear("deberta.embeddings.embed_proj", row)
		}
		x = append(x, e.norm("deberta.embeddings.LayerNorm", row))
	}
	if d.kernel == 0 {
		return e.run(x)
	}
	embedded := slices.Clone(x)
	e.layers = 1
	x = e.run(x)
	for i := range x {
		sum := d.convolved(w, embedded, i)
		x[i] = e.norm("deberta.encoder.conv.LayerNorm", plus(x[i], sum))
	}
	e.first = 1
	return e.run(x)
}

// convolved is the activation of a convolution at a place of a text.
func (d *debertaNumbers) convolved(w numbers, x [][]float64, at int) []float64 {
	out := slices.Clone(w["deberta.encoder.conv.conv.bias"])
	for o := range out {
		for in := range wide {
			for k := range d.kernel {
				if i := at + k - d.kernel/2; i >= 0 && i < len(x) {
					out[o] += x[i][in] * w["deberta.encoder.conv.conv.weight"][(o*wide+in)*d.kernel+k]
				}
			}
		}
		out[o] = math.Tanh(out[o])
	}
	return out
}

// row is the row of rel_embeddings for a position, query − key, as the paper of version 2 and
// transformers have it.
func (d *debertaNumbers) row(position int) int {
	half, bucket := d.buckets/2, position
	if n := max(position, -position); d.buckets > 0 && n > half {
		wide := math.Log(float64(n)/float64(half)) / math.Log(float64(d.most-1)/float64(half))
		bucket = int(math.Ceil(wide*float64(half-1)-1e-9)) + half
		if position < 0 {
			bucket = -bucket
		}
	}
	return max(0, min(bucket+d.span, 2*d.span-1))
}

// score is the sum of up to three products, divided by the root of their number and width.
func (d *debertaNumbers) score(e *encoder, layer, head, row int, q, k []float64) float64 {
	at := strings.ReplaceAll(debertaLayer, "%d", fmt.Sprint(layer)) + "attention.self."
	position := e.w["deberta.encoder.rel_embeddings.weight"][row*wide:][:wide]
	if d.norm {
		position = e.norm("deberta.encoder.LayerNorm", position)
	}
	projected := func(shared, own string) []float64 {
		if !d.shared {
			shared = own
		}
		return e.w.linear(at+shared, position)[head*width10:][:width10]
	}
	sum, n := dot(q, k), 1.0
	if d.c2p {
		sum, n = sum+dot(q, projected("key_proj", "pos_key_proj")), n+1
	}
	if d.p2c {
		sum, n = sum+dot(k, projected("query_proj", "pos_query_proj")), n+1
	}
	return sum / math.Sqrt(width10*n)
}

// TestDeBERTaAgainstFloat64 has all settings of embeddings and positions.
func TestDeBERTaAgainstFloat64(t *testing.T) {
	texts := append(slices.Clone(ragged), strings.Repeat("cat un, ", 5))
	for _, changes := range []map[string]any{
		{"share_att_key": false, "pos_att_type": []string{"c2p", "p2c"}},
		{"share_att_key": false, "pos_att_type": []string{"c2p"}},
		{"pos_att_type": " P2C "},
		{"pos_att_type": []string{}, "norm_rel_ebd": "none"},
		{"position_buckets": -1, "norm_rel_ebd": "none | layer_norm "},
		{"position_buckets": -1, "max_relative_positions": 3, "norm_rel_ebd": "none"},
		{"max_relative_positions": -1, "type_vocab_size": 2},
		{"position_biased_input": true, "embedding_size": 7, "type_vocab_size": 2},
		{"position_biased_input": true, "embedding_size": 41, "attention_head_size": 10},
		{"conv_kernel_size": 3, "conv_act": "tanh", "conv_groups": 1},
		{"conv_kernel_size": 5, "embedding_size": 7},
	} {
		k := debertaTest(changes)
		t.Log(changes)
		checkKind(t, &k, texts)
	}
}

// TestRelativeRows has rows that float32 arithmetic as transformers' gives for the published sizes.
func TestRelativeRows(t *testing.T) {
	p := &relative{span: 256, buckets: 256, most: 512}
	for distance, want := range map[int]int{-600: 511, -512: 511, -511: 511, -510: 511, -300: 463,
		-130: 386, -129: 385, -128: 384, -1: 257, 0: 256, 1: 255, 128: 128, 129: 127, 130: 126, 300: 49,
		510: 1, 511: 1, 512: 0, 600: 0} {
		if got := p.row(distance); got != want {
			t.Errorf("distance %d: row %d, want %d", distance, got, want)
		}
	}
}

// TestDeBERTaOptions computes in integers and bfloat16, whose vectors are near, with the same bits
// in any batch.
func TestDeBERTaOptions(t *testing.T) {
	k := debertaTest(map[string]any{"share_att_key": false})
	path, values := writeKind(t, &k, safetensors.F16)
	for _, o := range []Options{{Integers: true, Workers: 2}, {BFloat16: true, BatchTokens: 7}} {
		m := mustOpen(t, path, o)
		got := inEveryCompany(t, m, nil, ragged)
		for i, text := range ragged {
			rows := k.rows(values, idsOf(t, m, text), nil)
			want := slices.Concat(rows[0], meanOf(rows), rows[len(rows)-1])
			near(t, text, got[i], scaled(want, 1/math.Sqrt(dot(want, want))), 0.02)
		}
	}
	m := mustOpen(t, path, Options{})
	const table = 2 * 2 * 16 * wide // two layers, keys and queries
	if _, lookups := m.Memory(); lookups != 4*table+2*words*wide {
		t.Errorf("lookups have %d bytes, want %d", lookups, 4*table+2*words*wide)
	}
	products := 2 * (4*wide*wide + 2*wide*inner)
	if got, want := m.MultiplyAdds(3), 3*(products+2*2*5*wide)+2*2*wide*9; got != want {
		t.Errorf("%d multiply-adds, want %d: each token with 5 rows of keys and of queries", got, want)
	}
}

// debertaTokenizer is a tokenizer.json as DeBERTa has it.
const debertaTokenizer = `{"added_tokens": [{"id": 0, "content": "[PAD]", "special": true},
	{"id": 1, "content": "[CLS]", "special": true}, {"id": 2, "content": "[SEP]", "special": true},
	{"id": 3, "content": "[UNK]", "special": true, "normalized": true},
	{"id": 11, "content": "[MASK]", "special": true}],
	"normalizer": {"type": "Sequence", "normalizers": [{"type": "Strip", "strip_left": true,
		"strip_right": true}, {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}]},
	"pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Metaspace", "replacement": "▁",
		"prepend_scheme": "always"}]},
	"post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "[CLS]",
		"type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "[SEP]",
		"type_id": 0}}], "pair": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence":
		{"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "[SEP]", "type_id": 0}}, {"Sequence":
		{"id": "B", "type_id": 1}}, {"SpecialToken": {"id": "[SEP]", "type_id": 1}}],
		"special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [1], "tokens": ["[CLS]"]}, "[SEP]":
		{"id": "[SEP]", "ids": [2], "tokens": ["[SEP]"]}}},
	"decoder": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"},
	"model": {"type": "Unigram", "unk_id": 3, "vocab": [["[PAD]", 0], ["[CLS]", 0], ["[SEP]", 0],
		["[UNK]", 0], ["▁", -2], ["▁cat", -3], ["▁un", -4], ["believ", -4], ["able", -4], ["s", -3],
		[",", -3]]}}`

// writeDeBERTa replaces the tokenizer of a folder.
func writeDeBERTa(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(filepath.Join(path, "vocab.txt")); err != nil {
		t.Fatal(err)
	}
	write(t, path, "tokenizer.json", []byte(debertaTokenizer))
	write(t, path, "tokenizer_config.json", []byte(`{"tokenizer_class": "DebertaV2Tokenizer",
		"vocab_type": "spm", "split_by_punct": false, "do_lower_case": false, "sp_model_kwargs": {},
		"cls_token": "[CLS]", "bos_token": "[CLS]", "eos_token": "[SEP]", "sep_token": "[SEP]",
		"mask_token": "[MASK]", "pad_token": "[PAD]", "unk_token": "[UNK]",
		"model_max_length": 1000000000000000019884624838656}`))
}

// TestDeBERTaLabels classifies by entailment and finds entities with DeBERTa's tokenizer.
func TestDeBERTaLabels(t *testing.T) {
	k, h := debertaTest(nil), headTests()["deberta-v2"]
	k.config["model_type"], k.config["tokenizer_class"] = k.kind, "DebertaV2Tokenizer"
	path, values := writeCross(t, &k, &h, threeLabels)
	writeDeBERTa(t, path)
	m := mustOpen(t, path, Options{})
	got, err := m.ZeroShot("cats, unbelievable", []string{"cat", "un"}, "un {}.", false)
	if err != nil {
		t.Fatal(err)
	}
	var want []float64
	for _, hypothesis := range []string{"un cat.", "un un."} {
		read, err := m.texts.PairFirst("cats, unbelievable", hypothesis)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, h.score(values, k.rows(values, widen(read.Tokens), nil))[2])
	}
	near(t, "entailment", got, softmaxOf(want), 2e-5)

	k = debertaTest(nil)
	path, values = writeLabels(t, &k, map[string]any{"0": "B-a", "1": "I-a", "2": "b"})
	writeDeBERTa(t, path)
	m = mustOpen(t, path, Options{})
	const text = " cats,  unbelievable"
	entities, err := m.Entities([]string{text}, NoAggregation)
	if err != nil {
		t.Fatal(err)
	}
	rows := k.rows(values, idsOf(t, m, text), nil)
	var parts []string
	for i, e := range entities[0] {
		parts = append(parts, text[e.Start:e.End])
		p := labelRow(k.kind, values, rows[i+1])
		near(t, fmt.Sprint("token ", i), []float32{e.Score}, []float64{slices.Max(p)}, 2e-5)
	}
	if s := fmt.Sprintf("%q", parts); s != `["cat" "s" "," " un" "believ" "able"]` {
		t.Errorf("tokens %s", s)
	}
}
