package tokenize

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-1415985d/attn/internal/strictjson"
	"github.com/seed-1415985d/attn/models/internal/weights"
)

// Vocabulary is the tokenizer in the metadata of a GGUF file, under "tokenizer.".
type Vocabulary struct {
	Model    string    `json:"ggml.model"`
	Pre      string    `json:"ggml.pre"`
	Tokens   []string  `json:"ggml.tokens"`
	Types    []int     `json:"ggml.token_type"`
	Scores   []float32 `json:"ggml.scores"`
	Merges   []string  `json:"ggml.merges"`
	Begin    *int      `json:"ggml.bos_token_id"`
	End      *int      `json:"ggml.eos_token_id"`
	Ends     []int     `json:"ggml.eos_token_ids"`
	Turn     *int      `json:"ggml.eot_token_id"`
	Message  *int      `json:"ggml.eom_token_id"`
	Unknown  *int      `json:"ggml.unknown_token_id"`
	AddBegin *bool     `json:"ggml.add_bos_token"`
	AddEnd   *bool     `json:"ggml.add_eos_token"`
	AddSpace *bool     `json:"ggml.add_space_prefix"`
	Template string    `json:"chat_template"` // of conversations; "" for none
	Rerank   string    `json:"chat_template.rerank"`
}

// vocabularyIdle are keys without effect: tokens for other tasks, which texts may have, and data
// that other programs read instead.
var vocabularyIdle = strictjson.Idle{
	"ggml.padding_token_id": nil, "ggml.mask_token_id": nil, "ggml.cls_token_id": nil,
	"ggml.seperator_token_id": nil, "ggml.separator_token_id": nil, "ggml.add_sep_token": {"false"},
	"ggml.token_type_count": nil, "ggml.fim_*": nil, "ggml.prefix_token_id": nil,
	"ggml.suffix_token_id": nil, "ggml.middle_token_id": nil,
	"ggml.remove_extra_whitespaces": {"false"}, "ggml.precompiled_charsmap": {"[]"},
	"huggingface.json": nil, "chat_templates": nil, "chat_template.*": nil,
}

// The types of tokens.
const (
	normalToken = iota + 1
	unknownToken
	controlToken
	userToken
	unusedToken
	byteToken
)

// gemma4 is the kind of tokenizer of Gemma 4.
const gemma4 = "gemma4"

const tokenizerModel, tokenizerPre = "tokenizer.ggml.model", "tokenizer.ggml.pre"

// ReadVocabulary reads the tokens of a GGUF file.
func ReadVocabulary(l *weights.Loader) *Vocabulary {
	v := &Vocabulary{}
	l.Metadata("tokenizer", v, vocabularyIdle)
	if l.Err == nil {
		l.Check("", v.complete())
	}
	return v
}

// complete sets defaults as llama.cpp does, and refuses contradictions.
func (v *Vocabulary) complete() error {
	n := len(v.Tokens)
	if v.Model != "gpt2" && v.Model != "llama" && v.Model != gemma4 {
		return fmt.Errorf("%s is %q, want gpt2, llama or gemma4", tokenizerModel, v.Model)
	}
	if len(v.Types) == 0 {
		v.Types = slices.Repeat([]int{normalToken}, n)
	}
	if len(v.Types) != n {
		return fmt.Errorf("tokenizer.ggml.token_type has %d elements, want %d, one for each token",
			len(v.Types), n)
	}
	for i, kind := range v.Types {
		if kind < normalToken || kind > byteToken {
			return fmt.Errorf("tokenizer.ggml.token_type[%d] is %d, want 1 to 6", i, kind)
		}
	}
	if err := v.completeModel(); err != nil {
		return err
	}
	for _, t := range []struct {
		key string
		id  *int
	}{{"bos", v.Begin}, {"eos", v.End}, {"eot", v.Turn}, {"eom", v.Message}, {"unknown", v.Unknown}} {
		if t.id != nil && (*t.id < 0 || *t.id >= n) {
			return fmt.Errorf("tokenizer.ggml.%s_token_id is %d, want 0 to %d, the last token", t.key, *t.id,
				n-1)
		}
	}
	for i, id := range v.Ends {
		if id < 0 || id >= n {
			return fmt.Errorf("tokenizer.ggml.eos_token_ids[%d] is %d, want 0 to %d, the last token", i, id,
				n-1)
		}
	}
	return nil
}

// completeModel sets what a kind of tokenizer implies.
func (v *Vocabulary) completeModel() error {
	adds := true
	if v.Model == gemma4 {
		if v.Pre != "" || v.AddSpace != nil && *v.AddSpace {
			return fmt.Errorf("%s is %q and tokenizer.ggml.add_space_prefix %v, want no such key and false "+
				"for %s", tokenizerPre, v.Pre, v.AddSpace != nil && *v.AddSpace, gemma4)
		}
	} else if v.Model == "llama" {
		if len(v.Scores) != len(v.Tokens) {
			return fmt.Errorf("tokenizer.ggml.scores has %d elements, want %d, one for each token",
				len(v.Scores), len(v.Tokens))
		}
		for into, usual := range map[**int]int{&v.Begin: 1, &v.End: 2, &v.Unknown: 0} {
			if *into == nil {
				*into = &usual
			}
		}
	} else if pre, ok := preTokenizersGGUF[v.Pre]; ok {
		adds = pre.addBegin
	} else {
		return fmt.Errorf("%s is %q, want one of %s", tokenizerPre, v.Pre, knownPre())
	}
	if v.AddBegin == nil {
		v.AddBegin = &adds
	}
	if v.Begin == nil && *v.AddBegin {
		return fmt.Errorf("tokenizer.ggml.add_bos_token is true, or implied by %s, %q, and there is no "+
			"tokenizer.ggml.bos_token_id, want the number of a token", tokenizerPre, v.Pre)
	}
	if v.AddEnd != nil && *v.AddEnd && v.End == nil {
		return fmt.Errorf("tokenizer.ggml.add_eos_token is true, and there is no " +
			"tokenizer.ggml.eos_token_id, want the number of a token")
	}
	return nil
}

// Stop returns the tokens that end an answer by a key.
func (v *Vocabulary) Stop() []int {
	var lists [][]int
	for _, id := range []*int{v.End, v.Turn, v.Message} {
		if id != nil {
			lists = append(lists, []int{*id})
		}
	}
	return Union(append(lists, v.Ends)...)
}

// Named returns the tokens that end an answer by their numbers.
func (v *Vocabulary) Named() Ends {
	return Ends{Tokens: v.Stop(), All: len(v.Ends) > 1, Turn: v.Turn != nil, Message: v.Message != nil}
}

// FromGGUF reads the tokenizer of a GGUF file.
func FromGGUF(l *weights.Loader) *Tokenizer {
	switch kind := kindGGUF(l); kind {
	case "gpt2", "llama", gemma4:
		return VocabularyBPE(l, ReadVocabulary(l))
	case "bert":
		t, _ := readWordPieceGGUF(l, true)
		return t
	case "t5":
		t, _ := readUnigramGGUF(l, true)
		return t
	default:
		l.Check("", fmt.Errorf("%s is %q, want gpt2, llama, gemma4, bert or t5", tokenizerModel, kind))
		return nil
	}
}

// kindGGUF returns the kind of tokenizer in a GGUF file.
func kindGGUF(l *weights.Loader) string {
	var kind struct {
		Model string `json:"ggml.model"`
	}
	l.Metadata("tokenizer", &kind, strictjson.AnyKey)
	return kind.Model
}

// VocabularyBPE makes the byte-pair encoding of a vocabulary.
func VocabularyBPE(l *weights.Loader, v *Vocabulary) *Tokenizer {
	t := &Tokenizer{file: metadata}
	if l.Err != nil {
		return t
	}
	t.Template = Template{Source: v.Template, Begin: v.text(v.Begin), End: v.text(v.End)}
	t.Named = v.Named()
	f, err := v.file()
	if err == nil {
		err = build(t, f, usage{len(v.Tokens), true})
	}
	if err != nil {
		l.Check("", fmt.Errorf("tokenizer.ggml: %w", err))
		return t
	}
	t.hide(v.Types)
	if *v.AddBegin {
		t.before = []int{*v.Begin}
		t.begin = t.before
	}
	if v.AddEnd != nil && *v.AddEnd {
		t.after = []int{*v.End}
	}
	return t
}

// metadata is the name in errors for a GGUF file's tokenizer.
const metadata = "the metadata"

// hide makes tokens special by their types.
func (t *Tokenizer) hide(types []int) {
	for id, kind := range types {
		if kind == controlToken || kind == unknownToken {
			t.special[id] = true
		}
	}
}

// ReadTextsOfBPE reads the tokenizer of a decoder for embeddings and scores from a GGUF file, and
// the file's vocabulary.
func ReadTextsOfBPE(l *weights.Loader, positions int) (*Texts, *Vocabulary) {
	v := ReadVocabulary(l)
	return &Texts{VocabularyBPE(l, v), positions}, v
}

// EndsTexts returns why texts do not end with the token of a text, nil if they do.
func (v *Vocabulary) EndsTexts(text string) error {
	const add, number = "tokenizer.ggml.add_eos_token", "tokenizer.ggml.eos_token_id"
	switch {
	case v.AddEnd == nil:
		return fmt.Errorf("%s is not there, want true", add)
	case !*v.AddEnd:
		return fmt.Errorf("%s is false, want true", add)
	case v.text(v.End) != text:
		return fmt.Errorf("%s is %d, %q, want the number of %q", number, *v.End, v.text(v.End), text)
	}
	return nil
}

// text returns the text of a token, "" for nil.
func (v *Vocabulary) text(id *int) string {
	if id == nil {
		return ""
	}
	return v.Tokens[*id]
}

// file returns the tokenizer.json that is equivalent to the metadata.
func (v *Vocabulary) file() (*tokenizerFile[bpeModel], error) {
	f := &tokenizerFile[bpeModel]{Model: bpeModel{Vocab: make(map[string]int, len(v.Tokens))}}
	for i, text := range v.Tokens {
		if text == "" {
			continue // no text has it
		}
		if id, ok := f.Model.Vocab[text]; ok {
			return nil, fmt.Errorf("tokens %d and %d are both %q, want different ones", id, i, text)
		}
		f.Model.Vocab[text] = i
		if kind := v.Types[i]; kind == controlToken || kind == userToken {
			f.Added = append(f.Added, addedToken{ID: i, Content: text, Special: kind == controlToken})
		}
	}
	switch v.Model {
	case "llama":
		v.sentencePiece(f)
		return f, nil
	case gemma4:
		return f, v.lines(f)
	}
	return f, v.byteLevel(f)
}

// lines sets a vocabulary of text with ▁ for spaces, whose merges are within lines, as in Gemma 4.
func (v *Vocabulary) lines(f *tokenizerFile[bpeModel]) error {
	f.Model.ByteFallback, f.Model.FuseUnknown, f.Model.Unknown = true, true, v.text(v.Unknown)
	f.PreTokenizer = stagesJSON("pretokenizers", map[string]any{"type": "Split",
		"behavior": "Isolated", "pattern": map[string]any{"Regex": `[^\n]+|\n+`}})
	markSpaces(f, false)
	return v.merges(f)
}

// byteLevel sets a vocabulary of bytes as letters, as in GPT-2.
func (v *Vocabulary) byteLevel(f *tokenizerFile[bpeModel]) error {
	if err := v.merges(f); err != nil {
		return err
	}
	pre := preTokenizersGGUF[v.Pre]
	f.Model.IgnoreMerges = pre.ignoreMerges
	var stages []any
	for _, pattern := range pre.patterns {
		stages = append(stages, map[string]any{"type": "Split", "behavior": "Isolated",
			"pattern": map[string]any{"Regex": pattern}})
	}
	stages = append(stages, map[string]any{"type": "ByteLevel", "use_regex": false})
	f.PreTokenizer = stagesJSON("pretokenizers", stages...)
	if pre.normal {
		f.Normalizer = stagesJSON("normalizers", map[string]any{"type": "NFC"})
	}
	return nil
}

// merges sets the merges, which the metadata has as texts.
func (v *Vocabulary) merges(f *tokenizerFile[bpeModel]) error {
	f.Model.Merges = make([]merge, 0, len(v.Merges))
	for i, text := range v.Merges {
		at := strings.Index(text[min(1, len(text)):], " ") // the first token has at least one letter
		if at < 0 {
			return fmt.Errorf("merges[%d] is %q, want two tokens", i, text)
		}
		f.Model.Merges = append(f.Model.Merges, merge{text[:at+1], text[at+2:]})
	}
	return nil
}

// sentencePiece sets a vocabulary of text with ▁ for spaces, in which merges with the best scores
// come first.
func (v *Vocabulary) sentencePiece(f *tokenizerFile[bpeModel]) {
	m := &f.Model
	m.Scores = v.Scores
	m.ByteFallback, m.FuseUnknown, m.Unknown = true, true, v.Tokens[*v.Unknown]
	m.made = func(id int) bool {
		kind := v.Types[id]
		return kind == normalToken || kind == userToken || kind == unusedToken
	}
	markSpaces(f, v.AddSpace == nil || *v.AddSpace)
}

// markSpaces sets how ▁ stands for a space, which may be added before a text.
func markSpaces(f *tokenizerFile[bpeModel], adds bool) {
	stages := []any{map[string]any{"type": "Replace", "pattern": map[string]any{"String": " "},
		"content": "▁"}}
	if adds {
		stages = slices.Insert(stages, 0, any(map[string]any{"type": "Prepend", "prepend": "▁"}))
	}
	f.Normalizer = stagesJSON("normalizers", stages...)
	stages = []any{map[string]any{"type": "Replace", "pattern": map[string]any{"String": "▁"},
		"content": " "}, map[string]any{"type": "ByteFallback"}, map[string]any{"type": "Fuse"}}
	if adds {
		stages = append(stages, map[string]any{"type": "Strip", "content": " ", "start": 1, "stop": 0})
	}
	f.Decoder = stagesJSON("decoders", stages...)
}

// stagesJSON returns a Sequence in the form of tokenizer.json.
func stagesJSON(inner string, stages ...any) []byte {
	text, _ := json.Marshal(map[string]any{"type": "Sequence", inner: stages}) // cannot fail
	return text
}
