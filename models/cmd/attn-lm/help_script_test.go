package main

import (
	"slices"
	"strings"
	"testing"
)

// scriptGGUF is a file of a model that says what a script says: after each token of it the next
// one, whatever comes before. Tokens like <|end|> and what a template writes like one are control
// tokens, other tokens are words; all ASCII letters are tokens for prompts.
func scriptGGUF(t *testing.T, template string, control []string, script ...string) *fakeGGUF {
	t.Helper()
	var tokens []string
	for c := ' '; c <= '~'; c++ {
		tokens = append(tokens, spelledToken(string(c)))
	}
	tokens = append(tokens, spelledToken("\n"))
	kinds := slices.Repeat([]int32{1}, len(tokens))
	for _, text := range control {
		tokens, kinds = append(tokens, text), append(kinds, 3)
	}
	for _, text := range script {
		if text = spelledToken(text); !slices.Contains(tokens, text) {
			tokens, kinds = append(tokens, text), append(kinds, 1)
		}
	}
	f := newShapedGGUF(ggufShape{1, 256, 32, 4, 2, 64, len(tokens)}, "llama", one("F32"))
	f.Set("tokenizer.ggml.tokens", tokens)
	f.Set("tokenizer.ggml.token_type", kinds)
	f.Set("tokenizer.ggml.merges", nil)
	f.Set("tokenizer.ggml.bos_token_id", nil)
	f.Set("tokenizer.ggml.eos_token_id", nil)
	f.Set("tokenizer.ggml.add_bos_token", false)
	f.Set("tokenizer.chat_template", template)
	f.say(tokens, script)
	return f
}

// spelledToken is a text as a vocabulary of bytes spells it.
func spelledToken(text string) string {
	return strings.NewReplacer(" ", "Ġ", "\n", "Ċ").Replace(text)
}

// say sets the weights: a state is its token's place, which the last matrix takes to the next.
func (f *fakeGGUF) say(tokens, script []string) {
	n := len(tokens)
	embedding, head := make([]float32, n*f.dim), make([]float32, n*f.dim)
	for i := range n {
		embedding[i*f.dim+i] = 1
	}
	at := func(text string) int { return slices.Index(tokens, spelledToken(text)) }
	for i, text := range script[1:] {
		head[at(text)*f.dim+at(script[i])] = 1
	}
	f.setData("token_embd.weight", embedding)
	f.setData("output.weight", head)
	f.setData("blk.0.attn_output.weight", make([]float32, f.dim*f.heads*f.head))
	f.setData("blk.0.ffn_down.weight", make([]float32, f.dim*f.ffn))
}

// setID sets a key of the tokenizer to the number of a token.
func (f *fakeGGUF) setID(key, text string) { f.Set("tokenizer.ggml."+key, f.numbers(text)[0]) }

// setIDs sets a key of the tokenizer to the numbers of some tokens, if there are any.
func (f *fakeGGUF) setIDs(key string, texts ...string) {
	if len(texts) > 0 {
		f.Set("tokenizer.ggml."+key, f.numbers(texts...))
	}
}

// numbers are those of tokens.
func (f *fakeGGUF) numbers(texts ...string) (ids []uint32) {
	for _, k := range f.Keys {
		if k.Name == "tokenizer.ggml.tokens" {
			for _, text := range texts {
				ids = append(ids, uint32(slices.Index(k.Value.([]string), text)))
			}
		}
	}
	return ids
}
