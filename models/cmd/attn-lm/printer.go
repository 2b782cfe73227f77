package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/seed-1415985d/attn/models/chat"
	"github.com/seed-1415985d/attn/models/tokenizer"
)

// printer prints an answer token by token, and on errs what the model thinks.
type printer struct {
	template  *chat.Template
	out, errs io.Writer
	answer    string // as the model gave it, with its beginning in the prompt
	part      int    // the part of the answer that is being printed,
	printed   int    // and the bytes of it printed so far
}

// begin finds the part of the answer that the prompt contains.
func (p *printer) begin(t *tokenizer.Tokenizer, prompt []int32) {
	var all strings.Builder
	for _, token := range prompt[max(0, len(prompt)-64):] {
		if t.Special(token) {
			all.WriteString(t.Text(token))
		} else {
			all.WriteString(t.Bytes(token))
		}
	}
	p.answer = p.template.Opening(all.String())
}

// add prints the new part after a text was added.
func (p *printer) add(text string) {
	if text != "" {
		p.answer += text
		p.print(false)
	}
}

// end prints the rest.
func (p *printer) end() {
	p.print(true)
	fmt.Fprint(p.out, "\n\n")
}

func (p *printer) print(done bool) {
	parts := p.template.Parts(p.answer, done)
	for ; p.part < len(parts); p.part, p.printed = p.part+1, 0 {
		x := parts[p.part]
		to, begin, end := p.out, "", "\n"
		if x.Thinking {
			to, begin, end = p.errs, "(Thinking: ", ")\n\n"
		}
		if p.printed == 0 {
			fmt.Fprint(to, begin)
		}
		fmt.Fprint(to, x.Text[p.printed:])
		p.printed = len(x.Text)
		if p.part == len(parts)-1 && !done {
			return
		}
		if p.part < len(parts)-1 || x.Thinking {
			fmt.Fprint(to, end)
		}
	}
}
