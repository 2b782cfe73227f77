package tokenize

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestConversationsOfFolders has templates in the places where transformers looks.
func TestConversationsOfFolders(t *testing.T) {
	const begins = `"add_bos_token": true, "bos_token": "<b>", `
	for _, c := range []struct {
		config, file string
		want         any // tokens, or a part of the error
	}{
		{`"chat_template": "{% for m in messages %}{{ m.content }}b{% endfor %}"`, "", []int{1, 2}},
		{`"chat_template": [{"name": "rag", "template": "b"}, {"name": "default", "template": "a"}]`, "",
			[]int{1}},
		{`"chat_template": "a"`, "b{{ eos_token }}", []int{2, 6}},
		{`"legacy": null`, "ab", []int{1, 2}},
		{begins + `"chat_template": "a"`, "", []int{5, 1}},
		{begins + `"chat_template": "{{ bos_token }}a"`, "", []int{5, 1}},
		{`"bos_token": "<b>", "chat_template": "a"`, "", []int{1}}, // as in transformers
		{`"chat_template": [{"name": "rag", "template": "b"}]`, "",
			"none that is called default, but rag"},
		{`"chat_template": null`, "", "none"},
		{`"chat_template": 3`, "", "chat_template: want a text, or a list of names and templates"},
		{`"chat_template": [{"name": "a", "template": "b", "tools": 1}]`, "", `key "[0].tools" is 1`},
		{`"chat_template": [{"name": "a"}, {"name": "a"}]`, "", `chat_template "a" is there twice`},
	} {
		files := map[string]string{tokenizerConfigJSON: `{"eos_token": "<e>", ` + c.config + `}`,
			tokenizerJSON: `{'added_tokens': [{'id': 5, 'content': '<b>'}, {'id': 6, 'content': '<e>'}],
				'post_processor': {'type': 'TemplateProcessing', 'single': [{'SpecialToken': {'id': '<b>'}},
					{'Sequence': {'id': 'A'}}]}, 'model': {'merges': [], 'vocab': {'a': 1, 'b': 2}}}`}
		if c.file != "" {
			files["chat_template.jinja"] = c.file
		}
		l := loaderOf(t, files)
		b := ReadBPE(l, 1000)
		got, err := []int(nil), l.Err
		if err == nil && b.Template.Source == "" {
			err = errors.New(cmp.Or(b.Template.Others, "none"))
		} else if err == nil {
			got, err = converse(b, false, "a")
		}
		if want, ok := c.want.(string); ok {
			if !strings.Contains(fmt.Sprint(err), want) {
				t.Errorf("%s: the error is %v, want it to say %q", c.config, err, want)
			}
		} else if err != nil || !slices.Equal(got, c.want.([]int)) {
			t.Errorf("%s: the tokens are %v (%v), want %v", c.config, got, err, c.want)
		}
	}
}
