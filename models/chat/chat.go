// Package chat turns conversations into the text that a model was trained to read, with the model's
// own chat template.
//
// A template is a program in Jinja that writes control tokens around messages. [Template.Render]
// runs it with bounds on time and memory, and keeps the template's own text apart from what
// messages say: [tokenizer.Tokenizer.EncodePieces] makes no control tokens of the latter.
package chat

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/seed-1415985d/attn/models/internal/jinja"
	"github.com/seed-1415985d/attn/models/tokenizer"
)

// Message is one message of a conversation. Role is system, user or assistant, or another word that
// the template knows. The Content of an assistant is a whole answer of the model, including what it
// thought; the template gets the thought separately or not at all, as it was made for. If the
// prompt contained the beginning of the answer, so does Content: see [Template.Opening].
type Message struct{ Role, Content string }

// Template is a chat template.
type Template struct {
	Source     string           // Jinja
	Begin, End string           // bos_token and eos_token in the template; "" for none
	Now        func() time.Time // for templates that write the date; nil: time.Now
}

// Render returns the text of a conversation, up to where the assistant begins to answer. In it,
// text of messages is Input.
//
// Variables are passed to the template. Published templates know enable_thinking (a bool),
// reasoning_effort (a string), add_generation_prompt (true by default) and others. A value is nil,
// a bool, a number, a string, or a slice, or a map with string keys, of such values. Strings and
// keys are Input, too. Variables that the template does not use have no effect.
func (t *Template) Render(messages []Message, variables map[string]any) ([]tokenizer.Piece, error) {
	if t.Source == "" {
		return nil, errors.New("chat: the model has no chat template, want one, as GGUF files have as " +
			"tokenizer.chat_template")
	}
	known, err := t.variables(messages, variables)
	if err != nil {
		return nil, fmt.Errorf("chat: %w", err)
	}
	now := time.Now
	if t.Now != nil {
		now = t.Now
	}
	parsed, err := jinja.Parse(t.Source)
	var rendered []jinja.Piece
	if err == nil {
		rendered, err = parsed.Render(known, now())
	}
	if err != nil {
		return nil, fmt.Errorf("chat: the template: %w", err)
	}
	pieces := make([]tokenizer.Piece, len(rendered))
	for i, p := range rendered {
		pieces[i] = tokenizer.Piece(p)
	}
	return pieces, nil
}

// message returns a message in the form that templates expect, with an assistant's thought in a
// field of its own.
func (t *Template) message(m Message) jinja.Dict {
	thinking, said := "", m.Content
	if f := t.format(); f != nil && m.Role == "assistant" {
		thinking, said = f.earlier(m.Content)
	}
	made := jinja.Dict{{Key: "role", Value: m.Role}, {Key: "content", Value: jinja.Input(said)}}
	if thinking != "" {
		for _, field := range thinkingFields {
			made = append(made, jinja.Entry{Key: field, Value: jinja.Input(thinking)})
		}
	}
	return made
}

// checkRole refuses a role that is not one word: templates write it into control tokens.
func checkRole(i int, role string) error {
	isNoWord := func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_-", r)
	}
	if role == "" || strings.ContainsFunc(role, isNoWord) {
		return fmt.Errorf("messages[%d].Role is %q, want a word as user or assistant", i, role)
	}
	return nil
}

// variables returns the template's variables: those that transformers sets where there are no tools
// and no documents, without tokens that this package does not read, and the caller's.
func (t *Template) variables(messages []Message, given map[string]any) (jinja.Dict, error) {
	var list []any
	for i, m := range messages {
		if err := checkRole(i, m.Role); err != nil {
			return nil, err
		}
		list = append(list, t.message(m))
	}
	made := jinja.Dict{{Key: "messages", Value: list}, {Key: "add_generation_prompt", Value: true},
		{Key: "tools", Value: nil}, {Key: "documents", Value: nil}}
	for name, text := range map[string]string{"bos_token": t.Begin, "eos_token": t.End} {
		if text != "" {
			made = append(made, jinja.Entry{Key: name, Value: text})
		}
	}
	for _, name := range []string{"unk_token", "pad_token", "sep_token", "cls_token", "mask_token"} {
		made = append(made, jinja.Entry{Key: name, Value: jinja.Unknown("want a template that has " +
			"no other tokens than bos_token and eos_token by name")})
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if name == "messages" {
			return nil, errors.New("variables has messages, want them as messages alone")
		}
		value, err := variable(given[name])
		if err != nil {
			return nil, fmt.Errorf("variables[%q] %w", name, err)
		}
		made = append(made, jinja.Entry{Key: name, Value: value})
	}
	return made, nil
}
