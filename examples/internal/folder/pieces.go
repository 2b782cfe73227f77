package folder

import (
	"fmt"
	"time"

	"github.com/dlclark/regexp2"
)

// piece is a part of a text: an added token, or text for the next stage.
type piece struct {
	text  string
	token *addedToken // nil for text
	first bool        // the text begins with it
}

// cut returns the parts of a piece of text that end at each of some places. Empty ones are left out.
func (p piece) cut(ends ...int) (parts []piece) {
	at := 0
	for _, end := range append(ends, len(p.text)) {
		if end > at {
			parts = append(parts, piece{text: p.text[at:end], first: p.first && at == 0})
			at = end
		}
	}
	return parts
}

// splitter cuts texts before and after what matches a regular expression. Its engine goes back and
// tries again, which may take longer than the world is old, so that it has a limit.
type splitter struct {
	*regexp2.Regexp
	limit time.Duration // of one text
}

// splitLimit is more than the patterns of published models need for megabytes.
const splitLimit = 10 * time.Second

// newSplitter compiles a pattern.
func newSplitter(pattern string, limit time.Duration) (*splitter, error) {
	const longest = 10_000
	if len(pattern) > longest {
		return nil, fmt.Errorf("the pattern has %d bytes, want at most %d", len(pattern), longest)
	}
	re, err := regexp2.Compile(pattern, regexp2.None)
	if err != nil {
		return nil, err
	}
	re.MatchTimeout = limit // of one match
	return &splitter{re, limit}, nil
}

// split cuts a piece.
func (s *splitter) split(p piece) ([]piece, error) {
	runes, start := []rune(p.text), time.Now()
	at, bytes := 0, 0 // the same place
	var ends []int
	end := func(rune int) {
		bytes += len(string(runes[at:rune]))
		at, ends = rune, append(ends, bytes)
	}
	m, err := s.FindRunesMatch(runes)
	for err == nil && m != nil && time.Since(start) < s.limit {
		end(m.Index)
		end(m.Index + m.Length)
		m, err = s.FindNextMatch(m)
	}
	if err != nil || m != nil { // the only error is that a match took too long
		return nil, fmt.Errorf("the pattern %q takes more than %v for a text of %d letters, want one "+
			"that takes less", s.String(), s.limit, len(runes))
	}
	return p.cut(ends...), nil
}
