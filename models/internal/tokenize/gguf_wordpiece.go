package tokenize

import (
	"fmt"
	"strings"

	"github.com/seed-1415985d/attn/internal/strictjson"
	"github.com/seed-1415985d/attn/models/internal/weights"
)

// wordPieceKeys is the metadata of a GGUF file with BERT's tokens, under "tokenizer.".
type wordPieceKeys struct {
	Model    string   `json:"ggml.model"`
	Tokens   []string `json:"ggml.tokens"`
	Kinds    []int    `json:"ggml.token_type"`
	Segments *int     `json:"ggml.token_type_count"`
	Begin    *int     `json:"ggml.cls_token_id"`
	Start    *int     `json:"ggml.bos_token_id"`
	End      *int     `json:"ggml.seperator_token_id"`
	Newer    *int     `json:"ggml.separator_token_id"`
	Stop     *int     `json:"ggml.eos_token_id"`
	Unknown  *int     `json:"ggml.unknown_token_id"`
}

// wordPieceKeysIdle are keys without effect: tokens for other tasks, and properties of all such
// files.
var wordPieceKeysIdle = strictjson.Idle{
	"ggml.padding_token_id": nil, "ggml.mask_token_id": nil, "ggml.scores": nil,
	"ggml.add_bos_token": {"true"}, "ggml.add_eos_token": {"true"}, "ggml.add_sep_token": nil,
	"ggml.merges": {"[]"}, "ggml.pre": {`"default"`}, "huggingface.json": nil,
}

// readWordPieceGGUF reads the tokenizer of a BERT in a GGUF file. Texts become lower case without
// accents, as in llama.cpp. segments is the number of the model's segments.
func readWordPieceGGUF(l *weights.Loader, decodes bool) (t *Tokenizer, segments int) {
	var k wordPieceKeys
	l.Metadata("tokenizer", &k, wordPieceKeysIdle)
	if l.Err != nil {
		return nil, 0
	}
	if segments = 2; k.Segments != nil {
		segments = *k.Segments
	}
	t, err := k.tokenizer(decodes)
	l.Check("", err)
	return t, segments
}

// tokenizer makes the tokenizer with the vocabulary of vocab.txt: GGUF files mark the beginnings of
// words, and not their continuations.
func (k *wordPieceKeys) tokenizer(decodes bool) (*Tokenizer, error) {
	if k.Model != "bert" {
		return nil, fmt.Errorf("%s is %q, want bert", tokenizerModel, k.Model)
	}
	m := usualWordPiece
	m.Vocab = make(map[string]int, len(k.Tokens))
	for id, text := range k.Tokens {
		text = k.asInFolders(id, text)
		if other, ok := m.Vocab[text]; ok {
			return nil, fmt.Errorf("tokens %d and %d are both %q, want different ones", other, id, text)
		}
		m.Vocab[text] = id
	}
	begin, err := k.special("[CLS]", m.Vocab, k.Begin, k.Start)
	if err != nil {
		return nil, err
	}
	end, err := k.special("[SEP]", m.Vocab, k.End, k.Newer, k.Stop)
	if err != nil {
		return nil, err
	}
	unknown, err := k.special("[UNK]", m.Vocab, k.Unknown)
	if err != nil {
		return nil, err
	}
	m.Unknown = k.asInFolders(unknown, k.Tokens[unknown])
	t := &Tokenizer{file: metadata,
		pipeline: bertPipeline(newCleaning(), begin, end, len(k.Tokens))}
	var added []addedToken
	for _, name := range []string{"[CLS]", "[SEP]", "[MASK]", "[PAD]", "[UNK]"} {
		if id, ok := m.Vocab[name]; ok {
			added = append(added, addedToken{ID: id, Content: name, Special: true})
		}
	}
	markControl(added, "")
	if err := t.find(added); err != nil {
		return nil, err
	}
	if t.model, err = m.build(); err != nil {
		return nil, err
	}
	return t, t.setDerived(added, decodes)
}

// asInFolders returns a token in the form of vocab.txt.
func (k *wordPieceKeys) asInFolders(id int, text string) string {
	control := len(k.Kinds) > id && k.Kinds[id] == controlToken
	if word, ok := strings.CutPrefix(text, "▁"); ok && word != "" {
		return word
	}
	if control || strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]") {
		return text
	}
	return usualWordPiece.Prefix + text
}

// special returns the number that a key says first, or the number of the token with the text.
func (k *wordPieceKeys) special(text string, vocab map[string]int, said ...*int) (int, error) {
	for _, id := range said {
		if id == nil {
			continue
		}
		if *id < 0 || *id >= len(k.Tokens) {
			return 0, fmt.Errorf("tokenizer.ggml has %d for %s, want 0 to %d, the last token", *id, text,
				len(k.Tokens)-1)
		}
		return *id, nil
	}
	id, ok := vocab[text]
	if !ok {
		return 0, fmt.Errorf("the vocabulary has no %s, and no key says which token it is", text)
	}
	return id, nil
}
