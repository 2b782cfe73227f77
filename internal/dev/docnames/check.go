package docnames

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"unicode"
)

// fault is a name that is not in the source.
type fault struct {
	line int
	text string
}

// checker looks up the names of a document.
type checker struct {
	*source
	foreign names  // names of other projects that documents may use
	used    names  // those of them that documents use
	folder  string // of the document
	faults  []fault
}

func (c *checker) fail(line int, format string, args ...any) {
	c.faults = append(c.faults, fault{line, fmt.Sprintf(format, args...)})
}

// document checks all code of a Markdown file.
func (c *checker) document(text string) {
	for _, p := range pieces(text) {
		switch {
		case p.kind == goBlock:
			c.goCode(p)
		case program.MatchString(p.text):
			c.command(p)
		case p.kind == span:
			c.span(p)
		}
	}
}

// named matches a file name with one of these extensions, a path, or a folder with its slash.
var named = regexp.MustCompile(`^[\w.*-]+\.(go|s|md|mod|work|txt|json|svg|png|py|yml)$|` +
	`^[\w.*-]+(/[\w.*-]+)+/?$|^[\w.-]+/$`)

// span checks code between backquotes.
func (c *checker) span(p piece) {
	switch text := p.text; {
	case c.isForeign(text), c.literals[text]:
	case testName.MatchString(text):
		c.test(p.line, text)
	case named.MatchString(text):
		c.file(p.line, text)
	default:
		for _, field := range strings.Fields(text) {
			c.field(p.line, field)
		}
	}
}

// field checks code without spaces: a flag, or an expression.
func (c *checker) field(line int, text string) {
	if flag.MatchString(text) {
		c.flag(line, text)
		return
	}
	for _, match := range selector.FindAllStringSubmatch(text, -1) {
		c.selection(line, match[1], match[2])
	}
	for _, w := range partOfWord.FindAllString(text, -1) {
		c.word(line, w)
	}
}

// file reports a file that does not exist: by its path from the root or from the document's folder,
// or by the end of its path.
func (c *checker) file(line int, name string) {
	name = strings.TrimSuffix(name, "/")
	for have := range c.files {
		for _, want := range []string{name, path.Join(c.folder, name)} {
			if match, _ := path.Match(want, have); match {
				return
			}
		}
		if match, _ := path.Match(name, path.Base(have)); match || strings.HasSuffix(have, "/"+name) {
			return
		}
	}
	if !c.isForeign(name) {
		c.fail(line, "there is no file %s", name)
	}
}

// testName matches a whole name, or its beginning with …
var testName = regexp.MustCompile(`^(Test|Fuzz|Benchmark|Example)\w+…?$`)

// test reports a name that no test has, or a beginning that none has.
func (c *checker) test(line int, name string) {
	beginning, cut := strings.CutSuffix(name, "…")
	found := c.tests[name] || c.isForeign(name)
	for test := range c.tests {
		found = found || cut && strings.HasPrefix(test, beginning)
	}
	if !found {
		c.fail(line, "there is no %s", name)
	}
}

var flag = regexp.MustCompile(`^-([a-z][\w-]*)`)

// flag reports a flag that no command defines.
func (c *checker) flag(line int, field string) {
	match := flag.FindStringSubmatch(field)
	if match == nil || c.isForeign(match[0]) {
		return
	}
	if name := strings.TrimPrefix(match[1], "test."); !c.literals[name] && !c.isForeign("-"+name) {
		c.fail(line, "no command has a flag -%s", name)
	}
}

var selector = regexp.MustCompile(`(\pL[\pL\d_]*)\.(\pL[\pL\d_]*)`)

// selection checks x.name where x is a package of the repository or an exported type. Names of
// other packages are skipped: a variable may have the name of its type.
func (c *checker) selection(line int, x, name string) {
	exported := unicode.IsUpper([]rune(x)[0])
	switch {
	case c.packages[x][name]:
	case exported && c.isType(x):
		if !c.has(x, name) && !c.isForeign(x+"."+name) {
			c.fail(line, "%s has no %s", x, name)
		}
	case !exported && c.packages[x] != nil && !c.has(strings.ToUpper(x[:1])+x[1:], name):
		c.fail(line, "package %s has no %s", x, name)
	}
}

// partOfWord matches a word, or its beginning or end, marked by … or by _.
var partOfWord = regexp.MustCompile(`…?[\pL_][\pL\d_]*…?`)

// word reports a word, or a part of one, that neither the source nor the list of other projects'
// names has.
func (c *checker) word(line int, w string) {
	name := strings.Trim(w, "…")
	if c.words[name] || len([]rune(name)) == 1 || c.isForeign(name) {
		return
	}
	for have := range c.words {
		if strings.HasPrefix(w, "…") && strings.HasSuffix(have, name) ||
			strings.HasSuffix(w, "…") && strings.HasPrefix(have, name) ||
			strings.HasPrefix(w, "_") && (strings.HasSuffix(have, name) || have == name[1:]) {
			return
		}
	}
	c.fail(line, "the source has no %s", name)
}

func (c *checker) isForeign(name string) bool {
	if c.foreign[name] {
		c.used[name] = true
	}
	return c.foreign[name]
}
