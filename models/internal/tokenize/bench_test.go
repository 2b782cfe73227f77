package tokenize

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed-1415985d/attn/models/internal/weights"
)

// prose is a text of many words, as people write it.
var prose = strings.Repeat("The quick brown fox jumps over 13 lazy dogs, and doesn't stop: déjà "+
	"vu! Der Müller mahlt 1,500 Säcke; 中文字 between. What's naïve about   spaces\n\nand lines? ", 300)

// benchmarked are files of all kinds of tokenizers, with the words of prose.
func benchmarked() map[string]any {
	type object = map[string]any
	letterwise := func(words []string) (vocabulary object, merges []string) {
		vocabulary = object{}
		add := func(text string) {
			if _, ok := vocabulary[text]; !ok {
				vocabulary[text] = len(vocabulary)
			}
		}
		seen := map[string]bool{}
		for _, word := range words {
			made := ""
			for _, r := range word {
				add(string(r))
				if made != "" && !seen[made+string(r)] {
					seen[made+string(r)] = true
					merges = append(merges, made+" "+string(r))
				}
				made += string(r)
				add(made)
			}
		}
		return vocabulary, merges
	}
	words := slices.Sorted(maps.Keys(func() map[string]bool {
		all := map[string]bool{}
		for _, word := range strings.Fields(prose) {
			all[strings.Trim(word, ",!?;:")] = true
		}
		return all
	}()))
	var bytes, spaces []string
	for b := range 256 {
		bytes = append(bytes, string(letters[b]))
	}
	for _, word := range words {
		bytes = append(bytes, bytesToLetters(" "+word))
		spaces = append(spaces, "▁"+word)
	}
	byteLevel, byteMerges := letterwise(bytes)
	llama, merges := letterwise(append(spaces, strings.Split(",!?;:.\n", "")...))
	for b := range 256 {
		llama[fmt.Sprintf("<0x%02X>", b)] = len(llama)
	}
	pieces := object{"[UNK]": 0}
	var scores [][]any
	const single = "abcdefghijklmnopqrstuvwxyz,.!?;:0123456789"
	for _, word := range append(words, strings.Split(single, "")...) {
		pieces[strings.ToLower(word)] = len(pieces)
		pieces["##"+strings.ToLower(word)] = len(pieces)
	}
	for text := range llama {
		scores = append(scores, []any{text, -float64(10 - min(9, len(text)))})
	}
	slices.SortFunc(scores, func(a, b []any) int {
		return strings.Compare(a[0].(string), b[0].(string))
	})
	template := object{"type": "BertProcessing", "sep": []any{"[UNK]", 0}, "cls": []any{"[UNK]", 0}}
	charsmap := charsmap(map[string]string{"é": "é", "ä": "ä", "\n": " ", "①": "1"})
	return object{
		"bytes": object{"pre_tokenizer": object{"type": "ByteLevel"},
			"model": object{"type": "BPE", "vocab": byteLevel, "merges": byteMerges}},
		"llama 2": object{"normalizer": object{"type": "Sequence", "normalizers": []object{
			{"type": "Prepend", "prepend": "▁"},
			{"type": "Replace", "pattern": object{"String": " "}, "content": "▁"}}},
			"pre_tokenizer": object{"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never"},
			"model":         object{"type": "BPE", "vocab": llama, "merges": merges, "byte_fallback": true}},
		"unigram": object{"normalizer": object{"type": "Sequence", "normalizers": []object{
			{"type": "Precompiled", "precompiled_charsmap": charsmap},
			{"type": "Replace", "pattern": object{"Regex": " {2,}"}, "content": " "}}},
			"pre_tokenizer": object{"type": "Metaspace", "replacement": "▁"},
			"model":         object{"type": "Unigram", "unk_id": 0, "vocab": scores}},
		"bert": object{"normalizer": object{"type": "BertNormalizer"},
			"pre_tokenizer":  object{"type": "BertPreTokenizer"},
			"post_processor": template,
			"model":          object{"type": "WordPiece", "unk_token": "[UNK]", "vocab": pieces}},
	}
}

func BenchmarkTokens(b *testing.B) {
	for _, kind := range slices.Sorted(maps.Keys(benchmarked())) {
		file, err := json.Marshal(benchmarked()[kind])
		if err != nil {
			b.Fatal(err)
		}
		l := &weights.Loader{Path: b.TempDir()}
		if err := os.WriteFile(filepath.Join(l.Path, tokenizerJSON), file, 0o666); err != nil {
			b.Fatal(err)
		}
		t := FromFolder(l)
		if l.Err != nil {
			b.Fatal(l.Err)
		}
		b.Run("kind="+kind, func(b *testing.B) {
			b.SetBytes(int64(len(prose)))
			for b.Loop() {
				if _, err := t.Encode(prose); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("kind="+kind+"/spans", func(b *testing.B) {
			b.SetBytes(int64(len(prose)))
			for b.Loop() {
				if _, err := t.Spans(prose); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
