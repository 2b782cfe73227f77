package tokenize

// chatML is the chat template of many models.
const chatML = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n" +
	"{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"

// OfBytes is the tokenizer of a random model with some tokens: 0 to 255 are bytes, <|im_start|>,
// <|im_end|> and <|endoftext|> follow, and the rest are words, which answers show and no text is
// encoded to.
func OfBytes(size int) (*Tokenizer, error) {
	t := &Tokenizer{Template: Template{Source: chatML, End: "<|im_end|>"}}
	f := &tokenizerFile[bpeModel]{Model: bpeModel{Vocab: map[string]int{}}}
	for b, letter := range letters {
		f.Model.Vocab[string(letter)] = b
	}
	for i, text := range []string{"<|im_start|>", "<|im_end|>", "<|endoftext|>"} {
		f.Added = append(f.Added, addedToken{ID: len(letters) + i, Content: text, Special: true})
	}
	for id := len(letters) + len(f.Added); id < size; id++ {
		f.Model.Vocab[string(letters[' '])+madeUpWord(id-len(letters)-len(f.Added))] = id
	}
	f.PreTokenizer = stagesJSON("pretokenizers", map[string]any{"type": "ByteLevel",
		"use_regex": false, "add_prefix_space": false})
	return t, build(t, f, usage{size, true})
}

// madeUpWord returns the nth word of syllables such as "ba", which means nothing.
func madeUpWord(n int) string {
	const consonants, vowels = "bdfghjklmnprstvwyz", "aeiou"
	const syllables = len(consonants) * len(vowels)
	text := ""
	for ; n >= 0; n = n/syllables - 1 {
		s := n % syllables
		text = consonants[s/len(vowels):][:1] + vowels[s%len(vowels):][:1] + text
	}
	return text
}
