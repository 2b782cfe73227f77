package lm

import "strings"

// stops finds texts that end an answer. It holds back what may become one of them.
type stops struct {
	texts []string
	held  string
}

// add returns the text that may be shown after text continues the answer, and whether a stop text
// ended the answer.
func (s *stops) add(text string) (shown string, stopped bool) {
	s.held += text
	end := len(s.held)
	for _, stop := range s.texts {
		if at := strings.Index(s.held, stop); at >= 0 && (at < end || !stopped) {
			end, stopped = min(end, at), true
		}
	}
	if !stopped {
		end -= s.waits()
	}
	shown, s.held = s.held[:end], s.held[end:]
	if stopped {
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
