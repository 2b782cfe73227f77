package tokenize

import (
	"strings"
	"testing"
	"time"
)

// TestPatternsEnd has patterns that try again and again: in one match, and in many short ones.
func TestPatternsEnd(t *testing.T) {
	for pattern, text := range map[string]string{
		`(a+)+$`:         strings.Repeat("a", 40) + "b",
		`b(?=(a+)+c)|b+`: strings.Repeat("b"+strings.Repeat("a", 16), 1000),
	} {
		s, err := newSplitter(pattern, 50*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		_, err = s.split(piece{text: text})
		if err == nil || !strings.Contains(err.Error(), "takes more than") {
			t.Errorf("%s: the error is %v, want it to say that it takes too long", pattern, err)
		}
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("%s took %v, want less than a second", pattern, took)
		}
	}
}

// TestTextsDoNotGrow has files that would make a text of some bytes as long as memory is.
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
		_, err := tokenizer.Encode(strings.Repeat("a 中中é<s>", 1<<10))
		if err == nil || !strings.Contains(err.Error(), "makes a text much longer, want at most 16") {
			t.Errorf("%s: the error is %v", what, err)
		}
	}
	million := strings.Repeat("a", 1<<20)
	growing := &replace{Pattern: pattern{text: "a"}, Content: million}
	if _, err := growing.normalize(million, 1<<24); err == nil {
		t.Error("a terabyte is no error")
	}
	l := loaderOf(t, map[string]string{"tokenizer.json": `{'normalizer': {'type': 'Sequence',
		'normalizers': [` + strings.Repeat(doubling+",", mostStages) + doubling + `]}, 'model': {}}`})
	if ReadBPE(l, 9); l.Err == nil || !strings.Contains(l.Err.Error(), "more than 64 stages") {
		t.Errorf("with too many stages the error is %v", l.Err)
	}
}
