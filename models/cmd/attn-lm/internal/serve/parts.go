package serve

import (
	"strings"

	"github.com/seed-1415985d/attn/models/chat"
	"github.com/seed-1415985d/attn/models/lm"
	"github.com/seed-1415985d/attn/models/tokenizer"
)

// parts separates what a model thinks from what it says, while an answer grows.
type parts struct {
	template *chat.Template
	tokens   *tokenizer.Tokenizer
	separate bool   // the template separates both
	answer   string // as the model gave it, with its beginning in the prompt
	part     int    // index of the current part,
	shown    int    // and its bytes that were returned
	before   [2]bool
}

func newParts(m *lm.Model, prompt []int32) *parts {
	p := &parts{template: m.Template(), tokens: m.Tokenizer()}
	if p.separate = p.template.Answer("x", "") != ""; !p.separate {
		return p
	}
	var end strings.Builder
	for _, token := range prompt[max(0, len(prompt)-64):] {
		if p.tokens.Special(token) {
			end.WriteString(p.tokens.Text(token))
		} else {
			end.WriteString(p.tokens.Bytes(token))
		}
	}
	p.answer = p.template.Opening(end.String())
	return p
}

// add returns what a token adds to the thought and to the text.
func (p *parts) add(t *lm.Token) (thought, said string) {
	if !p.separate {
		return "", t.Text
	}
	if p.tokens.Special(t.ID) && t.End != lm.Stopped {
		p.answer += p.tokens.Text(t.ID) // markers of gpt-oss's channels
	}
	p.answer += t.Text
	var new [2]string
	all := p.template.Parts(p.answer, t.End != lm.NotEnded)
	for ; p.part < len(all); p.part, p.shown = p.part+1, 0 {
		x, kind := all[p.part], 0
		if x.Thinking {
			kind = 1
		}
		if p.shown == 0 && p.before[kind] && x.Text != "" {
			new[kind] += "\n\n"
		}
		p.before[kind] = p.before[kind] || x.Text != ""
		new[kind] += x.Text[p.shown:]
		if p.shown = len(x.Text); p.part == len(all)-1 {
			break
		}
	}
	return new[1], new[0]
}
