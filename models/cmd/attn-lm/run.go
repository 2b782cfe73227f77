package main

import (
	"context"
	"fmt"
	"io"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/seed-1415985d/attn/internal/flags"
	"github.com/seed-1415985d/attn/models/lm"
)

// interruptible returns a context that ends when the user interrupts the program.
func interruptible() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
}

// runFlags are the flags of attn-lm run.
type runFlags struct {
	modelFlags
	answerFlags
	shared, session string
	control         bool
	prompts         []string
}

func parseRun(args []string, help io.Writer) (*runFlags, error) {
	o := &runFlags{}
	f := flags.New("attn-lm run [flags] TEXT...\n\nContinues texts, all at the same time.")
	o.modelFlags.register(f)
	o.answerFlags.register(f)
	f.StringVar(&o.shared, "shared", "", "`text` before each of the texts")
	f.StringVar(&o.session, "session", "", "`file` with the tokens of an earlier run, which the text "+
		"continues; written at the end")
	f.BoolVar(&o.control, "control", false, "obey control tokens in texts, such as "+
		"<|im_end|>; without the flag they are text")
	err := flags.Parse(f, args, help)
	if o.prompts = f.Args(); err == nil {
		_, err = flags.Texts("text", args, o.prompts)
	}
	if err == nil {
		err = o.modelFlags.check(f)
	}
	if err == nil {
		err = o.answerFlags.check()
	}
	if err == nil {
		err = checkFolder("session", o.session)
	}
	switch {
	case err != nil:
	case len(o.prompts) == 0 && o.session == "":
		err = flags.Errorf("there is no text, want one or more after the flags")
	case len(o.prompts) > 1 && o.session != "":
		err = flags.Errorf("-session is there with %d texts, want one or none", len(o.prompts))
	case o.session != "" && o.shared != "":
		err = flags.Errorf("-session and -shared are there, want one of them")
	}
	return o, err
}

func run(args []string, _ io.Reader, out, errs io.Writer) error {
	o, err := parseRun(args, errs)
	if err != nil {
		return err
	}
	m, closing, err := o.open()
	if err != nil {
		return err
	}
	defer closing()
	if err := o.describe(out, errs, m); err != nil {
		return err
	}
	ctx, cancel := interruptible()
	defer cancel()
	o.noteControl(errs, m)
	if o.session != "" {
		return o.goOn(ctx, out, m)
	}
	return o.continueAll(ctx, out, m)
}

// tokens returns the tokens of a text. first says that no other text comes before it.
func (o *runFlags) tokens(m *lm.Model, text string, first bool) (tokens []int32, err error) {
	t := m.Tokenizer()
	switch {
	case o.control:
		return t.EncodeControl(text)
	case first:
		return t.Prompt(text)
	}
	return t.Encode(text)
}

// noteControl prints which texts a user might have meant as control tokens.
func (o *runFlags) noteControl(errs io.Writer, m *lm.Model) {
	found, t := map[string]bool{}, m.Tokenizer()
	tokens, err := t.EncodeControl(strings.Join(append([]string{o.shared}, o.prompts...), "\n"))
	if err != nil || o.control { // encoding the text returns the error
		return
	}
	for _, token := range tokens {
		if text := t.Text(token); t.Control(token) && !found[text] {
			found[text] = true
			fmt.Fprintf(errs, "note: %s in a text is text; with -control it is a control token\n", text)
		}
	}
}

// continueAll answers all texts at the same time, and prints answers in the order of the texts.
func (o *runFlags) continueAll(ctx context.Context, out io.Writer, m *lm.Model) error {
	start, answers := time.Now(), make([]chan string, len(o.prompts))
	failed := make([]error, len(o.prompts))
	counts := make([]int, len(o.prompts))
	for i, prompt := range o.prompts {
		tokens, err := o.tokens(m, o.shared+prompt, true)
		if err != nil {
			return fmt.Errorf("text %d: %w", i+1, err)
		}
		answers[i] = make(chan string, o.most+1)
		go func() {
			defer close(answers[i])
			for token, err := range m.Generate(ctx, tokens, o.generation(o.seed+uint64(i))) {
				if err != nil {
					failed[i] = fmt.Errorf("text %d: %w", i+1, err)
					return
				}
				counts[i]++
				answers[i] <- token.Text
			}
		}()
	}
	total := 0
	for i, prompt := range o.prompts {
		fmt.Fprintf(out, "[%d] %s", i+1, prompt)
		for text := range answers[i] {
			fmt.Fprint(out, text)
		}
		fmt.Fprint(out, "\n\n")
		if failed[i] != nil {
			return failed[i]
		}
		total += counts[i]
	}
	took := time.Since(start).Seconds()
	fmt.Fprintf(out, "%d tokens in %.1f s, %.1f a second\n", total, took, float64(total)/took)
	return nil
}

// goOn continues the text of a session.
func (o *runFlags) goOn(ctx context.Context, out io.Writer, m *lm.Model) error {
	s, err := m.NewSession()
	if err != nil {
		return err
	}
	if _, err := readSession(o.session, s); err != nil {
		return err
	}
	var tokens []int32
	text := ""
	if len(o.prompts) > 0 {
		text = o.prompts[0]
		if tokens, err = o.tokens(m, text, s.Len() == 0); err != nil {
			return err
		}
	} else if s.Len() == 0 {
		return flags.Errorf("there is no text, and -session %s does not exist, want one of them",
			o.session)
	}
	g := o.generation(o.seed)
	g.Session = s
	fmt.Fprint(out, text)
	for token, err := range m.Generate(ctx, tokens, g) {
		if err != nil {
			return err
		}
		fmt.Fprint(out, token.Text)
		if token.End == lm.Stopped { // the token that ended the answer is not part of the continued text
			defer fmt.Fprintln(out)
		}
	}
	fmt.Fprintln(out)
	return writeSession(o.session, s, nil)
}
