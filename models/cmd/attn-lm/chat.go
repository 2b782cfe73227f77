package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/seed-1415985d/attn/internal/flags"
	"github.com/seed-1415985d/attn/models/chat"
	"github.com/seed-1415985d/attn/models/lm"
)

// chatFlags are the flags of attn-lm chat.
type chatFlags struct {
	modelFlags
	answerFlags
	system, session string
	control         bool
	variables       map[string]any
	first           string // first message; "" for none
}

func parseChat(args []string, help io.Writer) (*chatFlags, error) {
	o := &chatFlags{variables: map[string]any{}}
	f := flags.New("attn-lm chat [flags] [MESSAGE]\n\nAnswers a message, and then each line of the " +
		"standard input, by the chat template of the model.\nWhat a model thinks before it answers is " +
		"written to the standard error.")
	o.modelFlags.register(f)
	o.answerFlags.register(f)
	f.StringVar(&o.system, "system", "", "`text` of the system message")
	f.StringVar(&o.session, "session", "", "`file` with an earlier conversation, which this one "+
		"continues; written after each answer")
	f.BoolVar(&o.control, "control", false, "obey control tokens in messages, such as "+
		"<|im_end|>; without the flag they are text")
	f.Func("set", "`name=value` of a variable of the chat template, such as enable_thinking=false; "+
		"may be given several times", o.set)
	err := flags.Parse(f, args, help)
	if err == nil {
		_, err = flags.Texts("message", args, f.Args())
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
	if o.first = f.Arg(0); err == nil && f.NArg() > 1 {
		err = flags.Errorf("there are %d messages, want one or none", f.NArg())
	}
	return o, err
}

// set sets a variable of the template: true and false are bools, other values strings.
func (o *chatFlags) set(text string) error {
	name, value, ok := strings.Cut(text, "=")
	switch {
	case !ok || name == "":
		return errors.New("want name=value")
	case name == "messages":
		return errors.New("want another name: messages are of the conversation")
	}
	switch value {
	case "true", "false":
		o.variables[name] = value == "true"
	default:
		o.variables[name] = value
	}
	return nil
}

// conversation is a list of messages by turns, and a session that keeps their keys and values.
type conversation struct {
	*chatFlags
	model    *lm.Model
	own      *lm.Session
	out      io.Writer
	errs     io.Writer
	messages []chat.Message // the system's message first
	turns    int
	refused  error // why the last message without an answer was left out
}

func talk(args []string, in io.Reader, out, errs io.Writer) error {
	o, err := parseChat(args, errs)
	if err != nil {
		return err
	}
	m, closing, err := o.open()
	if err != nil {
		return err
	}
	defer closing()
	if m.Template().Source == "" {
		return errors.New("the model has no chat template, want one, as GGUF files have as " +
			"tokenizer.chat_template, and folders in chat_template.jinja or tokenizer_config.json")
	}
	if err := o.describe(out, errs, m); err != nil {
		return err
	}
	ctx, cancel := interruptible()
	defer cancel()
	c := &conversation{chatFlags: o, model: m, out: out, errs: errs}
	if c.own, err = m.NewSession(); err == nil {
		err = c.resume()
	}
	if err == nil {
		err = c.answerAll(ctx, in)
	}
	return err
}

// resume begins a conversation, or continues the one in the session's file.
func (c *conversation) resume() error {
	var t *talkFile
	var err error
	if c.session != "" {
		if t, err = readSession(c.session, c.own); err != nil {
			return err
		}
	}
	if t != nil {
		for _, m := range t.Messages {
			c.messages = append(c.messages, chat.Message(m))
		}
		c.turns = t.Turns
	}
	said := ""
	if len(c.messages) > 0 && c.messages[0].Role == "system" {
		said = c.messages[0].Content
	}
	switch {
	case c.system == "" || c.system == said:
	case len(c.messages) == 0:
		c.messages = []chat.Message{{Role: "system", Content: c.system}}
	default:
		return fmt.Errorf("%s: the system message is %q there, want -system to be the same, or none",
			c.session, said)
	}
	return nil
}

// answerAll answers the first message and all lines. It leaves out messages that cannot be
// answered, and returns an error only if it answers none.
func (c *conversation) answerAll(ctx context.Context, in io.Reader) error {
	before := c.turns
	if c.first != "" {
		if err := c.try(ctx, c.first); err != nil {
			return err
		}
	}
	lines := bufio.NewReader(in)
	for {
		line, err := readLine(lines)
		if message := strings.TrimSpace(line); message != "" {
			if err := c.try(ctx, message); err != nil {
				return err
			}
		}
		if errors.Is(err, errLong) {
			c.leaveOut(err)
		} else if err == io.EOF {
			break
		} else if err != nil {
			return fmt.Errorf("the standard input: %w", err)
		}
	}
	switch {
	case c.turns > before:
		return nil
	case c.refused != nil:
		return fmt.Errorf("no message was answered: %w", c.refused)
	}
	return flags.Errorf("there is no message, want one as an argument, or a line of the standard " +
		"input")
}

var errLong = fmt.Errorf("the standard input: a line has more than %d bytes, want at most these",
	mostLine)

// readLine reads a line with its end. It reads a line that is too long to its end and returns
// errLong.
func readLine(from *bufio.Reader) (string, error) {
	var line []byte
	long := false
	for {
		part, err := from.ReadSlice('\n')
		if long = long || len(line)+len(part) > mostLine; !long {
			line = append(line, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if long && (err == nil || err == io.EOF) {
			return "", errLong
		}
		return string(line), err
	}
}

// try answers a message, or prints why it is left out: the template refuses it, or it is too long.
func (c *conversation) try(ctx context.Context, message string) error {
	messages := append(c.messages[:len(c.messages):len(c.messages)],
		chat.Message{Role: "user", Content: message})
	prompt, messages, err := c.fit(messages)
	if err != nil {
		c.leaveOut(err)
		return nil
	}
	said, err := c.answer(ctx, prompt)
	if errors.Is(err, lm.ErrContext) {
		c.leaveOut(err)
		return nil
	}
	if err != nil {
		return err
	}
	c.messages = append(messages, chat.Message{Role: "assistant", Content: said})
	c.turns++
	if c.session == "" {
		return nil
	}
	return writeSession(c.session, c.own, &talkFile{Messages: saved(c.messages), Turns: c.turns})
}

// leaveOut prints why a message is left out.
func (c *conversation) leaveOut(why error) {
	c.refused = why
	fmt.Fprintf(c.errs, "attn-lm chat: %s; the message is left out\n", named(why))
}

// fit returns the tokens of messages, without the oldest turns if they exceed the context, and the
// remaining messages.
func (c *conversation) fit(messages []chat.Message) ([]int32, []chat.Message, error) {
	first, dropped := 0, 0 // of the messages that take turns
	if messages[0].Role == "system" {
		first = 1
	}
	for {
		prompt, err := c.prompt(messages)
		if err != nil {
			return nil, nil, err
		}
		if len(prompt)+c.most <= c.model.Context() || len(messages) < first+3 {
			if dropped > 0 {
				fmt.Fprintf(c.errs, "The context of %d tokens is full: the oldest %d messages are left out.\n",
					c.model.Context(), dropped)
			}
			return prompt, messages, nil
		}
		messages = append(messages[:first:first], messages[first+2:]...)
		dropped += 2
	}
}

// prompt returns the tokens of messages.
func (c *conversation) prompt(messages []chat.Message) ([]int32, error) {
	if !c.control {
		return c.model.Prompt(messages, c.variables)
	}
	pieces, err := c.model.Template().Render(messages, c.variables)
	if err != nil {
		return nil, err
	}
	for i := range pieces {
		pieces[i].Input = false
	}
	return c.model.Tokenizer().EncodePieces(pieces...)
}

// answer prints an answer, and returns it as the model gave it, including what it thought.
func (c *conversation) answer(ctx context.Context, prompt []int32) (string, error) {
	t := c.model.Tokenizer()
	shared := common(c.own.Tokens(), prompt)
	if err := c.own.Truncate(shared); err != nil {
		return "", err
	}
	g := c.generation(c.seed + uint64(c.turns))
	g.Session = c.own
	p := &printer{template: c.model.Template(), out: c.out, errs: c.errs}
	p.begin(t, prompt)
	for token, err := range c.model.Generate(ctx, prompt[shared:], g) {
		if err != nil {
			return "", err
		}
		if t.Special(token.ID) && token.End != lm.Stopped {
			p.add(t.Text(token.ID)) // markers of gpt-oss's channels
		}
		p.add(token.Text)
	}
	p.end()
	return p.answer, nil
}

// common returns the length of the common beginning of two lists of tokens.
func common(a, b []int32) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
