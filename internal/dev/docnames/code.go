// Package docnames looks up in the source what documents write as code: identifiers, files, flags,
// tests. It finds names in documents that were changed in the source.
package docnames

import (
	"regexp"
	"strings"
)

// kind is the kind of a piece of code, by its mark-up.
type kind int

const (
	span    kind = iota // between backquotes
	goBlock             // fenced, of Go
	command             // an indented line
)

// piece is a piece of code in a document.
type piece struct {
	kind kind
	line int // its first one
	text string
}

var (
	fence  = regexp.MustCompile("^\\s*```\\s*(\\w*)")
	inline = regexp.MustCompile("`+[^`]+`+")
	remark = regexp.MustCompile(`\s+# .*$`)
)

// pieces returns the code of a Markdown file. Fenced blocks in languages other than Go are files
// and pictures, and are skipped.
func pieces(text string) (list []piece) {
	language, fenced := "", false
	for i, line := range strings.Split(text, "\n") {
		if mark := fence.FindStringSubmatch(line); mark != nil {
			if fenced = !fenced; fenced {
				language = mark[1]
			}
			if fenced && language == "go" {
				list = append(list, piece{goBlock, i + 2, ""})
			}
			continue
		}
		switch {
		case fenced && language == "go":
			list[len(list)-1].text += line + "\n"
		case fenced:
		case strings.HasPrefix(line, "    "):
			list = append(list, piece{command, i + 1, remark.ReplaceAllString(strings.TrimSpace(line), "")})
		default:
			for _, code := range inline.FindAllString(line, -1) {
				list = append(list, piece{span, i + 1, strings.Trim(code, "` ")})
			}
		}
	}
	return list
}
