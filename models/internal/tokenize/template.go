package tokenize

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/seed-1415985d/attn/internal/strictjson"
)

// template is the tokens before and after each text, and around two texts that are read together.
type template struct {
	before, after []int
	pair          []pairPart
	noPair        error // why there is none, if the file has another one
	trims         []trim
}

// pairPart is a token, or the place of the first or the second text, and its segment in the model.
type pairPart struct{ token, segment int }

// templateNumber is a token or a segment in a template: not negative, and an int32.
type templateNumber int

func (n *templateNumber) UnmarshalJSON(data []byte) error {
	i, err := strconv.ParseInt(string(data), 10, 32)
	if err != nil || i < 0 {
		return fmt.Errorf("a number is %s, want 0 to %d", strictjson.Short(data), math.MaxInt32)
	}
	*n = templateNumber(i)
	return nil
}

// The places of texts in a pair.
const (
	firstText  = -1
	secondText = -2
)

// setPair sets the template for pairs, at most once.
func (t *template) setPair(parts []pairPart, err error) {
	if t.pair != nil || t.noPair != nil {
		parts, err = nil, errors.New("the post_processor has two templates for pairs, want one")
	}
	t.pair, t.noPair = parts, err
}

// postProcessor adds to a template. Its tokens may be added tokens of the file.
type postProcessor interface {
	add(t *template, added map[string]int) error
}

var postProcessorKinds = stageKinds[postProcessor]{"post_processor", "processors",
	map[string]func() postProcessor{
		"ByteLevel":          func() postProcessor { return &trimmed{} },
		"TemplateProcessing": func() postProcessor { return &templateFile{} },
		"BertProcessing":     func() postProcessor { return &pairFile{segment: 1} },
		"RobertaProcessing":  func() postProcessor { return &pairFile{twice: true} },
	}}

// trimmed says that spans of tokens exclude spaces at their ends.
type trimmed struct {
	AddSpace    bool `json:"add_prefix_space"`
	TrimOffsets bool `json:"trim_offsets"`
	UseRegex    bool `json:"use_regex"`
}

func (p *trimmed) add(t *template, _ map[string]int) error {
	if p.TrimOffsets {
		t.trims = append(t.trims, trim{p.AddSpace})
	}
	return nil
}

// pairFile names a token for the beginning and one for the end. In a pair, the second text is in a
// segment of its own, or also has the end token before it.
type pairFile struct {
	Before nameAndID `json:"cls"`
	After  nameAndID `json:"sep"`
	trimmed
	segment int
	twice   bool
}

// nameAndID is a list of both.
type nameAndID struct{ id templateNumber }

func (n *nameAndID) UnmarshalJSON(data []byte) error {
	var list []json.RawMessage
	var name string
	err := json.Unmarshal(data, &list)
	if err == nil && len(list) != 2 {
		err = fmt.Errorf("%s, want a token's text and number", strictjson.Short(data))
	}
	for i, into := range []any{&name, &n.id} {
		if err == nil {
			err = json.Unmarshal(list[i], into)
		}
	}
	return err
}

func (p *pairFile) add(t *template, added map[string]int) error {
	if err := p.trimmed.add(t, added); err != nil {
		return err
	}
	before, after := int(p.Before.id), int(p.After.id)
	t.before, t.after = slices.Insert(t.before, 0, before), append(t.after, after)
	t.setPair(pairOf(before, after, p.segment, p.twice), nil)
	return nil
}

// pairOf is BERT's pair, or RoBERTa's with the token between texts twice.
func pairOf(before, after, segment int, twice bool) []pairPart {
	parts := []pairPart{{before, 0}, {firstText, 0}, {after, 0}, {secondText, segment},
		{after, segment}}
	if twice {
		parts = slices.Insert(parts, 3, pairPart{after, 0})
	}
	return parts
}

// templateFile is a list of tokens and the text among them.
type templateFile struct {
	Single  []templatePart  `json:"single"`
	Pair    json.RawMessage `json:"pair"` // of two texts, which few programs use
	Special map[string]struct {
		ID     string           `json:"id"`
		IDs    []templateNumber `json:"ids"`
		Tokens []string         `json:"tokens"`
	} `json:"special_tokens"`
}

// templatePart is a token or the text.
type templatePart struct {
	Token *templateItem
	Text  *templateItem
}

type templateItem struct {
	ID   string         `json:"id"`
	Type templateNumber `json:"type_id"` // of the model's segment embeddings
}

// UnmarshalJSON reads keys that are not in lower case.
func (p *templatePart) UnmarshalJSON(data []byte) error {
	type plain struct {
		Token *templateItem `json:"SpecialToken"`
		Text  *templateItem `json:"Sequence"`
	}
	err := strictjson.Unmarshal(data, (*plain)(p), nil)
	item := p.Token
	if item == nil {
		item = p.Text
	}
	if err == nil && (item == nil || item.Type != 0 || p.Text != nil && p.Text.ID != "A") {
		err = fmt.Errorf("a part of the template is %s, want a SpecialToken or the Sequence A, "+
			"of type_id 0", strictjson.Short(data))
	}
	return err
}

func (f *templateFile) add(t *template, added map[string]int) error {
	var parts [2][]int // before and after the text
	texts := 0
	for _, part := range f.Single {
		if part.Text != nil {
			texts++
			continue
		}
		ids, err := f.tokens(part.Token.ID, added)
		if err != nil {
			return err
		}
		parts[min(texts, 1)] = append(parts[min(texts, 1)], ids...)
	}
	t.setPair(f.pairs(added))
	if texts != 1 {
		return fmt.Errorf("the template has the text %d times, want it once", texts)
	}
	t.before, t.after = slices.Concat(parts[0], t.before), slices.Concat(t.after, parts[1])
	return nil
}

// tokens returns the tokens with a name in the template.
func (f *templateFile) tokens(name string, added map[string]int) ([]int, error) {
	var ids []int
	for _, id := range f.Special[name].IDs {
		ids = append(ids, int(id))
	}
	if id, ok := added[name]; ok && ids == nil {
		ids = []int{id}
	}
	if len(ids) == 0 {
		return nil, fmt.Errorf("the template has token %q, want one of special_tokens or added_tokens",
			name)
	}
	return ids, nil
}

// pairs returns the parts of the template for pairs: each text once, in order.
func (f *templateFile) pairs(added map[string]int) (parts []pairPart, err error) {
	var list []map[string]templateItem
	if len(f.Pair) == 0 {
		return nil, errors.New("the template has no pair, want one")
	}
	if err := strictjson.Unmarshal(f.Pair, &list, nil); err != nil {
		return nil, fmt.Errorf("pair: %w", err)
	}
	want := firstText
	for _, part := range list {
		text, isText := part["Sequence"]
		token, isToken := part["SpecialToken"]
		place := map[string]int{"A": firstText, "B": secondText}[text.ID]
		switch {
		case len(part) != 1 || isText == isToken || isText && place != want:
			return nil, fmt.Errorf("a part of pair is %v, want a SpecialToken, or the Sequences A and B "+
				"in this order", part)
		case isText:
			parts, want = append(parts, pairPart{place, int(text.Type)}), want-1
			continue
		}
		ids, err := f.tokens(token.ID, added)
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			parts = append(parts, pairPart{id, int(token.Type)})
		}
	}
	if want != secondText-1 {
		return nil, errors.New("the template for pairs has no second text, want one")
	}
	return parts, nil
}
