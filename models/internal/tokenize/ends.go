package tokenize

import "slices"

// endKind is what a token ends.
type endKind int

const (
	endOfText endKind = iota + 1
	endOfTurn
	endOfMessage // a tool answers after it
)

// endTexts are the texts of tokens that end an answer in published models of all families. Many
// files name only one of several such tokens as the end; llama.cpp, too, ends answers at these
// texts.
var endTexts = map[string]endKind{
	"<|endoftext|>": endOfText, "<|end_of_text|>": endOfText, "[EOS]": endOfText,
	"<｜end▁of▁sentence｜>": endOfText, "<|return|>": endOfText, "<|flush|>": endOfText,
	"<|eot_id|>": endOfTurn, "<|im_end|>": endOfTurn, messageEnd: endOfTurn,
	"<end_of_turn>": endOfTurn, "<EOT>": endOfTurn, "_<EOT>": endOfTurn, "[EOT]": endOfTurn,
	"<end_of_utterance>": endOfTurn, "<turn|>": endOfTurn, "<eos>": endOfText,
	"<|tool_response>": endOfMessage,
	"<|eom_id|>":       endOfMessage, "<|call|>": endOfMessage, "<|calls|>": endOfMessage,
}

// In vocabularies with one of answerEnds an answer consists of messages that end with messageEnd:
// analysis, then the final one. In others messageEnd ends a turn.
const messageEnd = "<|end|>"

var answerEnds = []string{"<|return|>", "<|call|>", "<|calls|>", "<|flush|>"}

// Ends are the tokens that end an answer because numbers in a model's files say so.
type Ends struct {
	Tokens        []int
	All           bool // a list names several, which are then all of them
	Turn, Message bool // a key of its own names the token for it
}

// namesAll reports whether the numbers exclude further tokens of a kind.
func (e *Ends) namesAll(kind endKind) bool {
	return e.All || kind == endOfTurn && e.Turn || kind == endOfMessage && e.Message
}

// Ends returns all tokens that end an answer: those that numbers name, the one that the tokenizer's
// files name as the end, and added and control tokens whose texts mean an end and that no number
// contradicts.
func (t *Tokenizer) Ends(known Ends) []int {
	var byText []int
	messages := t.hasMessages()
	for id := range t.added {
		text := t.text(id)
		kind, ends := endTexts[text]
		if text == messageEnd && messages || known.namesAll(kind) {
			ends = false
		}
		if ends || text != "" && text == t.Template.End {
			byText = append(byText, id)
		}
	}
	slices.Sort(byText)
	return Union(known.Tokens, byText)
}

// EndTokens returns all tokens that end an answer, by Named.
func (t *Tokenizer) EndTokens() []int32 { return narrow(t.Ends(t.Named)) }

// hasMessages reports whether an answer may consist of several messages.
func (t *Tokenizer) hasMessages() bool {
	for id := range t.added {
		if slices.Contains(answerEnds, t.text(id)) {
			return true
		}
	}
	return false
}

// Union returns the tokens of all lists, each once, in their order.
func Union(lists ...[]int) (all []int) {
	for _, token := range slices.Concat(lists...) {
		if !slices.Contains(all, token) {
			all = append(all, token)
		}
	}
	return all
}
