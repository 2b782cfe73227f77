package tokenize

import (
	"fmt"
	"math"

	"github.com/seed-1415985d/attn/internal/strictjson"
	"github.com/seed-1415985d/attn/models/internal/weights"
)

// unigramKeys is the metadata of a GGUF file with XLM-RoBERTa's tokens, under "tokenizer.".
type unigramKeys struct {
	Model    string    `json:"ggml.model"`
	Tokens   []string  `json:"ggml.tokens"`
	Scores   []float32 `json:"ggml.scores"`
	Kinds    []int     `json:"ggml.token_type"`
	Segments *int      `json:"ggml.token_type_count"`
	Begin    *int      `json:"ggml.bos_token_id"`
	End      *int      `json:"ggml.eos_token_id"`
	Unknown  *int      `json:"ggml.unknown_token_id"`
	Charsmap []int     `json:"ggml.precompiled_charsmap"` // bytes
}

// unigramKeysIdle are keys without effect: tokens for other tasks, and properties of all such
// files.
var unigramKeysIdle = strictjson.Idle{
	"ggml.padding_token_id": nil, "ggml.mask_token_id": nil, "ggml.cls_token_id": nil,
	"ggml.seperator_token_id": nil, "ggml.separator_token_id": nil, "ggml.add_sep_token": nil,
	"ggml.add_bos_token": {"true"}, "ggml.add_eos_token": {"true"},
	"ggml.add_space_prefix": {"true"}, "ggml.remove_extra_whitespaces": {"true"},
	"ggml.pre": {`"default"`}, "huggingface.json": nil,
}

// ReadTextsGGUF reads the tokenizer of an encoder in a GGUF file, and the number of the model's
// segments.
func ReadTextsGGUF(l *weights.Loader, positions int) (texts *Texts, segments int) {
	readModel := readWordPieceGGUF
	if kindGGUF(l) == "t5" {
		readModel = readUnigramGGUF
	}
	t, segments := readModel(l, false)
	return &Texts{t, positions}, segments
}

func readUnigramGGUF(l *weights.Loader, decodes bool) (t *Tokenizer, segments int) {
	var k unigramKeys
	l.Metadata("tokenizer", &k, unigramKeysIdle)
	if l.Err != nil {
		return nil, 0
	}
	if segments = 1; k.Segments != nil {
		segments = *k.Segments
	}
	t, err := k.tokenizer(decodes)
	l.Check("", err)
	return t, segments
}

// tokenizer makes a tokenizer that divides at spaces; the map of characters makes all kinds of them
// one.
func (k *unigramKeys) tokenizer(decodes bool) (*Tokenizer, error) {
	n := len(k.Tokens)
	if len(k.Scores) != n || len(k.Kinds) != n {
		return nil, fmt.Errorf("tokenizer.ggml has %d scores and %d types, want %d, one for each token",
			len(k.Scores), len(k.Kinds), n)
	}
	for into, usual := range map[**int]int{&k.Begin: 0, &k.End: 2, &k.Unknown: 3} {
		if *into == nil {
			*into = &usual
		}
		if id := **into; id < 0 || id >= n {
			return nil, fmt.Errorf("tokenizer.ggml has token %d for what begins or ends texts, or is "+
				"unknown, want 0 to %d, the last token", id, n-1)
		}
	}
	space := &metaspace{Replacement: "▁", Split: true}
	if err := space.prepare(); err != nil {
		return nil, err
	}
	t := &Tokenizer{file: metadata, Named: Ends{Tokens: []int{*k.End}}}
	t.pipeline = pipeline{size: n, preTokenizers: []preTokenizer{&words{}, space}}
	if err := k.addMap(&t.pipeline); err != nil {
		return nil, err
	}
	t.before, t.after = []int{*k.Begin}, []int{*k.End}
	t.pair = pairOf(*k.Begin, *k.End, 0, true)
	m := unigramModel{Unknown: k.Unknown}
	added := k.readTokens(&m)
	markControl(added, "")
	err := t.find(added)
	if err == nil {
		t.model, err = m.build()
	}
	if err == nil {
		err = t.setDerived(added, decodes)
	}
	for id, kind := range k.Kinds {
		if kind == unusedToken && id < len(t.texts) {
			t.texts[id] = k.Tokens[id]
		}
	}
	return t, err
}

// readTokens reads the vocabulary, and returns its added tokens.
func (k *unigramKeys) readTokens(t *unigramModel) (added []addedToken) {
	least := float32(math.Inf(1)) // of normal tokens
	for i, kind := range k.Kinds {
		if kind == normalToken {
			least = min(least, k.Scores[i])
		}
	}
	for id, text := range k.Tokens {
		score := max(k.Scores[id], least)
		switch k.Kinds[id] {
		case controlToken, userToken, unknownToken:
			mask := text == "<mask>" // it includes the space before it
			added = append(added, addedToken{ID: id, Content: text, Left: mask,
				Special: k.Kinds[id] != userToken})
		case unusedToken:
			text = fmt.Sprintf("\xff%d", id) // a text that does not occur
		case byteToken:
			t.ByteFallback = true
		}
		t.Vocab = append(t.Vocab, scored{text, float64(score)})
	}
	return added
}

// addMap adds the map of characters, if there is one.
func (k *unigramKeys) addMap(p *pipeline) error {
	if len(k.Charsmap) == 0 {
		return nil
	}
	data := make([]byte, len(k.Charsmap))
	for i, b := range k.Charsmap {
		data[i] = byte(b)
	}
	var m precompiled
	p.normalizers = append(p.normalizers, &m)
	return m.read(data)
}
