package main

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/seed-1415985d/attn/models/chat"
	"github.com/seed-1415985d/attn/models/internal/tokenize"
)

// codec turns texts and conversations into tokens, and tokens back.
type codec interface {
	// Encode returns the tokens of a text, control tokens among them whose texts it has.
	Encode(text string) ([]int, error)
	// EncodePlain returns the tokens of a text whose writer may write no control tokens.
	EncodePlain(text string) ([]int, error)
	// Conversation returns the tokens of messages up to where the answer begins. Messages have no
	// control tokens, unless control is true.
	Conversation(control bool, messages ...chat.Message) ([]int, error)
	// ControlIn are the texts of control tokens that Encode finds in a text.
	ControlIn(text string) []string
	// Template is of conversations; it has no source if there is none.
	Template() *chat.Template
	Decode(token int) string
	// Text is a token as the vocabulary spells it, "" if there is none of the number.
	Text(token int) string
	// Ends are the tokens that end an answer, of which numbers name some.
	Ends(named tokenize.Ends) []int
}

// vocabulary is the codec of a model.
type vocabulary struct{ *tokenize.Tokenizer }

func (v vocabulary) Encode(text string) ([]int, error) {
	if !utf8.ValidString(text) {
		return nil, fmt.Errorf("prompt %q is not UTF-8", text)
	}
	return wide(v.PromptControl(text))
}

func (v vocabulary) EncodePlain(text string) ([]int, error) {
	if !utf8.ValidString(text) {
		return nil, fmt.Errorf("prompt %q is not UTF-8", text)
	}
	return wide(v.Prompt(text))
}

func (v vocabulary) Template() *chat.Template {
	t := &v.Tokenizer.Template
	return &chat.Template{Source: t.Source, Begin: t.Begin, End: t.End}
}

func (v vocabulary) Conversation(control bool, messages ...chat.Message) ([]int, error) {
	t := v.Template()
	if t.Source == "" {
		why := ""
		if others := v.Tokenizer.Template.Others; others != "" {
			why = ": " + others
		}
		return nil, fmt.Errorf("the model has no chat template%s, want one, as GGUF files have as "+
			"tokenizer.chat_template, and folders in chat_template.jinja or tokenizer_config.json", why)
	}
	rendered, err := t.Render(messages, nil)
	if err != nil {
		return nil, err
	}
	pieces := make([]tokenize.Piece, len(rendered))
	for i, p := range rendered {
		pieces[i] = tokenize.Piece{Text: p.Text, Input: p.Input && !control}
	}
	return wide(v.Tokenizer.Conversation(pieces))
}

func (v vocabulary) Decode(token int) string { return v.Bytes(int32(token)) }

func (v vocabulary) Text(token int) string { return v.Tokenizer.Text(int32(token)) }

func wide(tokens []int32, err error) (ids []int, _ error) {
	for _, token := range tokens {
		ids = append(ids, int(token))
	}
	return ids, err
}

// numbers is the codec of a random model, that knows a number of tokens, which mean nothing.
type numbers int

func (n numbers) Encode(text string) (ids []int, err error) {
	for i := range len(text) {
		ids = append(ids, int(text[i])%int(n))
	}
	return ids, nil
}

// EncodePlain is Encode: there are no control tokens.
func (n numbers) EncodePlain(text string) ([]int, error) { return n.Encode(text) }

// ControlIn are none.
func (numbers) ControlIn(string) []string { return nil }

func (n numbers) Conversation(bool, ...chat.Message) ([]int, error) {
	return nil, errors.New("a random model has no conversations, want one with a chat template")
}

// Template has no source.
func (numbers) Template() *chat.Template { return &chat.Template{} }

// Ends are the ones that are named.
func (numbers) Ends(named tokenize.Ends) []int { return named.Tokens }

func (n numbers) Decode(token int) string { return fmt.Sprint(" ", token) }

func (n numbers) Text(token int) string { return n.Decode(token) }
