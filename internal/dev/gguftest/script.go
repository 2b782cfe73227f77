package gguftest

import (
	"slices"
	"strings"
)

// Script returns a file of a model that generates a script: after each token of it the next one,
// whatever comes before. Texts of control are control tokens, other texts of the script are words,
// and all printable ASCII letters are tokens for prompts. The last text of the script ends answers.
func Script(template string, control []string, script ...string) *File {
	var tokens []string
	for c := ' '; c <= '~'; c++ {
		tokens = append(tokens, spelled(string(c)))
	}
	tokens = append(tokens, spelled("\n"))
	kinds := slices.Repeat([]int32{1}, len(tokens))
	for _, text := range control {
		tokens, kinds = append(tokens, text), append(kinds, 3)
	}
	for _, text := range script {
		if text = spelled(text); !slices.Contains(tokens, text) {
			tokens, kinds = append(tokens, text), append(kinds, 1)
		}
	}
	s := Shape{1, 256, 32, 4, 2, 64, len(tokens)}
	f := &File{Keys: s.keys()}
	f.Set("tokenizer.ggml.tokens", tokens)
	f.Set("tokenizer.ggml.token_type", kinds)
	f.Set("tokenizer.ggml.eos_token_id", uint32(slices.Index(tokens, spelled(script[len(script)-1]))))
	f.Set("tokenizer.chat_template", template)
	f.say(&s, tokens, script)
	return f
}

// spelled returns a text in the letters of a vocabulary of bytes.
func spelled(text string) string {
	return strings.NewReplacer(" ", "Ġ", "\n", "Ċ").Replace(text)
}

// say adds the weights: a row is its token's index, which the last matrix turns into the next
// token's.
func (f *File) say(s *Shape, tokens, script []string) {
	n := len(tokens)
	embedding, head := make([]float32, n*s.Dim), make([]float32, n*s.Dim)
	for i := range n {
		embedding[i*s.Dim+i] = 1
	}
	at := func(text string) int { return slices.Index(tokens, spelled(text)) }
	for i, text := range script[1:] {
		head[at(text)*s.Dim+at(script[i])] = 1
	}
	add := func(name string, x []float32, shape ...int) {
		data, _ := Encode("F32", x)
		f.Tensors = append(f.Tensors, Tensor{name, shape, Types["F32"], data})
	}
	add("output.weight", head, n, s.Dim)
	for _, m := range s.matrices("F32") {
		if m.name == "token_embd" {
			add(m.name+".weight", embedding, n, s.Dim)
			continue
		}
		add(m.name+".weight", make([]float32, m.out*m.in), m.out, m.in)
	}
	ones := slices.Repeat([]float32{1}, s.Dim)
	for _, name := range []string{"blk.0.attn_norm.weight", "blk.0.ffn_norm.weight",
		"output_norm.weight"} {
		add(name, ones, s.Dim)
	}
	for name, width := range map[string]int{"q": s.Heads * s.Head, "k": s.KV * s.Head,
		"v": s.KV * s.Head} {
		add("blk.0.attn_"+name+".bias", make([]float32, width), width)
	}
}
