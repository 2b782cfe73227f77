package tokenize

import (
	"fmt"
	"slices"

	"github.com/seed-1415985d/attn/internal/strictjson"
	"github.com/seed-1415985d/attn/models/internal/weights"
)

const tokenizerConfigJSON = "tokenizer_config.json"

// tokenizerConfig is tokenizer_config.json. Where tokenizer.json says the same things, both must
// agree.
type tokenizerConfig struct {
	Longest float64             `json:"model_max_length"` // tokens of a text, often 1e30; 0: not given
	Added   map[int]configToken `json:"added_tokens_decoder"`
	Class   string              `json:"tokenizer_class"`
	Side    string              `json:"truncation_side"` // the end at which long texts are cut

	PaddingSide string `json:"padding_side"` // where queries with a vector for each token are padded

	// of BPE
	AddSpace *bool `json:"add_prefix_space"`
	AddBegin *bool `json:"add_bos_token"`
	AddEnd   *bool `json:"add_eos_token"`

	Chat chatTemplates `json:"chat_template"` // of conversations

	// of WordPiece
	Lower   *bool `json:"do_lower_case"`
	Strip   *bool `json:"strip_accents"`
	Chinese *bool `json:"tokenize_chinese_chars"`
	Clean   *bool `json:"clean_text"`

	namedTokens
}

// tokenizerConfigIdle are keys of tokenizer_config.json without effect: names, padding and decoding
// in other programs, and what classes of transformers save about offsets, or about making a
// tokenizer.json out of another file.
var tokenizerConfigIdle = strictjson.Idle{
	"trim_offsets":             nil, // of RoBERTa, BART and GPT-NeoX
	"vocab_type":               nil, // of DeBERTa, as is the next
	"split_by_punct":           {"false"},
	"extra_ids":                nil, // of T5, whose tokens are added ones, too
	"remove_space":             nil, // of ALBERT, XLNet, RemBERT and FNet, as is the next
	"keep_accents":             nil,
	"suffix_first":             nil,       // of Code Llama, for filling in text
	"return_token_type_ids":    nil,       // of CodeGen and Phi
	"decode_with_prefix_space": {"false"}, // of InternLM
	"init_inputs":              {"[]"},

	"auto_map": nil, "backend": nil, "clean_up_tokenization_spaces": nil,
	"do_basic_tokenize": {"true"}, "errors": nil,
	"from_slow": nil, "full_tokenizer_file": nil, "is_local": nil, "legacy": nil,
	"local_files_only": nil, "max_len": nil, "max_length": nil, "model_input_names": nil,
	"model_specific_special_tokens": nil, "name_or_path": nil, "never_split": {"[]"},
	"pad_to_multiple_of": nil, "pad_token_type_id": nil, "padding": nil,
	"processor_class": nil, "response_schema": nil, "sp_model_kwargs": nil,
	"spaces_between_special_tokens": nil, "special_tokens_map_file": nil,
	"split_special_tokens": {"false"}, "stride": nil, "tokenizer_file": nil, "truncation": nil,
	"truncation_strategy": nil,
	"trust_remote_code":   nil, "use_default_system_prompt": nil, "use_fast": nil, "vocab_file": nil,
	"vocab_size":        nil,
	"wordpieces_prefix": {`"##"`},
}

// configToken is an added token without its number.
type configToken struct {
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	Left       bool   `json:"lstrip"`
	Right      bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
	Special    bool   `json:"special"`
}

func (t configToken) numbered(id int) addedToken {
	return addedToken{id, t.Content, t.SingleWord, t.Left, t.Right, t.Normalized, t.Special, false,
		tokenizerConfigJSON}
}

// readConfig reads tokenizer_config.json and special_tokens_map.json if they exist.
func readConfig(l *weights.Loader) *tokenizerConfig {
	c := &tokenizerConfig{}
	l.OptionalJSON(tokenizerConfigJSON, c, c.findOfModel(l, tokenizerConfigJSON, tokenizerConfigIdle))
	specialTokensMap(l, &c.namedTokens)
	return c
}

// agrees compares a setting of the file, if it has it, with tokenizer.json.
func agrees(key string, said *bool, does bool) error {
	if said == nil || *said == does {
		return nil
	}
	return fmt.Errorf("%s is %v, want %v as tokenizer.json has it, or none", key, *said, does)
}

// agreesWithBPE refuses a file that contradicts tokenizer.json.
func (c *tokenizerConfig) agreesWithBPE(p *pipeline) error {
	for _, err := range []error{
		agrees("add_bos_token", c.AddBegin, len(p.before) > 0),
		agrees("add_eos_token", c.AddEnd, len(p.after) > 0),
		agrees("add_prefix_space", c.AddSpace, p.addsSpace()),
	} {
		if err != nil {
			return err
		}
	}
	return nil
}

// addsSpace reports whether a text gets a space at its beginning, in any form.
func (p *pipeline) addsSpace() bool {
	for _, n := range p.normalizers {
		if _, ok := n.(*prepend); ok {
			return true
		}
	}
	return slices.ContainsFunc(p.preTokenizers, func(s preTokenizer) bool {
		switch s := s.(type) {
		case *byteLevel:
			return s.AddSpace
		case *metaspace:
			return *s.Scheme != "never"
		}
		return false
	})
}

// agreesWithWordPiece refuses a file that contradicts the normalizer of tokenizer.json.
func (c *tokenizerConfig) agreesWithWordPiece(p *pipeline) error {
	for _, n := range p.normalizers {
		bert, ok := n.(*cleaning)
		if !ok {
			continue
		}
		for _, err := range []error{
			agrees("do_lower_case", c.Lower, bert.Lower),
			agrees("tokenize_chinese_chars", c.Chinese, bert.Chinese),
			agrees("clean_text", c.Clean, bert.Clean),
			agrees("strip_accents", c.Strip, bert.strips()),
		} {
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// bertClasses are the classes of tokenizers that read a vocab.txt as this package does.
var bertClasses = []string{"", "BertTokenizer", "BertTokenizerFast", "DistilBertTokenizer",
	"DistilBertTokenizerFast"}

// isBERT refuses a vocab.txt for other classes, which divide texts into other words.
func (c *tokenizerConfig) isBERT() error {
	if !slices.Contains(bertClasses, c.Class) {
		return fmt.Errorf("tokenizer_class is %q beside a vocab.txt, want BertTokenizer, or a "+
			"tokenizer.json", c.Class)
	}
	return nil
}

// cleaning returns the normalizer for a vocab.txt.
func (c *tokenizerConfig) cleaning() *cleaning {
	n := newCleaning()
	for into, said := range map[*bool]*bool{&n.Lower: c.Lower, &n.Chinese: c.Chinese,
		&n.Clean: c.Clean} {
		if said != nil {
			*into = *said
		}
	}
	n.Strip = c.Strip
	return n
}
