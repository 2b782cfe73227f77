package lm

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// TestStopsOfAnyTokens cuts texts into tokens in several ways: the answer is the one of the stop
// text that is complete first, and of several the longest.
func TestStopsOfAnyTokens(t *testing.T) {
	check := func(text string, texts []string, random *rand.Rand) {
		want := text
		for end := range len(text) + 1 {
			begin := -1
			for _, stop := range texts {
				if at := end - len(stop); strings.HasSuffix(text[:end], stop) && (begin < 0 || at < begin) {
					begin = at
				}
			}
			if begin >= 0 {
				want = text[:begin]
				break
			}
		}
		for most := 1; most <= len(text); most++ {
			s, got, stopped := stops{texts: texts}, "", false
			for rest := text; rest != "" && !stopped; {
				n := min(len(rest), 1+random.IntN(most))
				shown := ""
				shown, stopped = s.add(rest[:n])
				got, rest = got+shown, rest[n:]
			}
			shown, last := s.end("")
			if got += shown; got != want || stopped != (want != text) || last {
				t.Fatalf("%q with stops %q in tokens of at most %d bytes is %q, want %q", text, texts, most,
					got, want)
			}
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	check(" baba", []string{"baba", "a"}, random)
	check("xabcd", []string{"abcd", "bcx"}, random)
	for range 2000 {
		letters := func(n int) string {
			x := make([]byte, n)
			for i := range x {
				x[i] = byte('a' + random.IntN(3))
			}
			return string(x)
		}
		var texts []string
		for range 1 + random.IntN(3) {
			texts = append(texts, letters(1+random.IntN(4)))
		}
		check(letters(1+random.IntN(12)), texts, random)
	}
}
