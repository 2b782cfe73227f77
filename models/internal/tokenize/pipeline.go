package tokenize

import (
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/seed-1415985d/attn/internal/strictjson"
)

// tokenizerFile is a tokenizer.json with a kind of model.
type tokenizerFile[M any] struct {
	Added         []addedToken    `json:"added_tokens"`
	Normalizer    json.RawMessage `json:"normalizer"`
	PreTokenizer  json.RawMessage `json:"pre_tokenizer"`
	PostProcessor json.RawMessage `json:"post_processor"`
	Decoder       json.RawMessage `json:"decoder"`
	Model         M               `json:"model"`
}

// tokenizerIdle are keys of tokenizer.json that change no token: the caller decides how long a text
// may be.
var tokenizerIdle = strictjson.Idle{"version": {`"1.0"`}, "truncation": nil, "padding": nil}

const tokenizerJSON = "tokenizer.json"

// pipeline is the stages before a model of any kind finds tokens in words.
type pipeline struct {
	raw, normal   *finder // of added tokens, before and after normalizers
	normalizers   []normalizer
	preTokenizers []preTokenizer
	template
	size      int          // of the model's vocabulary
	control   map[int]bool // tokens that text of users does not become
	lastAdded addedToken   // the one with the largest number, or a number below 0
	addedIDs  map[string]int
}

// newPipeline makes the stages of a file: normalizers, pre-tokenizers and post-processors.
func newPipeline(normal, before, after []byte, added []addedToken,
	size int) (p pipeline, err error) {
	p.size = size
	if p.normalizers, err = normalizerKinds.read(normal); err != nil {
		return p, err
	}
	if p.preTokenizers, err = preTokenizerKinds.read(before); err != nil {
		return p, err
	}
	if err := p.find(added); err != nil {
		return p, err
	}
	ids := map[string]int{}
	for _, a := range added {
		ids[a.Content] = a.ID
	}
	processors, err := postProcessorKinds.read(after)
	for i := 0; i < len(processors) && err == nil; i++ {
		err = processors[i].add(&p.template, ids)
	}
	return p, err
}

// find makes the finders of added tokens.
func (p *pipeline) find(added []addedToken) (err error) {
	var raw, normal []addedToken
	p.control, p.addedIDs = map[int]bool{}, map[string]int{}
	for _, a := range added {
		p.addedIDs[a.Content] = a.ID
		if a.control {
			p.control[a.ID] = true
		}
		if last := p.lastAdded.ID; a.ID < 0 || last >= 0 && a.ID > last {
			p.lastAdded = a
		}
		if a.Normalized {
			normal = append(normal, a)
		} else {
			raw = append(raw, a)
		}
	}
	if p.raw, err = newFinder(raw, func(s string) (string, error) { return s, nil }); err != nil {
		return err
	}
	p.normal, err = newFinder(normal, func(s string) (string, error) {
		t, err := budgetFor(len(s)).normalize(traced{text: s}, p.normalizers)
		return t.text, err
	})
	return err
}

// checkTokens refuses added tokens that contradict the vocabulary or each other.
func checkTokens(added []addedToken, vocab map[string]int) error {
	ids := map[string]int{}
	for _, a := range added {
		for _, others := range []map[string]int{vocab, ids} {
			if id, ok := others[a.Content]; ok && id != a.ID {
				return fmt.Errorf("added token %q is %d, and %d elsewhere, want one number", a.Content, a.ID,
					id)
			}
		}
		ids[a.Content] = a.ID
	}
	return nil
}

// encode adds the tokens of a text. word adds those of one word.
func (p *pipeline) encode(e *encoded, s passage, word func(*encoded, traced) error) error {
	pieces, err := p.pieces(s)
	for i := 0; i < len(pieces) && err == nil; i++ {
		part := &pieces[i]
		if part.token != nil {
			e.add(part.token.ID, part.traced, 0, len(part.text))
		} else if part.users {
			err = p.usersWord(e, part.traced, word)
		} else {
			err = word(e, part.traced)
		}
	}
	return err
}

// usersWord adds the tokens of a word that users wrote. If the model makes a control token of it,
// its letters are encoded as separate words.
func (p *pipeline) usersWord(e *encoded, w traced, word func(*encoded, traced) error) error {
	isControl := func(id int) bool { return p.control[id] }
	known := len(e.ids)
	err := word(e, w)
	if err != nil || !slices.ContainsFunc(e.ids[known:], isControl) {
		return err
	}
	e.truncate(known)
	for at, r := range w.text {
		if err := word(e, w.slice(at, at+utf8.RuneLen(r))); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(e.ids[known:], isControl) {
		return fmt.Errorf("a message has %q, which is the text of a control token, want another", w.text)
	}
	return nil
}

// inRange refuses tokens that the model does not have.
func (p *pipeline) inRange(ids []int) error {
	for _, id := range ids {
		if id < 0 || id >= p.size {
			return fmt.Errorf("the text has token %d, want 0 to %d by vocab_size in config.json", id,
				p.size-1)
		}
	}
	return nil
}

// pieces divides a text into added tokens and words.
func (p *pipeline) pieces(s passage) (pieces []piece, err error) {
	if !utf8.ValidString(s.text) {
		return nil, fmt.Errorf("prompt %q is not UTF-8", s.text)
	}
	b := budgetFor(len(s.text))
	most := b.bytes
	for _, part := range p.separate(s) {
		parts := []piece{part.piece}
		if part.token == nil {
			if parts, err = p.separateNormal(part, b); err != nil {
				return nil, err
			}
		}
		pieces = append(pieces, parts...)
	}
	b.bytes = most
	for _, stage := range p.preTokenizers {
		if pieces, err = b.split(pieces, stage); err != nil {
			return nil, err
		}
	}
	return pieces, nil
}
