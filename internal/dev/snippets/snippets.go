// Package snippets finds the Go code in documents and turns it into programs, so that a test can
// compile what readers copy.
package snippets

import (
	"fmt"
	"go/format"
	"regexp"
	"strings"
)

// Snippet is a block of Go code in a document, as a program.
type Snippet struct {
	Line    int    // the first line of the code in the document
	Program string // package main
	Output  string // the printed output, if the code has it; then it is a whole program
}

// A document has blocks that begin with ```go. A block that is not a program comes after a comment
// that readers do not see:
//
//	<!-- prelude
//	func decode(keys []float32) error {
//		/* snippet */
//		return err
//	}
//	-->
const (
	begin  = "```go"
	end    = "```"
	hidden = "<!-- prelude"
	hole   = "/* snippet */"
)

// imports are the packages that incomplete programs may use, by name.
var imports = map[string]string{
	"attn": "github.com/seed-1415985d/attn", "cluster": "github.com/seed-1415985d/attn/cluster",
	"embedded": "github.com/seed-1415985d/attn/cluster/embedded",
	"gguf":     "github.com/seed-1415985d/attn/gguf",
	"linattn":  "github.com/seed-1415985d/attn/linattn", "nn": "github.com/seed-1415985d/attn/nn",
	"context": "context", "errors": "errors", "fmt": "fmt", "log": "log", "math": "math", "os": "os",
	"slices": "slices", "sync": "sync", "time": "time",
}

var (
	qualifier = regexp.MustCompile(`\b([a-z]+)\.[A-Z]`)
	output    = regexp.MustCompile(`(?s)\t// Output: ?(.*?)\n}`)
)

// Find returns the snippets of a document.
func Find(document string) (all []Snippet, err error) {
	lines := strings.Split(document, "\n")
	prelude := ""
	for i := 0; i < len(lines); i++ {
		switch lines[i] {
		case hidden:
			prelude, i = until(lines, i+1, "-->")
		case begin:
			s := Snippet{Line: i + 2}
			var code string
			code, i = until(lines, i+1, end)
			if err := s.complete(code, prelude); err != nil {
				return nil, fmt.Errorf("line %d: %w", s.Line, err)
			}
			all, prelude = append(all, s), ""
		}
	}
	return all, nil
}

// until returns the lines from one on up to last, and the number of that line.
func until(lines []string, from int, last string) (text string, at int) {
	at = from
	for at < len(lines) && lines[at] != last {
		at++
	}
	return strings.Join(lines[from:min(at, len(lines))], "\n"), at
}

// complete turns code into a program.
func (s *Snippet) complete(code, prelude string) error {
	if strings.HasPrefix(code, "package ") {
		s.Program = code + "\n"
		if m := output.FindStringSubmatch(s.Program); m != nil {
			s.Output = strings.ReplaceAll(m[1], "\n\t// ", "\n") + "\n"
		}
		return nil
	}
	if !strings.Contains(prelude, hole) {
		return fmt.Errorf("the code is no program, and no prelude with %q stands before it", hole)
	}
	body := strings.Replace(prelude, hole, code, 1)
	var used strings.Builder
	seen := map[string]bool{}
	for _, m := range qualifier.FindAllStringSubmatch(body, -1) {
		if path := imports[m[1]]; path != "" && !seen[path] {
			seen[path] = true
			fmt.Fprintf(&used, "%q\n", path)
		}
	}
	text := fmt.Sprintf("package main\n\nimport (\n%s)\n\nfunc main() {}\n\n%s\n", used.String(), body)
	formatted, err := format.Source([]byte(text))
	s.Program = string(formatted)
	return err
}
