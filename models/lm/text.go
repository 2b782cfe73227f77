package lm

import "strings"

// stops finds texts that end an answer. It holds back what may become one of them.
type stops struct {
	texts []string
	held  string
}

// add returns the text that may be shown after text continues the answer, and whether a stop text
// ended the answer: the one that is complete first, of several the longest. So it does not matter
// how tokens divide the text.
func (s *stops) add(text string) (shown string, stopped bool) {
	s.held += text
	begin, end := len(s.held)-s.waits(), len(s.held)+1
	for _, stop := range s.texts {
		at := strings.Index(s.held, stop)
		if done := at + len(stop); at >= 0 && (done < end || done == end && at < begin) {
			begin, end, stopped = at, done, true
		}
	}
	if shown, s.held = s.held[:begin], s.held[begin:]; stopped {
		s.held = ""
	}
	return shown, stopped
}

// waits returns how many bytes at the end may be the beginning of a stop text.
func (s *stops) waits() (keep int) {
	for _, stop := range s.texts {
		for n := min(len(stop)-1, len(s.held)); n > keep; n-- {
			if strings.HasSuffix(s.held, stop[:n]) {
				keep = n
			}
		}
	}
	return keep
}

// end is add for the last text, after which nothing is held back.
func (s *stops) end(text string) (shown string, stopped bool) {
	if shown, stopped = s.add(text); !stopped {
		shown += s.held
	}
	s.held = ""
	return shown, stopped
}
