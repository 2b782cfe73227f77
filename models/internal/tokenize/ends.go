package tokenize

import "slices"

// endKind is what ends with a token.
type endKind int

const (
	endOfText endKind = iota + 1
	endOfTurn
	endOfMessage // after which a tool answers
)

// endTexts are the texts of tokens that end an answer in published models of all families. Many
// files name only one of a model's as the end, so that llama.cpp, too, ends answers at such texts.
var endTexts = map[string]endKind{
	"<|endoftext|>": endOfText, "<|end_of_text|>": endOfText, "[EOS]": endOfText,
	"<｜end▁of▁sentence｜>": endOfText, "<|return|>": endOfText, "<|flush|>": endOfText,
	"<|eot_id|>": endOfTurn, "<|im_end|>": endOfTurn, messageEnd: endOfTurn,
	"<end_of_turn>": endOfTurn, "<EOT>": endOfTurn, "_<EOT>": endOfTurn, "[EOT]": endOfTurn,
	"<end_of_utterance>": endOfTurn,
	"<|eom_id|>":         endOfMessage, "<|call|>": endOfMessage, "<|calls|>": endOfMessage,
}

// In vocabularies with one of answerEnds an answer has several messages, each of which ends with
// messageEnd, analysis before the final one. Elsewhere it ends a turn.
const messageEnd = "<|end|>"

var answerEnds = []string{"<|return|>", "<|call|>", "<|calls|>", "<|flush|>"}

// Ends are the tokens that a model's files say by their numbers end an answer.
type Ends struct {
	Tokens        []int
	All           bool // a list names several, and so all of them
	Turn, Message bool // a key of its own names the one for this
}

// namesAll says whether numbers leave no room for another token of some kind.
func (e *Ends) namesAll(kind endKind) bool {
	return e.All || kind == endOfTurn && e.Turn || kind == endOfMessage && e.Message
}

// Ends are all tokens that end an answer: those that numbers name, the one that the tokenizer's
// files name as the end, and added ones, control tokens among them, whose texts mean it and that
// no number contradicts.
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

// EndTokens are all tokens that end an answer, by what Named says of them.
func (t *Tokenizer) EndTokens() []int32 { return narrow(t.Ends(t.Named)) }

// hasMessages says whether an answer may have several messages.
func (t *Tokenizer) hasMessages() bool {
	for id := range t.added {
		if slices.Contains(answerEnds, t.text(id)) {
			return true
		}
	}
	return false
}

// Union is the tokens of all lists, each once, in their order.
func Union(lists ...[]int) (all []int) {
	for _, token := range slices.Concat(lists...) {
		if !slices.Contains(all, token) {
			all = append(all, token)
		}
	}
	return all
}
