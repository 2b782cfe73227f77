package chat

import "strings"

// Part is a part of an answer: a thought, or text for the reader.
type Part struct {
	Thinking bool
	Text     string
}

// Parts divides an answer of the template's model, which begins with its Opening. While the answer
// is not done, Parts omits an end that may become the beginning of another part, so that parts only
// grow. There is one part if the template does not separate thoughts.
func (t *Template) Parts(answer string, done bool) []Part {
	f := t.format()
	if f == nil {
		return appendPart(nil, false, answer)
	}
	if !done {
		answer = settled(answer, f.markers())
	}
	return f.parts(answer, done)
}

// Opening returns the part of the answer that a prompt already contains: a template may write that
// the model begins to think, or that it does not think.
func (t *Template) Opening(prompt string) string {
	if f := t.format(); f != nil {
		return f.opening(prompt)
	}
	return ""
}

// format is how a kind of model marks what it thinks and what it says.
type format interface {
	markers() []string // the beginnings of parts
	parts(answer string, done bool) []Part
	opening(prompt string) string
	// earlier divides an earlier answer into the fields that the template reads.
	earlier(answer string) (thinking, said string)
	// answer returns the answer that consists of these parts.
	answer(thinking, said string) string
}

// format returns the format of the template, nil if it has none.
func (t *Template) format() format {
	if strings.Contains(t.Source, harmonyChannel) && strings.Contains(t.Source, harmonyMessage) {
		return harmony{}
	}
	for _, p := range pairs {
		if strings.Contains(t.Source, p.end) {
			p.field = p.always || strings.Contains(t.Source, thinkingFields[0])
			p.framed = p.response[0] != "" && strings.Contains(t.Source, p.response[0])
			return p
		}
	}
	return nil
}

// thinkingFields are the names in published templates for the thought in an assistant's message.
// The second is the one of gpt-oss.
var thinkingFields = [...]string{"reasoning_content", "thinking"}

// settled returns a text without an end that may become one of the markers.
func settled(text string, markers []string) string {
	keep := 0
	for _, marker := range markers {
		for n := min(len(marker)-1, len(text)); n > keep; n-- {
			if strings.HasSuffix(text, marker[:n]) {
				keep = n
			}
		}
	}
	return text[:len(text)-keep]
}

// appendPart appends a part unless it is empty.
func appendPart(parts []Part, thinking bool, text string) []Part {
	if thinking {
		text = strings.Trim(text, space)
	}
	if text == "" {
		return parts
	}
	return append(parts, Part{thinking, text})
}

// pair is the format of answers that begin with a thought between two markers.
type pair struct {
	begin, end string
	response   [2]string // markers around what is said, if the template has them (framed)
	always     bool      // they stand without a thought, too, and templates write them
	field      bool      // templates have a field for the thought
	framed     bool
}

// pairs are the markers of published templates: of many models, with those of Granite 3.3 around
// what is said; of Magistral and Ministral, of Seed-OSS, of Gemma 4, and of Command R7B.
var pairs = []pair{
	{begin: "<think>", end: "</think>", response: [2]string{"<response>", "</response>"}},
	{begin: "[THINK]", end: "[/THINK]"}, {begin: "<seed:think>", end: "</seed:think>"},
	{begin: "<|channel>thought", end: "<channel|>"},
	{begin: "<|START_THINKING|>", end: "<|END_THINKING|>", always: true,
		response: [2]string{"<|START_RESPONSE|>", "<|END_RESPONSE|>"}}}

func (p pair) markers() []string {
	if p.framed {
		return []string{p.begin, p.end, p.response[0], p.response[1]}
	}
	return []string{p.begin, p.end}
}

func (p pair) parts(answer string, done bool) []Part {
	thinking, said, ok := p.cut(answer)
	if !ok {
		thinking, said = "", strings.TrimLeft(answer, space)
	}
	if ok || p.always {
		said = p.unframed(said)
	}
	return appendPart(appendPart(nil, true, thinking), false, said)
}

// unframed returns what is said without its markers.
func (p pair) unframed(said string) string {
	rest, ok := strings.CutPrefix(said, p.response[0])
	if !p.framed || !ok {
		return said
	}
	said, _, _ = strings.Cut(rest, p.response[1])
	return strings.TrimLeft(said, space)
}

// cut divides an answer that begins with a thought.
func (p pair) cut(answer string) (thinking, said string, ok bool) {
	rest, ok := strings.CutPrefix(strings.TrimLeft(answer, space), p.begin)
	thinking, said, _ = strings.Cut(rest, p.end)
	return thinking, strings.TrimLeft(said, space), ok
}

const space = " \t\r\n"

func (p pair) opening(prompt string) string {
	trimmed := strings.TrimRight(prompt, space)
	if !strings.HasSuffix(trimmed, p.begin) {
		return ""
	}
	return prompt[len(trimmed)-len(p.begin):]
}

func (p pair) earlier(answer string) (thinking, said string) {
	thinking, said = p.earlierParts(answer)
	if p.always {
		said = p.unframed(strings.TrimLeft(said, space))
	}
	return thinking, said
}

// earlierParts leaves the answer whole if the template has no field for thoughts: then the template
// itself cuts the answer or keeps all of it. An answer that ended within its thought gets the
// marker of its end.
func (p pair) earlierParts(answer string) (thinking, said string) {
	before, _, ends := strings.Cut(answer, p.end)
	begins := strings.HasPrefix(strings.TrimLeft(answer, space), p.begin)
	if begins && !ends {
		answer += p.end
	}
	if !p.field || !begins && !ends {
		return "", answer
	}
	if !strings.Contains(before, p.begin) { // the marker is in the prompt
		answer = p.begin + answer
	}
	thinking, said, ok := p.cut(answer)
	if !ok {
		return "", answer
	}
	return strings.Trim(thinking, space), said
}

// harmony is the format of gpt-oss: an answer is a list of messages, each with a channel.
type harmony struct{}

const (
	harmonyStart    = "<|start|>"
	harmonyChannel  = "<|channel|>"
	harmonyMessage  = "<|message|>"
	harmonyEnd      = "<|end|>"
	harmonyThinking = "analysis"
)

func (harmony) markers() []string {
	return []string{harmonyStart, harmonyChannel, harmonyMessage, harmonyEnd}
}

func (harmony) parts(answer string, done bool) (parts []Part) {
	messages := harmonyMessages(answer)
	for i, message := range messages {
		header, text, ok := strings.Cut(message, harmonyMessage)
		role, channel, _ := strings.Cut(header, harmonyChannel)
		if !ok && (done || i < len(messages)-1) { // the header is incomplete
			parts = appendPart(parts, false, message)
			continue
		}
		if i == 0 { // the role is in the prompt, so this belongs to the answer
			parts = appendPart(parts, false, role)
		}
		if ok {
			parts = appendPart(parts, isThinking(channel), strings.ReplaceAll(text, harmonyEnd, ""))
		}
	}
	return parts
}

// harmonyMessages divides an answer, whose first message may lack its beginning.
func harmonyMessages(answer string) (messages []string) {
	for message := range strings.SplitSeq(answer, harmonyStart) {
		for {
			header, text, ok := strings.Cut(message, harmonyMessage)
			text, next, more := strings.Cut(text, harmonyChannel)
			if !ok || !more {
				break
			}
			messages = append(messages, header+harmonyMessage+text)
			message = harmonyChannel + next
		}
		messages = append(messages, message)
	}
	return messages
}

func isThinking(channel string) bool {
	return strings.HasPrefix(strings.TrimLeft(channel, space), harmonyThinking)
}

func (harmony) opening(prompt string) string {
	messages := strings.Split(prompt, harmonyStart)
	opening, ok := strings.CutPrefix(messages[len(messages)-1], "assistant")
	if !ok || !strings.HasPrefix(opening, harmonyChannel) || strings.Contains(opening, harmonyEnd) {
		return ""
	}
	return opening
}

// earlier returns the last message as said, unless the answer ended before it.
func (h harmony) earlier(answer string) (thinking, said string) {
	var thoughts []string
	for _, part := range h.parts(answer, false) {
		if said = part.Text; part.Thinking {
			thoughts, said = append(thoughts, part.Text), ""
		}
	}
	return strings.Join(thoughts, "\n\n"), said
}

// Answer joins a thought and a text into an answer of the template's model, for [Message].Content.
// It returns said alone if the template does not separate thoughts.
func (t *Template) Answer(thinking, said string) string {
	if f := t.format(); f != nil && thinking != "" {
		return f.answer(thinking, said)
	}
	return said
}

func (p pair) answer(thinking, said string) string {
	return p.begin + "\n" + thinking + "\n" + p.end + "\n\n" + said
}

func (harmony) answer(thinking, said string) string {
	return harmonyChannel + harmonyThinking + harmonyMessage + thinking + harmonyEnd + harmonyStart +
		"assistant" + harmonyChannel + "final" + harmonyMessage + said
}
