package tokenize

import (
	"maps"
	"slices"
	"strings"
)

// preGGUF is how a kind of tokenizer divides texts into words, and what else its name implies.
type preGGUF struct {
	patterns     []string
	ignoreMerges bool // if a whole word is a token
	addBegin     bool // unless the file says otherwise
	normal       bool // texts become NFC first
}

// Patterns of published models' tokenizer.json.
const (
	llama3Words = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|` +
		` ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	qwen2Words = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|` +
		` ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	tekkenWords = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|` +
		`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}|` +
		` ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	qwen35Words = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|` +
		` ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	o200kWords = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+` +
		`(?i:'s|'t|'re|'ve|'m|'ll|'d)?|` +
		`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*` +
		`(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|` +
		`\s*[\r\n]+|\s+(?!\S)|\s+`
	seedWords = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|` +
		` ?[^\s\p{L}\p{N}]+|\s*[\r\n]+|\s+(?!\S)|\s+`
	deepseek3Words = `[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_\x60{|}~][A-Za-z]+|` +
		`[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|` +
		`\s*[\r\n]+|\s+(?!\S)|\s+`
	// the letters that had cases when DeepSeek's first tokenizer was made
	casedLetters = "A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293" +
		"\u0295-\u02af\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c" +
		"\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5" +
		"\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15" +
		"\u1f18-\u1f1d\u1f20-\u1f45" +
		"\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc" +
		"\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4" +
		"\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128" +
		"\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184" +
		"\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b" +
		"\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17" +
		"\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb" +
		"\U00010c80-\U00010cb2\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943"
)

var (
	llama3GGUF = preGGUF{patterns: []string{llama3Words}, ignoreMerges: true, addBegin: true}
	digitsGGUF = preGGUF{patterns: []string{`\p{N}`, gpt2}}
	qwen2GGUF  = preGGUF{patterns: []string{qwen2Words}, normal: true}
)

// preTokenizersGGUF are the known values of tokenizer.ggml.pre. Unknown ones are errors, since
// texts would be divided in other places than in training.
var preTokenizersGGUF = map[string]preGGUF{
	"llama-bpe": llama3GGUF, "llama-v3": llama3GGUF, "llama3": llama3GGUF, "falcon3": llama3GGUF,
	"lfm2":      llama3GGUF,
	"smaug-bpe": {patterns: []string{llama3Words}}, "dbrx": {patterns: []string{llama3Words}},
	"glm4": {patterns: []string{llama3Words}}, "chatglm-bpe": {patterns: []string{llama3Words}},
	"seed-coder": {patterns: []string{seedWords}},
	"qwen2":      qwen2GGUF, "deepseek-r1-qwen": qwen2GGUF,
	"tekken": {patterns: []string{tekkenWords}, ignoreMerges: true, addBegin: true},
	"gpt-2":  {patterns: []string{gpt2}}, "exaone4": {patterns: []string{gpt2}},
	"qwen35": {patterns: []string{qwen35Words}, normal: true},
	"gpt-4o": {patterns: []string{o200kWords}}, "llama4": {patterns: []string{o200kWords}},
	"deepseek-v3": {patterns: []string{`\p{N}{1,3}`, "[一-\u9fa5\u3040-ゟ゠-ヿ]+", deepseek3Words}},
	// The third pattern has :-~, and so all letters of ASCII. Digits are divided one by one, as in its
	// tokenizer.json; llama.cpp keeps them together, which makes no difference in published
	// vocabularies.
	"deepseek-llm": {patterns: []string{`[\r\n]`, `\s?[` + casedLetters + `]+`,
		"\\s?[!-/:-~！-／：-～‘-‟\u3000-。]+", `\s+$`, "[一-\u9fa5\u0800-一가-\ud7ff]+", `\p{N}`}},
	// converters write this for unknown tokenizers: Falcon's words
	"default": {patterns: []string{`[\p{P}\$\+<=>\^~\|]+`, gpt2, `\p{N}+`, `[0-9][0-9][0-9]`}},
	"smollm":  digitsGGUF, "exaone": digitsGGUF, "starcoder": digitsGGUF,
	"refact":    digitsGGUF, // of Granite 3
	"command-r": {patterns: digitsGGUF.patterns, normal: true},
}

func knownPre() string {
	return strings.Join(slices.Sorted(maps.Keys(preTokenizersGGUF)), ", ")
}
