package serve

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// promptValue is texts or tokens.
type promptValue struct {
	texts  []string
	tokens [][]int32
}

// read reads a text, texts, tokens or lists of tokens.
func (p *promptValue) read(value json.RawMessage) error {
	if toTexts(&p.texts, mostChoices)(value) == nil {
		return nil
	}
	if tokens, ok := listOf[int32](value); ok && len(tokens) > 0 {
		p.tokens = [][]int32{tokens}
		return nil
	}
	lists, ok := listOf[json.RawMessage](value)
	if ok = ok && len(lists) > 0 && len(lists) <= mostChoices; ok {
		for _, list := range lists {
			tokens, fits := listOf[int32](list)
			p.tokens, ok = append(p.tokens, tokens), ok && fits && len(tokens) > 0
		}
	}
	if !ok {
		return fmt.Errorf("want a text, a list of 1 to %d texts, tokens, or a list of 1 to %d lists of "+
			"tokens", mostChoices, mostChoices)
	}
	return nil
}

// encode returns the tokens of all prompts.
func (p *promptValue) encode(s *Server) ([][]int32, error) {
	all := p.tokens
	for _, text := range p.texts {
		tokens, err := s.Model.Tokenizer().Prompt(text)
		if err != nil {
			return nil, invalid("prompt", "%s", err.Error())
		}
		all = append(all, tokens)
	}
	for i, tokens := range all {
		if len(tokens) == 0 {
			return nil, invalid("prompt", "prompt %d has no tokens, want one at least", i)
		}
		if err := s.known("prompt", tokens); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// completions continues texts.
func (s *Server) completions(w http.ResponseWriter, r *http.Request, body []byte) error {
	var p params
	var given promptValue
	f := p.fields()
	top := -1
	f["prompt"], f["logprobs"] = given.read, toInt(&top, 0, mostCandidates)
	if err := decodeBody(body, f); err != nil {
		return err
	}
	p.logprobs, p.top = top >= 0, max(0, top)
	n := len(given.texts) + len(given.tokens)
	if n == 0 {
		return invalid("prompt", "prompt is not there, want a text or tokens")
	}
	if err := s.settle(&p, usualTokens); err != nil {
		return err
	}
	a, err := s.ask(&p, false, make([][]int32, n))
	if err != nil {
		return err
	}
	return a.respond(w, r, func() (err error) {
		a.prompts, err = given.encode(s)
		return err
	})
}
