package jinja

import (
	"encoding/json"
	"os"
	"testing"
	"time"
)

var moment = time.Date(2026, 3, 4, 15, 6, 7, 0, time.UTC)

// variables are those of testdata/render.py.
var variables = Dict{
	{"messages", []any{
		Dict{{"role", "system"}, {"content", "Be brief."}},
		Dict{{"role", "user"}, {"content", "Who <b>&\"é\"?"}},
		Dict{{"role", "assistant"}, {"content", nil}, {"tool_calls", []any{
			Dict{{"id", "c1"}, {"type", "function"}, {"function", Dict{{"name", "f"},
				{"arguments", Dict{{"z", 1}, {"a", []any{1.5, true, nil, "x"}}}}}}}}}},
		Dict{{"role", "tool"}, {"content", "42"}, {"tool_call_id", "c1"}}}},
	{"tools", nil}, {"add_generation_prompt", true}, {"bos_token", "<s>"}, {"eos_token", "</s>"},
	{"n", 7}, {"x", 2.5}, {"neg", -3}, {"s", "Hello, World"}, {"words", []any{"b", "a", "C"}},
	{"d", Dict{{"z", 1}, {"a", 2}, {"M", 3}}},
	{"nested", Dict{{"a", Dict{{"b", []any{1, 2, Dict{{"c", "deep"}}}}}}}}, {"none_", nil},
	{"t", true}, {"f", false}, {"empty", []any{}}, {"es", ""}}

func rendered(source string, variables Dict) (string, error) {
	t, err := Parse(source)
	if err != nil {
		return "", err
	}
	pieces, err := t.Render(variables, moment)
	return Text(pieces), err
}

// TestJinja2 compares with renderings of Jinja2 3.1.6, construct by construct: texts are the same,
// errors of Jinja2 are errors, and so is everything that is not supported here.
func TestJinja2(t *testing.T) {
	data, err := os.ReadFile("testdata/jinja2.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases [][]any
	if err := json.Unmarshal(data, &cases); err != nil || len(cases) < 1500 {
		t.Fatalf("%d cases, %v; want 1500 or more", len(cases), err)
	}
	for _, c := range cases {
		source := c[0].(string)
		got, err := rendered(source, variables)
		if want, ok := c[1].(string); !ok || len(c) > 2 {
			if err == nil {
				t.Errorf("%q is %q, want an error", source, got)
			}
		} else if err != nil || got != want {
			t.Errorf("%q is %q (%v), want %q", source, got, err, want)
		}
	}
}
