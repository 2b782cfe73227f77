package docnames

import (
	"fmt"
	"regexp"
	"strings"
)

// session is consecutive indented lines of a document that begin with a command: a reader types
// them one after the other.
type session struct {
	line  int // the first one
	lines []string
}

// typed matches the beginning of a line that readers type.
var typed = regexp.MustCompile(
	`^(\w+=\S* )*(go|git|attn|attn-cluster|\.ci/\w+|chrt|for|while|cd|mkdir|cp) `)

// sessions returns the sessions of a Markdown file. A line that does not begin with a command, such
// as output, ends a session, except within a loop or after a backslash.
func sessions(text string) (list []session) {
	next, nested := 0, 0 // the line that continues the last session, 0 for none
	for _, p := range pieces(text) {
		if p.kind != command {
			continue
		}
		n := len(list) - 1
		follows := p.line == next
		if follows {
			last := &list[n].lines[len(list[n].lines)-1]
			if before, continued := strings.CutSuffix(*last, "\\"); continued {
				*last, next = before+p.text, next+1
				continue
			}
		}
		if !typed.MatchString(p.text+" ") && !(follows && nested > 0) {
			next = 0
			continue
		}
		if !follows {
			list, nested = append(list, session{line: p.line}), 0
			n++
		}
		nested += strings.Count(" "+p.text+" ", " do ") - strings.Count(" "+p.text+" ", " done ")
		list[n].lines, next = append(list[n].lines, p.text), p.line+1
	}
	return list
}

// rule replaces lines that match, with the reason.
type rule struct {
	match   *regexp.Regexp
	instead string // a template of regexp.Expand; "-" for nothing
	reason  string
	used    bool
}

// parseRules reads three columns separated by tabs. Lines with # are comments.
func parseRules(text string) (list []*rule, err error) {
	for i, line := range strings.Split(text, "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		columns := regexp.MustCompile(`\t+`).Split(line, -1)
		if len(columns) != 3 {
			return nil, fmt.Errorf("line %d has %d columns, want a pattern, what is tried instead, "+
				"and a reason", i+1, len(columns))
		}
		match, err := regexp.Compile("^(?:" + columns[0] + ")$")
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		list = append(list, &rule{match: match, instead: columns[1], reason: columns[2]})
	}
	return list, nil
}

// script returns what to run for a session: each line, or its replacement by the first rule that
// matches.
func (s *session) script(rules []*rule) string {
	var script strings.Builder
	for _, line := range s.lines {
		for _, r := range rules {
			if at := r.match.FindStringSubmatchIndex(line); at != nil {
				r.used = true
				line = string(r.match.ExpandString(nil, r.instead, line, at))
				break
			}
		}
		if line != "-" {
			script.WriteString(line + "\n")
		}
	}
	return script.String()
}
