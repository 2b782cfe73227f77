package serve

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/seed-1415985d/attn/models/lm"
)

// candidate is a token with its log-probability, in the form of chats.
type candidate struct {
	Token   string  `json:"token"`
	LogProb float32 `json:"logprob"`
	Bytes   []int   `json:"bytes"` // null for special tokens
}

// logprob is the log-probabilities of one token.
type logprob struct {
	candidate
	Top []candidate `json:"top_logprobs"`
}

// chatLogprobs are the log-probabilities of a chat's choice.
type chatLogprobs struct {
	Content []*logprob `json:"content"`
	Refusal *string    `json:"refusal"`
}

// textLogprobs are the log-probabilities of a completion's choice.
type textLogprobs struct {
	Tokens  []string             `json:"tokens"`
	Values  []float32            `json:"token_logprobs"`
	Top     []map[string]float32 `json:"top_logprobs"` // null if not wanted
	Offsets []int                `json:"text_offset"`  // in characters
}

// leastLogProb stands for −Inf, which JSON does not have.
const leastLogProb = -9999

func (a *asked) logprobOf(t *lm.Token) *logprob {
	l := &logprob{a.candidate(t.ID, t.LogProb), []candidate{}}
	for _, c := range t.Top {
		if c.LogProb >= leastLogProb { // the others may never be drawn
			l.Top = append(l.Top, a.candidate(c.ID, c.LogProb))
		}
	}
	return l
}

func (a *asked) candidate(id int32, value float32) candidate {
	t := a.Model.Tokenizer()
	c := candidate{Token: t.Text(id), LogProb: max(value, leastLogProb)}
	if t.Special(id) {
		return c
	}
	data := t.Bytes(id)
	c.Token, c.Bytes = spelled(data), make([]int, len(data))
	for i := range len(data) {
		c.Bytes[i] = int(data[i])
	}
	return c
}

// spelled returns the text of a token, which may be part of a character.
func spelled(data string) string {
	if utf8.ValidString(data) {
		return data
	}
	var text strings.Builder
	text.WriteString("bytes:")
	for i := range len(data) {
		fmt.Fprintf(&text, `\x%02x`, data[i])
	}
	return text.String()
}

// add adds a token of a completion.
func (l *textLogprobs) add(s *step, top int) {
	l.Tokens = append(l.Tokens, s.logprob.Token)
	l.Values = append(l.Values, s.logprob.LogProb)
	l.Offsets = append(l.Offsets, s.offset)
	if top == 0 {
		return
	}
	all := map[string]float32{s.logprob.Token: s.logprob.LogProb}
	for _, c := range s.logprob.Top {
		if _, ok := all[c.Token]; !ok { // keeps the more likely of two with the same spelling
			all[c.Token] = c.LogProb
		}
	}
	l.Top = append(l.Top, all)
}
