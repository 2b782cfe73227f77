package tokenize

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seed-1415985d/attn/internal/strictjson"
	"github.com/seed-1415985d/attn/models/internal/weights"
)

// chatTemplates is one template for conversations, or several by name.
type chatTemplates map[string]string

// usualTemplate is the name of the template that transformers uses.
const usualTemplate = "default"

func (c *chatTemplates) UnmarshalJSON(data []byte) error {
	*c = chatTemplates{}
	var one *string
	if json.Unmarshal(data, &one) == nil {
		if one != nil {
			(*c)[usualTemplate] = *one
		}
		return nil
	}
	var list []struct {
		Name     string `json:"name"`
		Template string `json:"template"`
	}
	if err := strictjson.Unmarshal(data, &list, nil); err != nil {
		return fmt.Errorf("chat_template: want a text, or a list of names and templates: %w", err)
	}
	for _, t := range list {
		if _, ok := (*c)[t.Name]; ok {
			return fmt.Errorf("chat_template %q is there twice, want it once", t.Name)
		}
		(*c)[t.Name] = t.Template
	}
	return nil
}

// chatTemplate finds the template of a folder, in a file of its own or else in
// tokenizer_config.json, as transformers does.
func chatTemplate(l *weights.Loader, c *tokenizerConfig) Template {
	t := Template{Begin: c.Start.Content, End: c.Stop.Content}
	const file = "chat_template.jinja"
	if l.Exists(file) {
		t.Source = string(l.Read(file))
	} else if source, ok := c.Chat[usualTemplate]; ok || len(c.Chat) == 0 {
		t.Source = source
	} else {
		t.Others = "none that is called " + usualTemplate + ", but " +
			strings.Join(slices.Sorted(maps.Keys(c.Chat)), ", ")
	}
	return t
}
