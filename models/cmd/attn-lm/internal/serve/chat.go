package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"

	"github.com/seed-1415985d/attn/models/chat"
)

// conversation is the messages and variables of a request for a chat.
type conversation struct {
	messages  []chat.Message
	variables map[string]any
}

func (c *conversation) fields(t *chat.Template) fields {
	return fields{"messages": c.readMessages(t), "chat_template_kwargs": c.readVariables}
}

func (c *conversation) readMessages(t *chat.Template) obey {
	return func(value json.RawMessage) error {
		list, ok := listOf[json.RawMessage](value)
		if !ok || len(list) == 0 {
			return errors.New("want a list of one message or more")
		}
		for i, x := range list {
			m, err := readMessage(t, fmt.Sprintf("messages[%d]", i), x)
			if err != nil {
				return err
			}
			c.messages = append(c.messages, m)
		}
		return nil
	}
}

// readVariables reads variables of the template, such as enable_thinking.
func (c *conversation) readVariables(value json.RawMessage) error {
	d := json.NewDecoder(strings.NewReader(string(value)))
	d.UseNumber()
	if value[0] != '{' || d.Decode(&c.variables) != nil {
		return errors.New("want an object")
	}
	if _, ok := c.variables["messages"]; ok {
		return errors.New("want no messages in it, which have a field of their own")
	}
	return nil
}

// roles maps the roles of messages to the roles in templates.
var roles = map[string]string{"system": "system", "developer": "system", "user": "user",
	"assistant": "assistant"}

// readMessage reads a message. A message of an assistant may be one from a response.
func readMessage(t *chat.Template, at string, value []byte) (m chat.Message, err error) {
	var role, thought string
	said := false
	err = fields{"role": toText(&role), "reasoning_content": toText(&thought),
		"content": func(value json.RawMessage) (err error) {
			said = true
			m.Content, err = readContent(at+".content", value)
			return err
		},
		"refusal": only("answers have none"), "name": only("templates know roles only"),
		"annotations": only("answers have none", "[]"), "audio": only("sounds are not there"),
		"tool_calls":    only("tools are not there", "[]"),
		"function_call": only("tools are not there")}.decode(at, value)
	if err != nil {
		return m, err
	}
	var known bool
	if m.Role, known = roles[role]; !known {
		return m, invalid(at+".role", "%s.role is %q, want system, developer, user or assistant", at,
			shortText(role))
	}
	if thought != "" && m.Role != "assistant" {
		return m, invalid(at+".reasoning_content", "%s.reasoning_content is there for role %s, want it "+
			"for an assistant", at, role)
	}
	if !said {
		return m, invalid(at+".content", "%s.content is not there, want a text or parts of a text", at)
	}
	m.Content = t.Answer(thought, m.Content)
	return m, nil
}

// readContent reads a text, or parts of a text, which are separate lines.
func readContent(at string, value json.RawMessage) (string, error) {
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text, nil
	}
	list, ok := listOf[json.RawMessage](value)
	if !ok || len(list) == 0 {
		return "", errors.New("want a text, or parts of type text")
	}
	texts := make([]string, len(list))
	for i, x := range list {
		kind, there, name := "", false, fmt.Sprintf("%s[%d]", at, i)
		err := fields{"type": toText(&kind), "text": func(value json.RawMessage) error {
			there = true
			return toText(&texts[i])(value)
		}}.decode(name, x)
		if err != nil {
			return "", err
		}
		if kind != "text" || !there {
			return "", invalid(name, "%s has type %q, want text, and a text", name, shortText(kind))
		}
	}
	return strings.Join(texts, "\n"), nil
}

// chatCompletions answers a conversation.
func (s *Server) chatCompletions(w http.ResponseWriter, r *http.Request, body []byte) error {
	var p params
	var c conversation
	f := p.fields()
	maps.Copy(f, c.fields(s.Model.Template()))
	top := -1
	f["logprobs"], f["top_logprobs"] = toBool(&p.logprobs), toInt(&top, 0, mostCandidates)
	if err := decodeBody(body, f); err != nil {
		return err
	}
	if top > 0 && !p.logprobs {
		return invalid("top_logprobs", "top_logprobs is %d without logprobs, want it with true", top)
	}
	p.top = max(0, top)
	if c.messages == nil {
		return invalid("messages", "messages is not there, want a list of messages")
	}
	if err := s.settle(&p, 0); err != nil {
		return err
	}
	a, err := s.ask(&p, true, make([][]int32, 1))
	if err != nil {
		return err
	}
	return a.respond(w, r, func() (err error) {
		a.prompts[0], err = s.Model.Prompt(c.messages, c.variables)
		return err
	})
}

// message is a message of the assistant.
type message struct {
	Role    string  `json:"role"`
	Content string  `json:"content"`
	Thought *string `json:"reasoning_content,omitempty"`
	Refusal *string `json:"refusal"`
}

// delta is what a chunk adds to a message.
type delta struct {
	Role    string  `json:"role,omitempty"`
	Content *string `json:"content,omitempty"`
	Thought *string `json:"reasoning_content,omitempty"`
}
