// Package tokenizer turns texts into the tokens of a published model, and tokens back into texts.
//
// [Open] reads the files that come with the model: a folder with tokenizer.json or vocab.txt, or a
// GGUF file. Tokens are the same as in Hugging Face's tokenizers and in llama.cpp: each key of the
// files is obeyed, or known to change no token, or an error that names it.
//
// A model obeys control tokens, such as <|im_start|>, so that users may not write them: Encode
// makes text of what looks like one. A conversation has trusted parts and parts of users: see
// [Tokenizer.EncodePieces].
//
// A Tokenizer may be used by many goroutines. A byte of a text that is no UTF-8 counts as U+FFFD.
package tokenizer

import (
	"fmt"

	"github.com/seed-1415985d/attn/models/internal/tokenize"
	"github.com/seed-1415985d/attn/models/internal/weights"
)

// Tokenizer is the vocabulary of a model, and how texts are cut into its tokens.
type Tokenizer struct{ t *tokenize.Tokenizer }

// Piece is a part of a text.
type Piece struct {
	Text  string
	Input bool // a user wrote it: nothing in it becomes a control token
}

// Span is a token and the bytes of a text that it stands for: text[Start:End].
type Span struct {
	Token      int32
	Start, End int
}

func init() {
	tokenize.Public = func(t *tokenize.Tokenizer) any { return &Tokenizer{t} }
}

// Open reads the tokenizer of a model: of a folder with tokenizer.json (byte-pair encoding, Unigram
// or WordPiece) or vocab.txt, with what tokenizer_config.json, special_tokens_map.json,
// added_tokens.json and chat_template.jinja say of tokens, or of a GGUF file, of several the first.
func Open(path string) (*Tokenizer, error) {
	t, err := open(path)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	return &Tokenizer{t}, nil
}

func open(path string) (*tokenize.Tokenizer, error) {
	if !weights.IsGGUF(path) {
		l := &weights.Loader{Path: path}
		t := tokenize.FromFolder(l)
		return t, l.Err
	}
	l := weights.OfGGUF(path, false)
	defer l.Close()
	t := tokenize.FromGGUF(l)
	return t, l.Err
}

// Encode returns the tokens of a text, without tokens around it. What looks like a control token
// stays text. It is an error if the vocabulary has no token for a character, nor one for what is
// unknown, and if the files make a text much longer or need too many steps for it.
func (t *Tokenizer) Encode(text string) ([]int32, error) { return checked(t.t.Encode(text)) }

// EncodeControl is Encode of a trusted text: what is spelled like a control token becomes this
// token.
func (t *Tokenizer) EncodeControl(text string) ([]int32, error) {
	return checked(t.t.EncodeControl(text))
}

// Prompt is Encode with the tokens that the model expects around a text, such as one for its
// beginning.
func (t *Tokenizer) Prompt(text string) ([]int32, error) { return checked(t.t.Prompt(text)) }

// EncodePieces returns the tokens of one text, which is given in pieces. Pieces that are no Input
// may spell control tokens. No byte of an Input becomes part of one, wherever a template puts it.
func (t *Tokenizer) EncodePieces(pieces ...Piece) ([]int32, error) {
	inner := make([]tokenize.Piece, len(pieces))
	for i, p := range pieces {
		inner[i] = tokenize.Piece(p)
	}
	return checked(t.t.EncodePieces(inner))
}

// Spans returns the tokens of Encode, each with the bytes that it stands for in text as it was
// given, whatever the model changes before it finds tokens. Spans ascend and have whole characters:
// if several tokens make up a character, each has the whole. A token stands for none of the text if
// Start is End. Spaces before a word belong to its first token, unless the files trim them. Places
// are the same as in Hugging Face's tokenizers.
func (t *Tokenizer) Spans(text string) ([]Span, error) {
	inner, err := t.t.Spans(text)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	spans := make([]Span, len(inner))
	for i, s := range inner {
		spans[i] = Span(s)
	}
	return spans, nil
}

func checked(tokens []int32, err error) ([]int32, error) {
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	return tokens, nil
}

// Decode returns the text of tokens. Special tokens are left out, and so is the space that some
// models put before a text. Numbers without a token add nothing. What is no UTF-8 becomes U+FFFD,
// one for each maximal subpart of a character.
func (t *Tokenizer) Decode(tokens []int32) string {
	return validText([]byte(t.t.Decode(tokens)))
}

// Size returns the number of tokens. They are 0 to Size() - 1, of which a few may have no text.
func (t *Tokenizer) Size() int { return t.t.Size() }

// Text returns how the vocabulary spells a token, as "Ġthe" or "<0x0A>", or "" if it has no text.
func (t *Tokenizer) Text(token int32) string { return t.t.Text(token) }

// Token returns the token that the vocabulary spells like this.
func (t *Tokenizer) Token(text string) (int32, bool) { return t.t.Token(text) }

// Bytes returns what a token adds to a text. It may be part of a character, and is "" for special
// tokens.
func (t *Tokenizer) Bytes(token int32) string {
	if t.t.Special(token) {
		return ""
	}
	return t.t.Bytes(token)
}

// Special reports whether the files call a token special. Such tokens are not shown.
func (t *Tokenizer) Special(token int32) bool { return t.t.Special(token) }

// Control reports whether users may not write a token: special tokens, tokens that end an answer,
// and tokens that the chat template writes. Some of them are shown, as <think>. Encode returns none
// of them, except the token for characters that the vocabulary lacks.
func (t *Tokenizer) Control(token int32) bool { return t.t.Control(token) }

// Ends returns the tokens that end an answer. The configuration of a model may name more.
func (t *Tokenizer) Ends() []int32 { return t.t.EndTokens() }
