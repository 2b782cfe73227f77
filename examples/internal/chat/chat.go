// Package chat writes conversations as a model was trained to read them, by the template that comes
// with it.
package chat

import (
	"errors"
	"fmt"
	"time"

	"github.com/nikolalohinski/gonja/v2/builtins"
	"github.com/nikolalohinski/gonja/v2/config"
	"github.com/nikolalohinski/gonja/v2/exec"
	"github.com/nikolalohinski/gonja/v2/loaders"
)

// Message is what somebody says: system, user or assistant.
type Message struct{ Role, Content string }

// Template is a chat template in Jinja, with the texts of two tokens that it may use.
type Template struct{ Source, Begin, End string }

const mostTime = 5 * time.Second

// Render returns the text of a conversation, up to where the assistant begins to answer. A template
// reads no files, and takes at most some seconds: one that takes longer goes on until the program
// ends.
func (t *Template) Render(messages ...Message) (string, error) {
	if t.Source == "" {
		return "", errors.New("the model has no chat template, want one, as GGUF files have as " +
			"tokenizer.chat_template")
	}
	type result struct {
		text string
		err  error
	}
	done := make(chan result, 1)
	go func() {
		text, err := t.render(messages)
		done <- result{text, err}
	}()
	select {
	case r := <-done:
		return r.text, r.err
	case <-time.After(mostTime):
		return "", fmt.Errorf("the chat template takes more than %v, want less", mostTime)
	}
}

func (t *Template) render(messages []Message) (text string, err error) {
	defer func() {
		if r := recover(); r != nil { // where the library does not return an error
			err = fmt.Errorf("the chat template: %v", r)
		}
	}()
	const name = "/template"
	loader, err := loaders.NewMemoryLoader(map[string]string{name: t.Source})
	if err != nil {
		return "", err
	}
	c := config.New()
	c.TrimBlocks, c.LeftStripBlocks = true, true // as transformers has it
	parsed, err := exec.NewTemplate(name, c, loader, &exec.Environment{
		Context: exec.EmptyContext().Update(builtins.GlobalFunctions).Update(builtins.GlobalVariables),
		Filters: builtins.Filters, Tests: builtins.Tests, ControlStructures: builtins.ControlStructures,
		Methods: builtins.Methods})
	if err != nil {
		return "", fmt.Errorf("the chat template: %w", err)
	}
	text, err = parsed.ExecuteToString(t.context(messages))
	if err != nil {
		return "", fmt.Errorf("the chat template: %w", err)
	}
	return text, nil
}

// context is what templates know.
func (t *Template) context(messages []Message) *exec.Context {
	var list []map[string]any
	for _, m := range messages {
		list = append(list, map[string]any{"role": m.Role, "content": m.Content})
	}
	return exec.NewContext(map[string]any{"messages": list, "add_generation_prompt": true,
		"bos_token": t.Begin, "eos_token": t.End,
		"raise_exception": func(_ *exec.Evaluator, args *exec.VarArgs) (string, error) {
			if len(args.Args) == 0 {
				return "", errors.New("it refuses the conversation")
			}
			return "", fmt.Errorf("it refuses the conversation: %s", args.Args[0].String())
		}})
}
