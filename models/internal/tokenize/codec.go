// Package tokenize turns texts into tokens and back, by the files that come with a model:
// tokenizer.json, vocab.txt, or the metadata of a GGUF file.
package tokenize

import (
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
	// ControlIn are the texts of control tokens that Encode finds in a text.
	ControlIn(text string) []string
	Decode(token int) string
	Ends() []int // tokens that end an answer though no number says so
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
