// Package chat writes conversations as a model was trained to read them, by the template that comes
// with it.
package chat

import (
	"errors"
	"fmt"
	"time"

	"github.com/seed-1415985d/attn/models/internal/jinja"
)

// Message is what somebody says: system, user or assistant. The content of an assistant's message is
// an answer as the model gave it, with what it thought: the template gets that apart, or not at all,
// as it wants it. An answer of which the prompt had the beginning has that, too, see
// [Template.Opening].
type Message struct{ Role, Content string }

// Template is a chat template in Jinja, with the texts of two tokens that it may use, "" for none.
type Template struct{ Source, Begin, End string }

// Render returns the text of a conversation, up to where the assistant begins to answer. What
// messages say is Input in it.
func (t *Template) Render(messages ...Message) ([]jinja.Piece, error) {
	if t.Source == "" {
		return nil, errors.New("the model has no chat template, want one, as GGUF files have as " +
			"tokenizer.chat_template")
	}
	parsed, err := jinja.Parse(t.Source)
	var pieces []jinja.Piece
	if err == nil {
		pieces, err = parsed.Render(t.variables(messages), time.Now())
	}
	if err != nil {
		return nil, fmt.Errorf("the chat template: %w", err)
	}
	return pieces, nil
}

// message is a message as templates know it, what an assistant thought apart from what it said.
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

// variables are what templates know: what transformers gives them where there are no tools and no
// documents, but for tokens that this program does not read.
func (t *Template) variables(messages []Message) jinja.Dict {
	var list []any
	for _, m := range messages {
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
	return made
}
