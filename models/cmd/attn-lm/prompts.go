package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/seed-1415985d/attn/models/chat"
)

// tokens are those of all prompts, and those that are computed once because all begin with them.
func (o *options) tokens(text codec) (prompts [][]int, shared []int, err error) {
	if o.shared != "" && !o.chat {
		if shared, err = o.encode(text, o.shared); err != nil {
			return nil, nil, fmt.Errorf("the shared text: %w", err)
		}
	}
	for i, prompt := range o.prompts {
		tokens, err := o.prompt(text, prompt)
		if err != nil {
			return nil, nil, fmt.Errorf("prompt %d: %w", i+1, err)
		}
		prompts = append(prompts, tokens)
	}
	if o.shared != "" && o.chat && len(prompts) > 1 {
		shared = common(prompts)
	}
	return prompts, shared, nil
}

func (o *options) prompt(text codec, prompt string) ([]int, error) {
	if !o.chat {
		return o.encode(text, o.shared+prompt)
	}
	messages := []chat.Message{{Role: "user", Content: prompt}}
	if o.shared != "" {
		messages = []chat.Message{{Role: "system", Content: o.shared}, messages[0]}
	}
	return text.Conversation(o.control, messages...)
}

// encode has control tokens only if -control says so: a prompt may be somebody else's text.
func (o *options) encode(text codec, prompt string) ([]int, error) {
	if o.control {
		return text.Encode(prompt)
	}
	return text.EncodePlain(prompt)
}

// noteControl says which texts a user might want to be control tokens.
func (o *options) noteControl(out io.Writer, text codec) {
	found := text.ControlIn(strings.Join(append([]string{o.shared}, o.prompts...), "\n"))
	if len(found) > 0 && !o.control {
		fmt.Fprintf(out, "Prompts have the texts of control tokens, which they do not become without "+
			"-control: %s\n\n", strings.Join(found, " "))
	}
}

// noteLong says which prompts and answers go beyond what the model was trained with: it goes on,
// and what it answers there may be of no use.
func (o *options) noteLong(errs io.Writer, prompts [][]int, trained int) {
	for i, tokens := range prompts {
		if n := len(tokens) + o.most; trained > 0 && n > trained {
			fmt.Fprintf(errs, "decoder: warning: prompt %d has %d tokens, and %d with its answer: the "+
				"model was trained with texts of at most %d, and goes on beyond them\n", i+1, len(tokens), n,
				trained)
		}
	}
}

// common is what all begin with.
func common(prompts [][]int) []int {
	shared := prompts[0]
	for _, p := range prompts[1:] {
		n := 0
		for n < min(len(shared), len(p)) && shared[n] == p[n] {
			n++
		}
		shared = shared[:n]
	}
	return shared
}
