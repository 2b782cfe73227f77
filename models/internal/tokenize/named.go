package tokenize

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/seed-1415985d/attn/models/internal/weights"
)

// Late is the data that a late-interaction model (ColBERT), with a vector for each token, needs of
// its tokenizer.
type Late struct {
	Prefixes []int32 // tokens of the prefixes, −1 for an empty prefix
	Skipped  []int32 // tokens whose vectors documents omit
	Fill     int32   // pads queries
}

// HasToken reports whether there is a token of exactly this text.
func (t *Texts) HasToken(text string) bool {
	_, ok := t.token(text)
	return ok
}

// ReadPad returns the token that pads texts.
func ReadPad(l *weights.Loader, t *Texts) int32 {
	if l.Err != nil {
		return 0
	}
	config := readConfig(l)
	id, ok := t.token(config.Pad.Content)
	if !ok || id >= t.size {
		l.Check(tokenizerConfigJSON, fmt.Errorf("pad_token is %q, want a token, which fills texts up",
			config.Pad.Content))
	}
	return int32(id)
}

// ReadLate looks tokens up by their texts. A prefix must be a token or empty; a skipped word that
// is not a token stands for the unknown token, as in PyLate.
func ReadLate(l *weights.Loader, t *Texts, prefixes, skipped []string, fills bool) (late Late) {
	if l.Err != nil {
		return late
	}
	for _, text := range prefixes {
		id := -1
		if text != "" {
			id, _ = t.token(text)
		}
		late.Prefixes = append(late.Prefixes, int32(id))
	}
	config := readConfig(l)
	usual := func(text string) string {
		if slices.Contains(bertClasses, config.Class) {
			return text
		}
		return ""
	}
	for _, word := range skipped {
		id, ok := t.token(word)
		if !ok {
			id, ok = t.token(cmp.Or(config.Unknown.Content, usual("[UNK]")))
		}
		if ok {
			late.Skipped = append(late.Skipped, int32(id))
		}
	}
	if !fills {
		return late
	}
	if config.PaddingSide != "" && config.PaddingSide != "right" {
		l.Check(tokenizerConfigJSON, fmt.Errorf("padding_side is %q, want right", config.PaddingSide))
	}
	fill, ok := t.token(cmp.Or(config.Mask.Content, usual("[MASK]")))
	if !ok {
		fill, ok = t.token(config.Stop.Content)
	}
	if !ok {
		l.Check(tokenizerConfigJSON, errors.New("mask_token and eos_token are no tokens, want one of "+
			"them, which fills queries up"))
	}
	late.Fill = int32(fill)
	return late
}
