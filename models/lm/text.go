package lm

import "strings"

// stops finds texts that end an answer. What may become one of them waits.
type stops struct {
	texts []string
	held  string
}

// add returns what may be shown of a text that continues the answer, and whether one of the texts
// ended it.
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

// waits is how many bytes at the end may be the beginning of one of the texts.
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

// end is add of the last text, after which nothing waits.
func (s *stops) end(text string) (shown string, stopped bool) {
	if shown, stopped = s.add(text); !stopped {
		shown += s.held
	}
	s.held = ""
	return shown, stopped
}
