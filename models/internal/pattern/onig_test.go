package pattern

import (
	"slices"
	"strings"
	"testing"
)

// TestPatternsOfOniguruma compares with splits by Oniguruma 6.9.8, which were computed with its
// WebAssembly build: elements of patterns that mean other letters in .NET, or nothing.
func TestPatternsOfOniguruma(t *testing.T) {
	for _, c := range []struct{ pattern, text, want string }{
		{`\w+`, "a½b²-Ⅷ৴ǅ_1 ²", "a½b²|-|Ⅷ|৴|ǅ_1| |²"},
		{`[\w]+`, "a½b²-Ⅷ", "a|½|b|²-|Ⅷ"}, // Oniguruma has another table in classes
		{`[^\w\s]+`, "Ⅷ½Ⓐ !a", "Ⅷ|½|Ⓐ |!|a"},
		{`\W+`, "½a\u0903৴\u200db", "½a\u0903|৴\u200d|b"},
		{`[\Wa]+`, "½abⅧ৴", "½a|bⅧ|৴"},
		{`[^\W_]+`, "a_Ⅷ½", "a|_|Ⅷ|½"},
		{`\b`, "a½-²", "a½|-|²"},
		{`\b\w`, "²a", "²|a"},
		{`\Ba`, "½a-a", "½|a|-a"},
		{`^a`, "a\na", "a|\n|a"},
		{`a$`, "ba\na", "b|a|\n|a"},
		{` ?[^(\s|[.,!?…。，、।۔،])]+`, "a b.(c", "a| b|.(|c"},
		{`[a[bc]]+`, "xabc[x", "x|abc|[x"},
		{`b{,2}c`, "bbbc", "b|bbc"},
		{`\<a`, "b<a", "b|<a"},
		{`(?<x>a)\k<x>`, "baab", "b|aa|b"},
		{`(?i)ab|c`, "xABCx", "x|AB|C|x"},
		{`[]a]+`, "b]a", "b|]a"},
		{`a{`, "ba{", "b|a{"},
	} {
		p, err := Compile(c.pattern)
		if err != nil {
			t.Error(err)
			continue
		}
		var got []string
		steps := StepsFor(len(c.text))
		err = p.Each(c.text, &steps, func(part string, _ bool) error {
			if part != "" {
				got = append(got, part)
			}
			return nil
		})
		if want := strings.Split(c.want, "|"); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s cuts %q into %q (%v), want %q", c.pattern, c.text, got, err, want)
		}
	}
}

// TestRefusedPatterns has elements that regexp2 would misread.
func TestRefusedPatterns(t *testing.T) {
	for pattern, want := range map[string]string{
		`[[:alpha:]]`: `"[:alpha:]" in a class, want categories`,
		`[a[^b]]`:     "a class [^…] within another",
		`[a&&b]`:      "&& in a class",
		`[a-[b]]`:     "-[ in a class",
		`a\h`:         `\h, want one of \w`,
		`[\R]`:        `\R], want one of`,
		`\p{^L}`:      `has \p{^L}, want the name of a category`,
		// in Oniguruma it has some symbols, too
		`\p{Punct}`:                  `has \p{Punct}, want the name`,
		`\pL`:                        `has \p, want the name`,
		`a{2}+`:                      `has {2}+, want no + there`,
		`a{1,2}+`:                    `has {1,2}+, want no + there`,
		`(a)\2`:                      `refers to \2, want the number`,
		`(?<x>a)\1`:                  `refers to \1, want the number`,
		`(a)\k<1>`:                   `has \k<1>, want the name`,
		`(?i)(a)\1`:                  `refers to a group where case is ignored`,
		`a)`:                         `has a ) too many`,
		`(?i)[\p{Lu}]`:               `has \p{Lu} where case is ignored`,
		`(?i:(?-i:a)\P{Ll})b`:        `has \P{Ll} where case is ignored`,
		`(a`:                         `missing closing )`,
		strings.Repeat(`[\W]`, 2000): `too much when \w and \W are written out, want at most`,
		`a**`:                        `invalid nested repetition`,
		`(?#a`:                       `a comment without an end`,
		`a(?(b)c|d)`:                 `a group (?(b)`,
		`(?m)a`:                      "a group (?m)a…, want (",
		`a(?i)b`:                     "a group (?i)b…, want (",
		`(?<=a)(?~b)`:                "a group (?~b)…",
		`a{2}?`:                      "want no ? there",
		`[a`:                         "a class without an end",
		`a\`:                         "ends in a backslash",
		`(?<`:                        "a group (?<…",
	} {
		if _, err := Compile(pattern); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error is %v, want it to say %q", pattern, err, want)
		}
	}
}
