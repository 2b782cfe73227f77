package docnames

import (
	"go/token"
	"regexp"
	"strings"
)

// program matches the beginning of a command line of this repository.
var program = regexp.MustCompile(
	`^(\w+=\S+ )*(go (run|test|vet|build|generate)|attn|attn-cluster|\.ci/run) `)

// command checks the folders and flags of a command line, and the tests that it selects.
func (c *checker) command(p piece) {
	if strings.Contains(p.text, "go test") {
		for _, match := range selecting.FindAllStringSubmatch(p.text, -1) {
			c.selects(p.line, strings.Trim(match[2], "'"))
		}
	}
	for _, field := range strings.Fields(p.text) {
		folder, local := strings.CutPrefix(strings.TrimSuffix(field, "..."), "./")
		if local && folder != "" {
			c.file(p.line, folder)
		}
		c.flag(p.line, strings.Trim(field, "'"))
	}
}

var selecting = regexp.MustCompile(`-(run|bench|fuzz)[ =]('[^']*'|\S+)`)

// selects reports an alternative of a pattern that selects no test, unless it is meant to select
// none.
func (c *checker) selects(line int, pattern string) {
	for _, alternative := range strings.Split(pattern, "|") {
		first, _, _ := strings.Cut(alternative, "/")
		match, err := regexp.Compile(first)
		found := err != nil || first == "^$" // an error means that a group was split
		for test := range c.tests {
			found = found || match.MatchString(test)
		}
		if !found {
			c.fail(line, "%s selects no test", first)
		}
	}
}

// goCode checks selectors, and the keys of literals, in a block of Go, which may be a fragment.
func (c *checker) goCode(p piece) {
	before, last, list := lexeme{}, lexeme{}, tokens(p.text)
	var open []string // for each open brace the type of its literal, or ""
	for i, t := range list {
		line := p.line + t.line - 1
		switch t.kind {
		case token.LBRACE:
			literal := ""
			if before.kind == token.PERIOD && c.isType(last.text) {
				literal = last.text
			}
			open = append(open, literal)
		case token.RBRACE:
			open = open[:max(0, len(open)-1)]
		case token.IDENT:
			if last.kind == token.PERIOD && before.kind == token.IDENT {
				c.selection(line, before.text, t.text)
			}
			if last.kind == token.PERIOD {
				c.word(line, t.text)
			}
			key := i+1 < len(list) && list[i+1].kind == token.COLON
			if key && len(open) > 0 && open[len(open)-1] != "" {
				c.selection(line, open[len(open)-1], t.text)
			}
		}
		before, last = last, t
	}
}
