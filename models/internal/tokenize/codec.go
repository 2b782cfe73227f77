// Package tokenize turns texts into tokens and back, by the files that come with a model:
// tokenizer.json, vocab.txt, or the metadata of a GGUF file.
package tokenize

import (
	"errors"
	"fmt"

	"github.com/seed-1415985d/attn/models/chat"
	"github.com/seed-1415985d/attn/models/internal/weights"
)

// Codec turns texts and conversations into tokens, and tokens back.
type Codec interface {
	// Encode returns the tokens of a text, control tokens among them whose texts it has.
	Encode(text string) ([]int, error)
	// EncodePlain returns those of a text whose writer may write no control tokens.
	EncodePlain(text string) ([]int, error)
	// Conversation returns those of messages up to where the answer begins. Messages have no control
	// tokens, unless control is true.
	Conversation(control bool, messages ...chat.Message) ([]int, error)
	// Template is of conversations; it has no source if there is none.
	Template() *chat.Template
	// ControlIn are the texts of control tokens that Encode finds in a text.
	ControlIn(text string) []string
	Decode(token int) string
	// Text is a token as the vocabulary spells it, "" if there is none of the number.
	Text(token int) string
	// Ends are the tokens that end an answer, of which numbers name some.
	Ends(named Ends) []int
}

// Beside begins to read a tokenizer, which takes about as long as to start from packed matrices,
// and returns who waits for it. Errors of the model come first.
func Beside(l *weights.Loader, read func(l *weights.Loader) *BPE) (wait func() *BPE) {
	other, done := &weights.Loader{Path: l.Path, Err: l.Err}, make(chan *BPE, 1)
	go func() { done <- read(other) }()
	return func() *BPE {
		t := <-done
		if l.Err == nil {
			l.Err = other.Err
		}
		return t
	}
}

// Numbers is the Codec of a random model, that knows a number of tokens, which mean nothing.
type Numbers int

func (n Numbers) Encode(text string) (ids []int, err error) {
	for i := range len(text) {
		ids = append(ids, int(text[i])%int(n))
	}
	return ids, nil
}

// EncodePlain is Encode: there are no control tokens.
func (n Numbers) EncodePlain(text string) ([]int, error) { return n.Encode(text) }

// ControlIn are none.
func (Numbers) ControlIn(string) []string { return nil }

func (n Numbers) Conversation(bool, ...chat.Message) ([]int, error) {
	return nil, errors.New("a random model has no conversations, want one with a chat template")
}

// Template has no source.
func (Numbers) Template() *chat.Template { return &chat.Template{} }

// Ends are those that are named.
func (Numbers) Ends(named Ends) []int { return named.Tokens }

func (n Numbers) Decode(token int) string { return fmt.Sprint(" ", token) }

func (n Numbers) Text(token int) string { return n.Decode(token) }
