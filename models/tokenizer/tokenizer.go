// Package tokenizer turns texts into the tokens of a published model, and tokens back into texts.
//
// [Open] reads the files that come with the model: a folder with tokenizer.json or vocab.txt, or a
// GGUF file. Tokens are the same as in Hugging Face's tokenizers and in llama.cpp: each key of the
// files is obeyed, has no effect on tokens, or is an error that names it.
//
// A model obeys control tokens, such as <|im_start|>, so users must not be able to write them:
// Encode treats their spelling as plain text. For a conversation, which has trusted parts and parts
// that users wrote, see [Tokenizer.EncodePieces].
//
// Many goroutines may use a Tokenizer at the same time. A byte of a text that is not UTF-8 counts
// as U+FFFD.
package tokenizer

import (
	"fmt"

	"github.com/seed-1415985d/attn/models/internal/tokenize"
	"github.com/seed-1415985d/attn/models/internal/weights"
)

// Tokenizer is the vocabulary of a model and the rules by which texts are divided into tokens.
type Tokenizer struct{ t *tokenize.Tokenizer }

// Piece is a part of a text.
type Piece struct {
	Text  string
	Input bool // a user wrote it: it gives no control tokens
}

// Span is a token and the bytes of a text that it stands for: text[Start:End].
type Span struct {
	Token      int32
	Start, End int
}

func init() {
	tokenize.Public = func(t *tokenize.Tokenizer) any { return &Tokenizer{t} }
}

// Open reads the tokenizer of a model: a folder with tokenizer.json (byte-pair encoding, Unigram or
// WordPiece) or vocab.txt, and with tokenizer_config.json, special_tokens_map.json,
// added_tokens.json and chat_template.jinja if it has them, or a GGUF file, the first one of
// several.
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
	l := weights.OfGGUF(path, weights.Way{})
	defer l.Close()
	t := tokenize.FromGGUF(l)
	return t, l.Err
}

// Encode returns the tokens of a text, without tokens around it. The spelling of a control token
// stays text. It is an error if the vocabulary has neither a token for a character nor one for
// unknown characters, and if the files make a text much longer or need too many steps for it.
func (t *Tokenizer) Encode(text string) ([]int32, error) { return checked(t.t.Encode(text)) }

// EncodeControl is Encode for a trusted text: the spelling of a control token becomes that token.
func (t *Tokenizer) EncodeControl(text string) ([]int32, error) {
	return checked(t.t.EncodeControl(text))
}

// Prompt is Encode with the tokens that the model expects around a text, such as one that marks its
// beginning.
func (t *Tokenizer) Prompt(text string) ([]int32, error) { return checked(t.t.Prompt(text)) }

// EncodePieces returns the tokens of one text that is given in pieces. Pieces that are not Input
// may spell control tokens. No byte of an Input becomes part of one, wherever a template puts it.
func (t *Tokenizer) EncodePieces(pieces ...Piece) ([]int32, error) {
	inner := make([]tokenize.Piece, len(pieces))
	for i, p := range pieces {
		inner[i] = tokenize.Piece(p)
	}
	return checked(t.t.EncodePieces(inner))
}

// Spans returns the tokens of Encode, each with the bytes of text that it stands for, whatever the
// model changes in the text before it divides it. Spans ascend and consist of whole characters: if
// several tokens make up a character, each of them has the whole character. A token with Start
// equal to End stands for no bytes. Spaces before a word belong to its first token, unless the
// files trim them. Places are the same as in Hugging Face's tokenizers.
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

// Decode returns the text of tokens. It omits special tokens, and the space that some models put
// before a text. Numbers without a token add nothing. Bytes that are not UTF-8 become U+FFFD, one
// for each maximal subpart of a character.
func (t *Tokenizer) Decode(tokens []int32) string {
	return validText([]byte(t.t.Decode(tokens)))
}

// Size returns the number of tokens, which are 0 to Size() - 1. A few may have no text.
func (t *Tokenizer) Size() int { return t.t.Size() }

// Text returns the spelling of a token in the vocabulary, such as "Ġthe" or "<0x0A>", or "" if it
// has no text.
func (t *Tokenizer) Text(token int32) string { return t.t.Text(token) }

// Token returns the token with this spelling in the vocabulary.
func (t *Tokenizer) Token(text string) (int32, bool) { return t.t.Token(text) }

// Bytes returns what a token adds to a text. It may be part of a character, and is "" for special
// tokens.
func (t *Tokenizer) Bytes(token int32) string {
	if t.t.Special(token) {
		return ""
	}
	return t.t.Bytes(token)
}

// Special reports whether the files call a token special. Decode does not show special tokens.
func (t *Tokenizer) Special(token int32) bool { return t.t.Special(token) }

// Control reports whether users must not write a token: special tokens, tokens that end an answer,
// and tokens that the chat template writes. Some of them are shown, such as <think>. Encode returns
// none of them, except the token for characters that the vocabulary lacks.
func (t *Tokenizer) Control(token int32) bool { return t.t.Control(token) }

// Ends returns the tokens that end an answer. The configuration of a model may name more.
func (t *Tokenizer) Ends() []int32 { return t.t.EndTokens() }
