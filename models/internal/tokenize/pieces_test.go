package tokenize

import (
	"strings"
	"testing"
)

// TestPatternsAreCounted has a pattern that backtracks very much, in each stage, and a text for
// which all stages have enough steps.
func TestPatternsAreCounted(t *testing.T) {
	split := `{'type': 'Split', 'behavior': 'Isolated', 'pattern': {'Regex': '(a|aa)+$'}}`
	replace := `{'type': 'Replace', 'content': '', 'pattern': {'Regex': '(?:a|aa)+c'}}`
	for what, stages := range map[string]string{
		"pre_tokenizer": `'pre_tokenizer': ` + split,
		"normalizer":    `'normalizer': ` + replace,
		"many": `'pre_tokenizer': {'type': 'Sequence', 'pretokenizers': [{'type': 'Split',
			'behavior': 'Isolated', 'pattern': {'Regex': 'a{26}b'}}, ` + split + `]}`,
	} {
		tokenizer := tokenizerOf(t, `{`+stages+`, 'model': {'merges': [], 'unk_token': 'a',
			'vocab': {'a': 1}}}`)
		if got, err := tokenizer.Encode("aaab"); err != nil || len(got) != 4 {
			t.Errorf("%s: a short text has tokens %v (%v), want 4", what, got, err)
		}
		text := strings.Repeat("a", 60) + "b"
		if what == "many" { // each of them needs few
			text = strings.Repeat(strings.Repeat("a", 26)+"b", 100)
		}
		if _, err := tokenizer.Encode(text); err == nil ||
			!strings.Contains(err.Error(), "needs too many steps for a text of") {
			t.Errorf("%s: the error is %v, want it to say that there are too many steps", what, err)
		}
	}
}

// TestTextsDoNotGrow has files that would make a short text as long as the memory.
func TestTextsDoNotGrow(t *testing.T) {
	doubling := `{'type': 'Replace', 'pattern': {'String': 'a'}, 'content': 'aa'}`
	for what, stages := range map[string]string{
		"replace": `'normalizer': {'type': 'Sequence', 'normalizers': [` +
			strings.Repeat(doubling+",", mostStages-1) + doubling + `]}`,
		"long replace": `'normalizer': {'type': 'Replace', 'pattern': {'String': 'a'}, 'content': '` +
			strings.Repeat("b", 1<<16) + `'}`,
		"prepend": `'normalizer': {'type': 'Prepend', 'prepend': '` + strings.Repeat("b", 1<<10) + `'}`,
		"spaces": `'normalizer': {'type': 'Sequence', 'normalizers': [` +
			strings.Repeat(`{'type': 'BertNormalizer'},`, mostStages-1) + `{'type': 'Lowercase'}]}`,
		"letters": `'pre_tokenizer': {'type': 'Sequence', 'pretokenizers': [` +
			strings.Repeat(`{'type': 'ByteLevel', 'use_regex': false},`, mostStages-1) +
			`{'type': 'ByteLevel'}]}`,
	} {
		tokenizer := tokenizerOf(t, `{'added_tokens': [{'id': 1, 'content': '<s>'}], `+stages+`,
			'model': {'merges': [], 'vocab': {'a': 1}}}`)
		_, err := encodeAll(tokenizer, strings.Repeat("a 中中é<s>", 1<<10))
		if err == nil || !strings.Contains(err.Error(), "makes a text much longer, want at most 16") {
			t.Errorf("%s: the error is %v", what, err)
		}
	}
	million := strings.Repeat("a", 1<<20)
	growing := &replace{Pattern: textOrRegex{text: "a"}, Content: million}
	if _, err := growing.normalize(traced{text: million}, &budget{bytes: 1 << 24}); err == nil {
		t.Error("a terabyte is no error")
	}
	l := loaderOf(t, map[string]string{"tokenizer.json": `{'normalizer': {'type': 'Sequence',
		'normalizers': [` + strings.Repeat(doubling+",", mostStages) + doubling + `]}, 'model': {}}`})
	if ReadBPE(l, 9); l.Err == nil || !strings.Contains(l.Err.Error(), "more than 64 stages") {
		t.Errorf("with too many stages the error is %v", l.Err)
	}
}
