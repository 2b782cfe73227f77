package embed

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nlpodyssey/safetensors"
	"github.com/seed-1415985d/attn/models/internal/weights/foldertest"
)

// threeModules is a modules.json with room for more.
const threeModules = `[{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
	{"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}%s]`

const andNormalize = `, {"idx": 2, "name": "2", "path": "2_Normalize",
	"type": "sentence_transformers.base.modules.normalize.Normalize"}`

// TestPoolings has the keys of older and newer folders, alone and several at once.
func TestPoolings(t *testing.T) {
	for _, c := range []struct {
		file string
		want []string
	}{
		{`{"word_embedding_dimension": 30, "pooling_mode_cls_token": true,
			"pooling_mode_mean_tokens": false, "pooling_mode_max_tokens": false,
			"pooling_mode_mean_sqrt_len_tokens": false, "pooling_mode_weightedmean_tokens": false,
			"pooling_mode_lasttoken": false, "include_prompt": true}`, []string{"cls"}},
		{`{"pooling_mode_max_tokens": true, "pooling_mode_mean_tokens": false}`, []string{"max"}},
		{`{"pooling_mode_lasttoken": true, "pooling_mode_mean_tokens": false}`,
			[]string{"lasttoken"}},
		{`{"pooling_mode_lasttoken": true, "pooling_mode_mean_tokens": true,
			"pooling_mode_max_tokens": true, "pooling_mode_cls_token": true}`,
			[]string{"cls", "max", "mean", "lasttoken"}},
		{`{"pooling_mode": "cls", "embedding_dimension": 30}`, []string{"cls"}},
		{`{"pooling_mode": "lasttoken", "include_prompt": false}`, []string{"lasttoken"}},
		{`{"pooling_mode": ["weightedmean", "mean_sqrt_len_tokens"]}`,
			[]string{"weightedmean", "mean_sqrt_len_tokens"}},
		{`{}`, []string{"mean"}},
	} {
		folder, values := writeModel(t, safetensors.F32)
		write(t, folder, "1_Pooling/config.json", []byte(c.file))
		write(t, folder, "modules.json", fmt.Appendf(nil, threeModules, andNormalize))
		checkEmbeddings(t, folder, fmt.Sprint(c.want), func(ids []int) []float64 {
			return values.reference(ids, c.want...)
		})
	}
}

// TestLayersAfterThePooling computes Dense with and without bias and tanh, and leaves the length.
func TestLayersAfterThePooling(t *testing.T) {
	views, layer := map[string]safetensors.TensorView{}, numbers{}
	for name, shape := range map[string][]uint64{"linear.weight": {7, 60}, "linear.bias": {7}} {
		var data []byte
		for i := range shape[0] * append(shape, 1)[1] {
			b, x := encodings[safetensors.F32](math.Sin(float64(i)) / 4)
			data, layer[name] = append(data, b...), append(layer[name], x)
		}
		view, err := safetensors.NewTensorView(safetensors.F32, shape, data)
		if err != nil {
			t.Fatal(err)
		}
		views[name] = view
	}
	bias := layer["linear.bias"]
	for _, c := range []struct {
		config     string
		bias, tanh bool
	}{
		{`{"in_features": 60, "out_features": 7, "bias": true,
			"activation_function": "torch.nn.modules.activation.Tanh"}`, true, true},
		{`{"in_features": 60, "out_features": 7, "bias": false,
			"activation_function": "torch.nn.modules.linear.Identity",
			"module_input_name": "sentence_embedding"}`, false, false},
	} {
		folder, values := writeModel(t, safetensors.F32)
		write(t, folder, "modules.json", fmt.Appendf(nil, threeModules, `, {"idx": 2, "name": "2",
			"path": "2_Dense", "type": "sentence_transformers.models.Dense"}`))
		write(t, folder, "1_Pooling/config.json", []byte(`{"pooling_mode": ["cls", "mean"]}`))
		write(t, folder, "2_Dense/config.json", []byte(c.config))
		stored := maps.Clone(views)
		if layer["linear.bias"] = bias; !c.bias {
			delete(stored, "linear.bias")
			layer["linear.bias"] = make([]float64, 7)
		}
		writeTensors(t, filepath.Join(folder, "2_Dense"), stored)
		checkEmbeddings(t, folder, c.config, func(ids []int) []float64 {
			rows := values.rows(ids)
			y := layer.linear("linear", slices.Concat(pooled(rows, "cls"), pooled(rows, "mean")))
			for i := range y {
				if c.tanh {
					y[i] = math.Tanh(y[i])
				}
			}
			return y
		})
		if _, err := Open(folder, Options{Pooling: []string{"cls"}}); err == nil ||
			!strings.Contains(err.Error(), "has 1 poolings, want 2") {
			t.Errorf("with another number of poolings the error is %v", err)
		}
		inEveryCompany(t, mustOpen(t, folder, Options{Integers: true}), nil, []string{"cat", "un"})
	}
}

// TestTruncateDim cuts embeddings, after all that comes after the pooling, as sentence-transformers
// does.
func TestTruncateDim(t *testing.T) {
	for dim, width := range map[string]int{"7": 7, "30": 30, "1000": 30, "null": 30} {
		folder, values := writeModel(t, safetensors.F32)
		write(t, folder, "config_sentence_transformers.json", []byte(`{"truncate_dim": `+dim+`}`))
		write(t, folder, "modules.json", fmt.Appendf(nil, threeModules, andNormalize))
		write(t, folder, "1_Pooling/config.json", []byte(`{"pooling_mode": "mean"}`))
		checkEmbeddings(t, folder, "truncate_dim "+dim, func(ids []int) []float64 {
			return values.reference(ids, "mean")[:width]
		})
	}
}

// TestTextsOfFolders shortens, lowers and prefixes texts as a folder's files say.
func TestTextsOfFolders(t *testing.T) {
	tokenizer := `{"model": {"type": "WordPiece", "vocab": {"[UNK]": 1, "[CLS]": 2, "[SEP]": 3,
		"cat": 4, "CAT": 5, ":": 6, "q": 7}}, "pre_tokenizer": {"type": "BertPreTokenizer"},
		"normalizer": {"type": "BertNormalizer", "lowercase": false},
		"post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]}}`
	for _, c := range []struct {
		files map[string]string
		want  []int
	}{
		{nil, []int{2, 5, 4, 4, 4, 4, 4, 3}},
		{map[string]string{"sentence_bert_config.json": `{"max_seq_length": 4}`}, []int{2, 5, 4, 3}},
		{map[string]string{"sentence_bert_config.json": `{"max_seq_length": null}`,
			"tokenizer_config.json": `{"model_max_length": 5}`}, []int{2, 5, 4, 4, 3}},
		{map[string]string{"sentence_bert_config.json": `{"max_seq_length": 6}`,
			"tokenizer_config.json": `{"model_max_length": 5}`}, []int{2, 5, 4, 4, 4, 3}},
		{map[string]string{"tokenizer_config.json": `{"model_max_length":
			1000000000000000019884624838656}`}, []int{2, 5, 4, 4, 4, 4, 4, 3}},
		{map[string]string{"sentence_bert_config.json": `{"do_lower_case": true, "max_seq_length": 4}`},
			[]int{2, 4, 4, 3}},
		{map[string]string{"sentence_xlnet_config.json": `{"max_seq_length": 3}`,
			"sentence_roberta_config.json": `{"max_seq_length": 4}`}, []int{2, 5, 4, 3}},
		{map[string]string{"config_sentence_transformers.json": `{"prompts": {"query": "q: ", "x": ""},
			"default_prompt_name": "query", "similarity_fn_name": "cosine"}`,
			"sentence_bert_config.json": `{"max_seq_length": 6}`}, []int{2, 7, 6, 5, 4, 3}},
	} {
		folder, _ := writeModel(t, safetensors.F32)
		write(t, folder, "tokenizer.json", []byte(tokenizer))
		for name, text := range c.files {
			write(t, folder, name, []byte(text))
		}
		m := mustOpen(t, folder, Options{})
		if got := idsOf(t, m, "CAT cat cat cat cat cat"); !slices.Equal(got, c.want) {
			t.Errorf("%v: the tokens are %v, want %v", c.files, got, c.want)
		}
	}
}

// TestOlderNames reads LayerNorms as TensorFlow names them.
func TestOlderNames(t *testing.T) {
	folder, _ := writeModel(t, safetensors.F32)
	views, values := tensorsOf(t, safetensors.F32)
	older := map[string]safetensors.TensorView{}
	for name, view := range views {
		name = strings.ReplaceAll(name, "LayerNorm.weight", "LayerNorm.gamma")
		older[strings.ReplaceAll(name, "LayerNorm.bias", "LayerNorm.beta")] = view
	}
	older["pooler.dense.weight"] = views["encoder.layer.0.attention.self.query.weight"]
	writeTensors(t, folder, older)
	checkEmbeddings(t, folder, "gamma and beta", func(ids []int) []float64 {
		return values.reference(ids, "mean")
	})
	older["encoder.layer.0.attention.self.distance_embedding.weight"] = older["pooler.dense.weight"]
	writeTensors(t, folder, older)
	if err := openError(folder); err == nil ||
		!strings.Contains(err.Error(), "tensor encoder.layer.0.attention.self.distance_embedding") {
		t.Errorf("with an unknown tensor the error is %v", err)
	}
}

// TestRefusedFolders has files that ask for what the encoder does not do.
func TestRefusedFolders(t *testing.T) {
	module := func(index int, path, kind string) string {
		return fmt.Sprintf(`, {"idx": %d, "path": %q, "type": "sentence_transformers.models.%s"}`,
			index, path, kind)
	}
	modules := func(more string) map[string]string {
		return map[string]string{"modules.json": fmt.Sprintf(threeModules, more),
			"1_Pooling/config.json": "{}"}
	}
	pooling := func(text string) map[string]string {
		return map[string]string{"1_Pooling/config.json": text}
	}
	dense := func(text string) map[string]string {
		files := modules(module(2, "2_Dense", "Dense"))
		files["2_Dense/config.json"] = text
		return files
	}
	changed := func(key, value string) map[string]string {
		text := string(encode(t, tiny))
		return map[string]string{"config.json": text[:len(text)-1] + fmt.Sprintf(`, %q: %s}`, key, value)}
	}
	for _, c := range []struct {
		files map[string]string
		want  string
	}{
		{changed("position_embedding_type", `"relative_key"`),
			`config.json: position_embedding_type is "relative_key", want "absolute"`},
		{changed("tokenizer_class", `"BertJapaneseTokenizer"`), `want "BertTokenizer" or`},
		{changed("is_decoder", "true"), "config.json: is_decoder is true, want false"},
		{changed("quantization_config", "{}"), `config.json: key "quantization_config" is {}`},
		{changed("auto_map", `{"a": "b"}`), `config.json: key "auto_map" is {"a":"b"}`},
		{modules(module(2, "2_Layer", "LayerNorm")), `modules.json: module 2 has idx 2 and type ` +
			`"sentence_transformers.models.LayerNorm", want idx 2 and Dense or Normalize`},
		{modules(module(3, "3_Normalize", "Normalize")), "module 2 has idx 3"},
		{modules(module(2, "../x", "Dense")), `module 2 has path "../x"`},
		{map[string]string{"modules.json": "[]"}, "modules.json: there are 0 modules"},
		{map[string]string{"modules.json": fmt.Sprintf(threeModules, "")}, "1_Pooling/config.json: no"},
		{pooling(`{"pooling_mode": "median"}`), `1_Pooling/config.json: pooling_mode is "median", want one or more of cls`},
		{pooling(`{"pooling_mode": []}`), "1_Pooling/config.json: pooling_mode says that there is no pooling"},
		{pooling(`{"pooling_mode": 3}`), "1_Pooling/config.json: want JSON"},
		{pooling(`{"pooling_mode_cls_token": true}`),
			`pooling_mode_mean_tokens is not there, want it with keys for ["cls"]`},
		{pooling(`{"pooling_mode": "cls", "pooling_mode_mean_tokens": true}`),
			`pooling_mode is ["cls"], and other keys say ["mean"]`},
		{pooling(`{"embedding_dimension": 31}`), "dimension is 31, want 30, the width of rows"},
		{pooling(`{"word_embedding_dimension": 31}`), "dimension is 31, want 30, the width of rows"},
		{map[string]string{"config_sentence_transformers.json": `{"default_prompt_name": "q"}`},
			`default_prompt_name is "q", want none: the files have no prompts`},
		{map[string]string{"config_sentence_transformers.json": `{"default_prompt_name": "q",
			"prompts": {"b": "x", "a": "y"}}`},
			`name is "q", want one of ["a" "b"], as the files have them`},
		{map[string]string{"sentence_bert_config.json": `{"max_seq_length": 0}`},
			"sentence_bert_config.json: max_seq_length is 0"},
		{map[string]string{"tokenizer_config.json": `{"model_max_length": 1}`},
			"texts have at most 1 tokens, the least of max_position_embeddings"},
		{dense(`{"in_features": 31, "out_features": 3}`), "in_features is 31, want 30"},
		{dense(`{"in_features": 30, "out_features": 0}`), "out_features is 0"},
		{dense(`{"in_features": 30, "out_features": 3, "activation_function": "torch.x.ELU"}`),
			`activation_function is "torch.x.ELU", want GELU, Identity, ReLU`},
		{dense(`{"in_features": 30, "out_features": 3}`), "want model.safetensors or"},
		{map[string]string{"adapter_config.json": `{"peft_type": "LORA"}`},
			"adapter_config.json: the folder has an adapter, want a model without one"},
		{map[string]string{"special_tokens_map.json": `{"cls_token": "[Y]"}`,
			"tokenizer_config.json": `{"cls_token": "[CLS]"}`},
			`special_tokens_map.json: cls_token is "[Y]"`},
		{map[string]string{"added_tokens.json": `{"[CLS]": 12}`},
			`added_tokens.json: token "[CLS]" is 12, want 2 as elsewhere`},
	} {
		folder, _ := writeModel(t, safetensors.F32)
		for name, text := range c.files {
			write(t, folder, name, []byte(text))
		}
		if err := openError(folder); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: the error is %v, want it to say %s", c.files, err, c.want)
		}
	}
}

// TestUnknownKeys adds a key to each object of each file.
func TestUnknownKeys(t *testing.T) {
	folder, _ := writeModel(t, safetensors.F32)
	write(t, folder, "modules.json", fmt.Appendf(nil, threeModules, andNormalize))
	for name, text := range map[string]string{
		"1_Pooling/config.json":             `{"pooling_mode": "cls"}`,
		"sentence_bert_config.json":         `{"max_seq_length": 10}`,
		"config_sentence_transformers.json": `{"prompts": {"q": "a"}}`,
		"tokenizer_config.json":             `{"do_lower_case": true, "unk_token": {"content": "[UNK]"}}`,
		"special_tokens_map.json":           `{"sep_token": {"content": "[SEP]"}}`,
	} {
		write(t, folder, name, []byte(text))
	}
	total := 0
	for _, name := range []string{"config.json", "modules.json", "1_Pooling/config.json",
		"sentence_bert_config.json", "config_sentence_transformers.json", "tokenizer_config.json",
		"special_tokens_map.json"} {
		var all any
		data, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil || json.Unmarshal(data, &all) != nil {
			t.Fatal(err)
		}
		total += foldertest.UnknownKeys(t, filepath.Join(folder, name),
			func(at string) bool { return at == "prompts" }, func() error {
				return openError(folder)
			})
	}
	if total != 11 {
		t.Errorf("%d objects were changed, want 11", total)
	}
}
