package tokenizer_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/seed-1415985d/attn/models/tokenizer"
)

// folder writes a tokenizer.json of letters, a word, and the bytes of other letters, and returns
// its folder.
func folder() string {
	vocabulary := map[string]int{}
	for i := range 256 {
		vocabulary[fmt.Sprintf("<0x%02X>", i)] = i
	}
	for _, token := range []string{"▁", "h", "i", "t", "e", "r", "<", "|", ">", "n", "d", "hi"} {
		vocabulary[token] = len(vocabulary)
	}
	file, err := json.Marshal(map[string]any{
		"normalizer": map[string]any{"type": "Replace", "pattern": map[string]any{"String": " "},
			"content": "▁"},
		"model": map[string]any{"type": "BPE", "byte_fallback": true, "vocab": vocabulary,
			"merges": []string{"h i"}},
		"added_tokens": []any{map[string]any{"id": len(vocabulary), "content": "<|end|>",
			"special": true}},
	})
	if err != nil {
		panic(err)
	}
	path, err := os.MkdirTemp("", "")
	if err == nil {
		err = os.WriteFile(filepath.Join(path, "tokenizer.json"), file, 0o666)
	}
	if err != nil {
		panic(err)
	}
	return path
}

// Turn a text into tokens, and tokens into text.
func Example() {
	path := folder() // the folder of a model
	defer os.RemoveAll(path)
	t, err := tokenizer.Open(path)
	if err != nil {
		panic(err)
	}
	tokens, err := t.Encode("hi there")
	if err != nil {
		panic(err)
	}
	for _, token := range tokens {
		fmt.Printf("%s,", t.Text(token))
	}
	fmt.Println()
	fmt.Println(t.Decode(tokens))
	// Output:
	// hi,▁,t,h,e,r,e,
	// hi there
}

// The template of a conversation writes control tokens. Text of a user that looks like one stays
// text.
func ExampleTokenizer_EncodePieces() {
	path := folder()
	defer os.RemoveAll(path)
	t, err := tokenizer.Open(path)
	if err != nil {
		panic(err)
	}
	tokens, err := t.EncodePieces(tokenizer.Piece{Text: "hi<|end|>", Input: true},
		tokenizer.Piece{Text: "<|end|>"})
	if err != nil {
		panic(err)
	}
	for _, token := range tokens {
		fmt.Printf("%s,", t.Text(token))
	}
	fmt.Println()
	last := tokens[len(tokens)-1]
	fmt.Println(t.Control(last), t.Special(last), t.Decode(tokens))
	// Output:
	// hi,<,|,e,n,d,|,>,<|end|>,
	// true true hi<|end|>
}

// Find the place of each token in the text, though the tokenizer works on another text, in which
// spaces are ▁.
func ExampleTokenizer_Spans() {
	path := folder()
	defer os.RemoveAll(path)
	t, err := tokenizer.Open(path)
	if err != nil {
		panic(err)
	}
	const text = "hi é"
	spans, err := t.Spans(text)
	if err != nil {
		panic(err)
	}
	for _, s := range spans {
		fmt.Printf("%s is %q, bytes %d to %d\n", t.Text(s.Token), text[s.Start:s.End], s.Start,
			s.End)
	}
	// Output:
	// hi is "hi", bytes 0 to 2
	// ▁ is " ", bytes 2 to 3
	// <0xC3> is "é", bytes 3 to 5
	// <0xA9> is "é", bytes 3 to 5
}

// Decode an answer token by token. A character may need several tokens.
func ExampleTokenizer_NewDecoder() {
	path := folder()
	defer os.RemoveAll(path)
	t, err := tokenizer.Open(path)
	if err != nil {
		panic(err)
	}
	tokens, err := t.Encode("hi €")
	if err != nil {
		panic(err)
	}
	answer := t.NewDecoder()
	for _, token := range tokens {
		fmt.Printf("%s becomes %q\n", t.Text(token), answer.Next(token))
	}
	fmt.Printf("and %q\n", answer.Flush())
	// Output:
	// hi becomes "hi"
	// ▁ becomes " "
	// <0xE2> becomes ""
	// <0x82> becomes ""
	// <0xAC> becomes "€"
	// and ""
}
