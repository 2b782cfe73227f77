package tokenize

import (
	"fmt"
	"time"

	"github.com/dlclark/regexp2"
)

// piece is a part of a text: an added token, or text for the next stage.
type piece struct {
	text    string
	trusted string      // of a passage, while added tokens are looked for
	token   *addedToken // nil for text
	first   bool        // the text begins with it
	users   bool        // some of it is not trusted
}

// cut returns the parts of a piece of text that end at each of some places, without empty ones.
func (p piece) cut(ends ...int) (parts []piece) {
	at := 0
	for _, end := range append(ends, len(p.text)) {
		if end > at {
			parts = append(parts, piece{text: p.text[at:end], first: p.first && at == 0, users: p.users})
			at = end
		}
	}
	return parts
}

// splitter cuts texts before and after what matches a regular expression. Its engine goes back and
// tries again, which may take longer than the world is old, so that it has limits.
type splitter struct {
	*regexp2.Regexp
	pattern string        // as a file has it
	limit   time.Duration // of one match, and of a text together with its length
}

// matchLimit is more than the patterns of published models need for a match in megabytes.
const matchLimit = 2 * time.Second

// timeFor is how long a text of a number of bytes may take.
func timeFor(limit time.Duration, bytes int) time.Duration {
	return limit + time.Duration(bytes)*20*time.Microsecond
}

// newSplitter compiles a pattern of Oniguruma's.
func newSplitter(pattern string, limit time.Duration) (*splitter, error) {
	const longest = 10_000
	if len(pattern) > longest {
		return nil, fmt.Errorf("the pattern has %d bytes, want at most %d", len(pattern), longest)
	}
	written, err := dotNet(pattern)
	if err != nil {
		return nil, err
	}
	re, err := regexp2.Compile(written, regexp2.None)
	if err != nil {
		return nil, fmt.Errorf("the pattern %q: %w", pattern, err)
	}
	re.MatchTimeout = limit
	return &splitter{re, pattern, limit}, nil
}

// split cuts a piece.
func (s *splitter) split(p piece) ([]piece, error) {
	var ends []int
	at := 0
	err := s.each(p.text, func(part string, _ bool) error {
		at += len(part)
		ends = append(ends, at)
		return nil
	})
	return p.cut(ends...), err
}

// each visits the parts of a text in their order: matches, and what is between them, which may be
// empty.
func (s *splitter) each(text string, visit func(part string, matched bool) error) error {
	runes, start, limit := []rune(text), time.Now(), timeFor(s.limit, len(text))
	at, bytes := 0, 0 // the same place
	part := func(end int, matched bool) error {
		from := bytes
		bytes += len(string(runes[at:end]))
		at = end
		return visit(text[from:bytes], matched)
	}
	m, err := s.FindRunesMatch(runes)
	for err == nil && m != nil && time.Since(start) < limit {
		if err := part(m.Index, false); err != nil {
			return err
		}
		if err := part(m.Index+m.Length, true); err != nil {
			return err
		}
		m, err = s.FindNextMatch(m)
	}
	if err != nil || m != nil { // the only error is that a match took more than limit
		return fmt.Errorf("the pattern %q takes more than %v for a text of %d letters, want one "+
			"that takes less", s.pattern, limit, len(runes))
	}
	return part(len(runes), false)
}
