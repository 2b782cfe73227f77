package tokenize

import "slices"

// endTexts are the texts of tokens that end a turn or a document in published models. Many files
// name only one of a model's as the end, so that llama.cpp, too, ends answers at such texts.
var endTexts = map[string]bool{"<|eot_id|>": true, "<|im_end|>": true, "<|end|>": true,
	"<end_of_turn>": true, "<|eom_id|>": true, "<|endoftext|>": true, "<|end_of_text|>": true,
	"<EOT>": true, "_<EOT>": true, "[EOT]": true, "[EOS]": true, "<end_of_utterance>": true,
	"<｜end▁of▁sentence｜>": true}

// Ends are the tokens that end an answer though no number says so: the one that the tokenizer's
// files name as the end, and added ones, control tokens among them, whose texts mean it.
func (t *BPE) Ends() (ends []int) {
	for id := range t.added {
		if text := t.text(id); endTexts[text] || text == t.chat.End {
			ends = append(ends, id)
		}
	}
	slices.Sort(ends)
	return ends
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
