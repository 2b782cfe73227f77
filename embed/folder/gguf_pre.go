package folder

import (
	"maps"
	"slices"
	"strings"
)

// preGGUF is how a kind of tokenizer cuts texts into words, and what else its name implies.
type preGGUF struct {
	patterns     []string
	ignoreMerges bool // where a whole word is a token
	addBegin     bool // unless the file says otherwise
	normal       bool // texts become NFC first
}

// The patterns of published models' tokenizer.json.
const (
	llama3Words = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|` +
		` ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	qwen2Words = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|` +
		` ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	tekkenWords = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|` +
		`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}|` +
		` ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
)

var (
	llama3GGUF = preGGUF{patterns: []string{llama3Words}, ignoreMerges: true, addBegin: true}
	qwen2GGUF  = preGGUF{patterns: []string{qwen2Words}, normal: true}
)

// preTokenizersGGUF are the values of tokenizer.ggml.pre that are known. Others, "default" among
// them, would cut texts in places that the model was not trained with.
var preTokenizersGGUF = map[string]preGGUF{
	"llama-bpe": llama3GGUF, "llama-v3": llama3GGUF, "llama3": llama3GGUF, "falcon3": llama3GGUF,
	"smaug-bpe": {patterns: []string{llama3Words}},
	"qwen2":     qwen2GGUF, "deepseek-r1-qwen": qwen2GGUF,
	"tekken": {patterns: []string{tekkenWords}, ignoreMerges: true, addBegin: true},
	"gpt-2":  {patterns: []string{gpt2}},
	"smollm": {patterns: []string{`\p{N}`, gpt2}},
}

func knownPre() string {
	return strings.Join(slices.Sorted(maps.Keys(preTokenizersGGUF)), ", ")
}
