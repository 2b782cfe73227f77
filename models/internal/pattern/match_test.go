package pattern

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/dlclark/regexp2/v2"
)

// spansOf returns the matches of a pattern.
func spansOf(p *Pattern, text string, steps Steps) (spans [][2]int, err error) {
	at := 0
	err = p.Each(text, &steps, func(part string, matched bool) error {
		if matched {
			spans = append(spans, [2]int{at, at + len(part)})
		}
		at += len(part)
		return nil
	})
	return spans, err
}

// librarySpans returns the matches of regexp2, without empty ones where another match ends.
func librarySpans(re *regexp2.Regexp, text string) (spans [][2]int, err error) {
	last := -1
	m, err := re.FindStringMatch(text)
	for ; err == nil && m != nil; m, err = re.FindNextMatch(m) {
		at, size := m.ByteRange()
		if size > 0 || at != last {
			spans = append(spans, [2]int{at, at + size})
		}
		last = at + size
	}
	if text == "" {
		spans = nil // Hugging Face's tokenizers do not ask for these
	}
	return spans, err
}

// randomPattern returns a pattern of few letters with all constructs of patterns.
func randomPattern(source *rand.Rand, depth int) string {
	leaves := []string{"a", "b", "é", "中", ".", `\s`, `\S`, `\p{L}`, "[ab]", "[^a]", `[^\s\p{L}]`,
		"ab", `\n`, "(?i:A)", " ", "$", "^", `\b`, `\z`}
	if depth == 0 {
		return leaves[source.IntN(len(leaves))]
	}
	inner := func() string { return randomPattern(source, depth-1) }
	switch source.IntN(12) {
	case 0, 1, 2:
		return inner() + inner()
	case 3, 4:
		return "(?:" + inner() + "|" + inner() + "|" + inner() + ")"
	case 5, 6:
		times := []string{"*", "+", "?", "{2}", "{1,3}", "{2,}", "*?", "+?", "??", "{1,2}?", "*+", "++",
			"?+"}
		return "(?:" + inner() + ")" + times[source.IntN(len(times))]
	case 7:
		return inner() + "|" + inner()
	case 8:
		look := []string{"(?=", "(?!", "(?<=", "(?<!", "(?>"}
		return look[source.IntN(len(look))] + inner() + ")"
	case 9:
		return "(" + inner() + ")" + inner() + `\1`
	}
	return leaves[source.IntN(len(leaves))]
}

// randomText returns a text of the letters in random patterns.
func randomText(source *rand.Rand) string {
	var b strings.Builder
	for range source.IntN(12) {
		b.WriteString([]string{"a", "b", "A", "é", "中", " ", "\n", "1"}[source.IntN(8)])
	}
	return b.String()
}

// TestMatchesOfTheLibrary compares matches of random patterns.
func TestMatchesOfTheLibrary(t *testing.T) {
	patterns := 3000
	if testing.Short() {
		patterns = 500
	}
	source := rand.New(rand.NewPCG(7, 11))
	for range patterns {
		text := randomPattern(source, 1+source.IntN(4))
		p, err := Compile(text)
		written, _ := dotNet(text)
		re, libraryErr := regexp2.Compile(written)
		if (err == nil) != (libraryErr == nil) {
			t.Errorf("%s: %v, and the library says %v", text, err, libraryErr)
		}
		for i := 0; i < 20 && err == nil; i++ {
			compare(t, p, re, randomText(source))
		}
	}
}

func compare(t *testing.T, p *Pattern, re *regexp2.Regexp, text string) {
	t.Helper()
	got, err := spansOf(p, text, StepsFor(len(text)))
	want, libraryErr := librarySpans(re, text)
	if errors.Is(libraryErr, regexp2.ErrBacktrackingStackLimit) {
		return
	}
	if err != nil || libraryErr != nil || !slices.Equal(got, want) {
		t.Errorf("%s in %q: matches %v (%v), want %v (%v)", p.source, text, got, err, want, libraryErr)
	}
}

// TestStepsAreCounted has patterns that backtrack much: with one step fewer than they need there is
// an error, and they need the same number each time.
func TestStepsAreCounted(t *testing.T) {
	for _, c := range []struct{ pattern, text string }{
		{`(a+)+$`, strings.Repeat("a", 12) + "b"},
		{`(?:a|aa)+c`, strings.Repeat("a", 15)},
		{`b(?=(a+)+c)|b+`, strings.Repeat("b"+strings.Repeat("a", 8), 9)},
		{`(?:(?!a*c)a)*?d`, strings.Repeat("a", 50)},
		{`(a*)\1c`, strings.Repeat("a", 50)},
		{`(?:a?){20}a{20}`, strings.Repeat("a", 20)},
		{`(?:(?:|a){9}){9}b`, "aa"},
		{` ?\p{L}+|\s+(?!\S)|\s+`, "Ein Text   von 30 Zeichen\n\n."},
	} {
		p, err := Compile(c.pattern)
		if err != nil {
			t.Fatal(err)
		}
		const many = 1 << 24
		need := Steps(0)
		for try := range 2 {
			left := Steps(many)
			if err := p.Each(c.text, &left, func(string, bool) error { return nil }); err != nil {
				t.Fatal(err)
			}
			if try == 1 && many-left != need {
				t.Errorf("%s needs %d steps, and then %d", c.pattern, need, many-left)
			}
			need = many - left
		}
		if _, err := spansOf(p, c.text, need); err != nil {
			t.Errorf("%s with the %d steps that it needs: %v", c.pattern, need, err)
		}
		if _, err := spansOf(p, c.text, need-1); err == nil ||
			!strings.Contains(err.Error(), "needs too many steps for a text of") {
			t.Errorf("%s with a step less than the %d that it needs: %v", c.pattern, need, err)
		}
	}
}

// TestHostilePatternsEnd has patterns that would run for too long or use too much memory.
func TestHostilePatternsEnd(t *testing.T) {
	for pattern, text := range map[string]string{
		`(a+)+$`:                         strings.Repeat("a", 60) + "b",
		`(?:ab|cd|){1000000}e`:           "e", // each repetition keeps another way
		`(.*)*(.*)*(.*)*\1x`:             strings.Repeat("a", 3000),
		`((((((((a*)*)*)*)*)*)*)*)*b`:    strings.Repeat("a", 40),
		`(?=(a*[ab]*a*[ab]*a*)c)\1`:      strings.Repeat("a", 300),
		`(?<!c(?:a|aa)*)b`:               strings.Repeat("a", 60) + "b",
		`(?>(?:a|aa)+c)|(?!(?:a|aa)+d)e`: strings.Repeat("a", 60) + "e",
		`(?:a|ab|b)*c`:                   strings.Repeat("ab", 40),
		`(?:a|aa)*?c`:                    strings.Repeat("a", 60),
	} {
		p, err := Compile(pattern)
		if err != nil {
			t.Error(err)
			continue
		}
		if spans, err := spansOf(p, text, 1<<22); err == nil {
			t.Errorf("%s ends with matches %v, want an error", pattern, spans)
		}
	}
}

// TestPublishedPatternsNeedFewSteps bounds the steps for texts, however long their parts are.
func TestPublishedPatternsNeedFewSteps(t *testing.T) {
	const llama3 = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|` +
		` ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	p, err := Compile(llama3)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{" ", "a", "A", "中", "'", "1", "\n", " \n", "\n ", "a ", "'s", "é!"} {
		text := strings.Repeat(part, 100_000) + "x"
		if _, err := spansOf(p, text, Steps(10*len(text))); err != nil {
			t.Errorf("100 000 times %q: %v", part, err)
		}
	}
}

// TestAnyText has texts that are not UTF-8.
func TestAnyText(t *testing.T) {
	for _, pattern := range []string{`.`, `\p{L}*`, `(?<=.)b`, `\xff`, `[^a]`} {
		p, err := Compile(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{"a\xffb", "\xe4\xb8", "\x80b", "b\xf0\x9f"} {
			all := ""
			steps := Steps(1000)
			err := p.Each(text, &steps, func(part string, _ bool) error { all += part; return nil })
			if err != nil || all != text {
				t.Errorf("%s in %q: the parts are %q (%v)", pattern, text, all, err)
			}
		}
	}
}

// TestVisitorsEnd has a visitor that stops early.
func TestVisitorsEnd(t *testing.T) {
	p, err := Compile("b")
	if err != nil {
		t.Fatal(err)
	}
	for last := range 2 {
		visits, enough := 0, errors.New("enough")
		steps := Steps(1000)
		err := p.Each("abab", &steps, func(string, bool) error {
			if visits++; visits > last {
				return enough
			}
			return nil
		})
		if err != enough || visits != last+1 {
			t.Errorf("after %d visits the error is %v", visits, err)
		}
	}
}

func BenchmarkEach(b *testing.B) {
	p, err := Compile(`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|` +
		` ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`)
	if err != nil {
		b.Fatal(err)
	}
	for name, text := range map[string]string{
		"words":   strings.Repeat("The quick brown fox doesn't jump over 12 lazy dogs.\n\n  ", 100),
		"chinese": strings.Repeat("今天天气很好，我们去公园玩吧！", 100),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				steps := StepsFor(len(text))
				_ = p.Each(text, &steps, func(string, bool) error { return nil })
			}
		})
	}
}

// TestManyMatches has a text of many matches, each of which leaves old values of loops on the
// stack.
func TestManyMatches(t *testing.T) {
	p, err := Compile(strings.Repeat("(?:", 20) + "ab|cd" + strings.Repeat("|e+f)+", 20))
	if err != nil {
		t.Fatal(err)
	}
	const n = 30_000
	text := strings.Repeat("ab,", n)
	if spans, err := spansOf(p, text, StepsFor(len(text))); err != nil || len(spans) != n {
		t.Errorf("there are %d matches (%v), want %d", len(spans), err, n)
	}
}

// FuzzMatches compares any pattern with the library on any text: the same matches, or an error.
func FuzzMatches(f *testing.F) {
	for pattern, text := range map[string]string{
		`(?i:'s|a)|[^\r\n\p{L}]?\p{L}+|\s+(?!\S)`: "it's a  b",
		`(a|aa)+$`: "aaab", `(?<=a)b++|\1(c)`: "ab\xff", `[^\w]{,2}^`: "é\n中"} {
		f.Add(pattern, text)
	}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		p, err := Compile(pattern)
		if err != nil {
			return
		}
		text = text[:min(len(text), 100)]
		if _, err := spansOf(p, text, 1<<20); err != nil || !utf8.ValidString(text) {
			return
		}
		written, _ := dotNet(pattern)
		re, err := regexp2.Compile(written)
		if err != nil {
			t.Fatalf("%q: the library says %v", pattern, err)
		}
		compare(t, p, re, text)
	})
}
