package folder

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/seed-1415985d/attn/strictjson"
)

// template is what stands before and after each text.
type template struct{ before, after []int }

// postProcessor adds to a template. Its tokens may be added ones of the file.
type postProcessor interface {
	add(t *template, added map[string]int) error
}

var postProcessorKinds = stageKinds[postProcessor]{"post_processor", "processors",
	map[string]func() postProcessor{
		"ByteLevel":          func() postProcessor { return &trimmed{} },
		"TemplateProcessing": func() postProcessor { return &templateFile{} },
		"BertProcessing":     func() postProcessor { return &pairFile{} },
		"RobertaProcessing":  func() postProcessor { return &pairFile{} },
	}}

// trimmed says where in the text tokens are, which nobody asks here.
type trimmed struct {
	AddSpace    bool `json:"add_prefix_space"`
	TrimOffsets bool `json:"trim_offsets"`
	UseRegex    bool `json:"use_regex"`
}

func (*trimmed) add(*template, map[string]int) error { return nil }

// pairFile names a token for the beginning and one for the end.
type pairFile struct {
	Before nameAndID `json:"cls"`
	After  nameAndID `json:"sep"`
	trimmed
}

// nameAndID is a list of the two.
type nameAndID struct{ id int }

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

func (p *pairFile) add(t *template, _ map[string]int) error {
	t.before = slices.Insert(t.before, 0, p.Before.id)
	t.after = append(t.after, p.After.id)
	return nil
}

// templateFile is a list of tokens with the text among them.
type templateFile struct {
	Single  []templatePart  `json:"single"`
	Pair    json.RawMessage `json:"pair"` // of two texts, which nobody has here
	Special map[string]struct {
		ID     string   `json:"id"`
		IDs    []int    `json:"ids"`
		Tokens []string `json:"tokens"`
	} `json:"special_tokens"`
}

// templatePart is a token or the text.
type templatePart struct {
	Token *templateItem
	Text  *templateItem
}

type templateItem struct {
	ID   string `json:"id"`
	Type int    `json:"type_id"` // of the model's segment embeddings
}

// UnmarshalJSON is needed because the keys are not in lower case.
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
		ids := f.Special[part.Token.ID].IDs
		if id, ok := added[part.Token.ID]; ok && ids == nil {
			ids = []int{id}
		}
		if len(ids) == 0 {
			return fmt.Errorf("the template has token %q, want one of special_tokens or added_tokens",
				part.Token.ID)
		}
		parts[min(texts, 1)] = append(parts[min(texts, 1)], ids...)
	}
	if texts != 1 {
		return fmt.Errorf("the template has the text %d times, want it once", texts)
	}
	t.before, t.after = slices.Concat(parts[0], t.before), slices.Concat(t.after, parts[1])
	return nil
}
