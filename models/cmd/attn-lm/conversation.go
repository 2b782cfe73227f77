package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/seed-1415985d/attn/models/chat"
)

// conversation is messages that take turns. What the model has read of them is not read again.
type conversation struct {
	*options
	engine   *engine
	text     codec
	out      io.Writer
	errs     io.Writer
	system   []chat.Message // none or one
	messages []chat.Message
	last     *job // that answered
	turns    int
	refused  error // why the last message that could not be answered was left out
}

// converse answers the prompt, if there is one, and then each line as the user's next message.
func (o *options) converse(in io.Reader, out, errs io.Writer, m *model,
	text codec) error {
	e, err := newEngine(m, o.settings)
	if err != nil {
		return err
	}
	defer e.close()
	c := &conversation{options: o, engine: e, text: text, out: out, errs: errs}
	if o.shared != "" {
		c.system = []chat.Message{{Role: "system", Content: o.shared}}
	}
	c.noteControl(o.shared)
	if err := c.resume(); err != nil {
		return err
	}
	if err := c.answerAll(in); err != nil {
		return err
	}
	e.report(out)
	return nil
}

// answerAll answers the prompt and all lines. A message that cannot be answered is left out, which
// is an error only if none is answered.
func (c *conversation) answerAll(in io.Reader) error {
	for _, prompt := range c.prompts {
		fmt.Fprintf(c.out, "[1] %s\n", prompt)
		if err := c.try("prompt 1: ", prompt); err != nil {
			return err
		}
	}
	lines := bufio.NewReader(in)
	for {
		line, err := readLine(lines)
		if message := strings.TrimSpace(line); message != "" {
			if err := c.try("", message); err != nil {
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
	case c.last != nil:
		return nil
	case c.refused != nil:
		return fmt.Errorf("no message was answered: %w", c.refused)
	}
	return errors.New("no prompt, want one as an argument, or a line of the standard input")
}

// mostLine is of a line's bytes.
const mostLine = 1 << 20

var errLong = fmt.Errorf("the standard input: a line has more than %d bytes, want at most these",
	mostLine)

// readLine reads a line with its end. One that is too long is read to its end, and errLong.
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

// refusal is why a message cannot be answered, and others can.
type refusal struct{ error }

// try answers a message, or says why it is left out.
func (c *conversation) try(name, message string) error {
	err := c.answer(message)
	if r := (refusal{}); errors.As(err, &r) {
		c.leaveOut(fmt.Errorf("%s%w", name, r.error))
		return nil
	}
	if err != nil {
		err = fmt.Errorf("%s%w", name, err)
	}
	return err
}

// leaveOut says why a message is left out.
func (c *conversation) leaveOut(why error) {
	c.refused = why
	fmt.Fprintf(c.errs, "decoder: %v; the message is left out\n", why)
}

// answer prints what the model says to a message. After a refusal all is as before.
func (c *conversation) answer(message string) error {
	c.noteControl(message)
	messages := append(slices.Clone(c.messages), chat.Message{Role: "user", Content: message})
	prompt, kept, err := c.fit(messages)
	if err != nil {
		return refusal{err}
	}
	if dropped := len(messages) - len(kept); dropped > 0 {
		fmt.Fprintf(c.out, "(The context of %d tokens is full: the oldest %d messages are left out.)\n",
			c.context, dropped)
	}
	c.messages = kept
	c.noteLong(c.errs, [][]int{prompt}, c.engine.Trained)
	if c.last != nil {
		err = c.engine.follow(c.last, prompt)
	} else if c.session != "" {
		err = c.engine.narrow(prompt)
	}
	if err != nil {
		return err
	}
	return c.run(c.options.job(c.text, prompt, c.turns))
}

// run prints and keeps an answer.
func (c *conversation) run(j *job) error {
	j.keep = true
	if err := c.engine.submit(j); err != nil {
		return err
	}
	s := &stream{out: c.out, errs: c.errs, prompts: []string{""}, chat: c.text.Template(),
		jobs: []*job{j}, begun: true}
	if err := c.engine.run(s.print); err != nil {
		return err
	}
	// An answer may end within a letter, which no template takes.
	said := strings.ToValidUTF8(j.words.opening+j.words.text, "\uFFFD")
	c.messages = append(c.messages, chat.Message{Role: "assistant", Content: said})
	c.last = j
	c.turns++
	return c.closeSession(c.engine, j, c.turns, slices.Concat(c.system, c.messages))
}

// noteControl says which texts a user might want to be control tokens.
func (c *conversation) noteControl(text string) {
	one := &options{control: c.control, shared: text}
	one.noteControl(c.out, c.text)
}

// fit is the tokens of messages, without the oldest turns if the context is full, and the messages
// that are left. It is an error if the last one cannot be answered.
func (c *conversation) fit(messages []chat.Message) ([]int, []chat.Message, error) {
	for {
		prompt, err := c.text.Conversation(c.control, slices.Concat(c.system, messages)...)
		if err != nil {
			return nil, nil, err
		}
		if len(prompt)+c.most <= c.context || len(messages) < 3 {
			return prompt, messages, c.engine.checkPrompt(prompt, c.most)
		}
		messages = messages[2:]
	}
}
