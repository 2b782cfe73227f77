package docnames

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

const root = "../../.."

// A document describes the present; the past is in docs/decisions and in the changelog.
var (
	history = regexp.MustCompile(`(?i)\b(since then|as it was|was before|came later|at that time|` +
		`formerly|previously|used to be|no longer|(an?|the) (earlier|older|previous) version|` +
		`was gained since)\b|, earlier\b`)
	historical = "docs/decisions/"
)

// document is a file and its text.
type document struct{ name, text string }

// documents returns all documents except the changelog, which has names of its time.
func documents(t *testing.T) (list []document) {
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "gen/*.md", "asm/*.md",
		"examples/*/*.md", "models/*/*.md", "models/cmd/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || found == nil {
			t.Fatalf("%s: no documents, %v", pattern, err)
		}
		for _, path := range found {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			name, err := filepath.Rel(root, path)
			if err != nil {
				t.Fatal(err)
			}
			if name != "CHANGELOG.md" {
				list = append(list, document{filepath.ToSlash(name), string(text)})
			}
		}
	}
	return list
}

// skipShort skips tests that read the same files on every machine, so that one full run is enough.
func skipShort(t *testing.T) {
	if testing.Short() {
		t.Skip("it reads the same files on every machine")
	}
}

// TestNamesExist fails for each name that documents write as code and that the source does not
// have.
func TestNamesExist(t *testing.T) {
	skipShort(t)
	have, err := readSource(root, "internal/dev/docnames") // its strings have names that do not exist
	if err != nil {
		t.Fatal(err)
	}
	foreign, used := foreignNames(t), names{}
	for _, d := range documents(t) {
		c := checker{source: have, foreign: foreign, used: used, folder: path.Dir(d.name)}
		c.document(d.text)
		for _, f := range c.faults {
			t.Errorf("%s:%d: %s", d.name, f.line, f.text)
		}
	}
	for name := range foreign {
		if !used[name] {
			t.Errorf("testdata/foreign.txt has %s, which no document needs", name)
		}
	}
}

// foreignNames returns names of other projects.
func foreignNames(t *testing.T) names {
	text, err := os.ReadFile("testdata/foreign.txt")
	if err != nil {
		t.Fatal(err)
	}
	set := names{}
	for _, line := range strings.Split(string(text), "\n") {
		if !strings.HasPrefix(line, "#") {
			for _, name := range strings.Fields(line) {
				set[name] = true
			}
		}
	}
	return set
}

// TestNoHistory fails where a document describes the past.
func TestNoHistory(t *testing.T) {
	skipShort(t)
	for _, d := range documents(t) {
		if strings.HasPrefix(d.name, historical) {
			continue
		}
		for i, line := range strings.Split(d.text, "\n") {
			if words := history.FindString(line); words != "" {
				t.Errorf("%s:%d: %q: say how it is", d.name, i+1, words)
			}
		}
	}
}

// TestLengths bounds the lengths of documents that are read first, and of all together.
func TestLengths(t *testing.T) {
	for name, most := range map[string]int{"README.md": 110, "docs/performance.md": 160} {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(text), "\n"); n > most {
			t.Errorf("%s has %d lines, want at most %d", name, n, most)
		}
	}
	words := 0
	for _, d := range documents(t) {
		words += len(strings.Fields(d.text))
	}
	if words > 36000 {
		t.Errorf("documents have %d words, want at most 36000: say it shorter, or once", words)
	}
}

// TestColumns keeps lines of documents within 100 characters, except tables, pictures in links,
// addresses, and comments that describe tables.
func TestColumns(t *testing.T) {
	skipShort(t)
	const most = 100
	list := documents(t)
	text, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	if err != nil {
		t.Fatal(err)
	}
	unbroken := regexp.MustCompile(`^\||^\[!\[|^<!-- bench |^\S*$`)
	for _, d := range append(list, document{"CHANGELOG.md", string(text)}) {
		for i, line := range strings.Split(d.text, "\n") {
			if n := utf8.RuneCountInString(line); n > most && !unbroken.MatchString(line) {
				t.Errorf("%s:%d has %d columns, want at most %d", d.name, i+1, n, most)
			}
		}
	}
}

// TestLinks fails where a link leads to no file of the repository, or to no heading.
func TestLinks(t *testing.T) {
	skipShort(t)
	for _, d := range documents(t) {
		for _, link := range linksOf(d.text) {
			if text := broken(root, d.name, link.text); text != "" {
				t.Errorf("%s:%d: %s", d.name, link.line, text)
			}
		}
	}
}

// A link leads to a file near the document, to a heading, or outside, which is not checked.
func TestBroken(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{"a.md": "# The `A`, and B-c\n\n[x](b.txt)\n", "b.txt": ""} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for target, want := range map[string]string{
		"https://example.com/x": "", "b.txt": "", "a.md#the-a-and-b-c": "", "#the-a-and-b-c": "",
		"c.txt": "there is no file c.txt", "a.md#b": "a.md has no heading b",
		"#b": "a.md has no heading b",
	} {
		if got := broken(folder, "a.md", target); got != want {
			t.Errorf("%s: %q, want %q", target, got, want)
		}
	}
	if got := linksOf("a\n[b](c) and ![d\n](e)"); len(got) != 2 || got[0] != (fault{2, "c"}) ||
		got[1] != (fault{3, "e"}) {
		t.Errorf("links are %v", got)
	}
}

// repository writes files into a folder and reads it.
func repository(t *testing.T) *source {
	folder := t.TempDir()
	for name, text := range map[string]string{
		"view.go": "package attn\n\ntype View[T any] struct{ Data []T }\n\n" +
			"type Tensor = View[float32]\n\n" +
			"func (v View[T]) Row() {}\n\ntype Config struct {\n\tView[int]\n\tFormat int\n}\n\n" +
			"type Store interface{ Append() }\n\nconst Block = 64\n\nvar cache Config // onlyInAComment\n",
		"view_test.go":       "package attn\n\nfunc TestStride() {}\n\nfunc BenchmarkRow() {}\n",
		"cmd/attn/main.go":   "package main\n\nvar isa = flags.String(\"isa\", \"\", \"a `list`\")\n",
		"store/store.go":     "package store\n\nfunc Open() {}\n",
		"kernel.s":           "VPDPBUSD Z1, Z2, Z3\n",
		"internal/own/x.go":  "package own\n\nfunc LeftOut() {}\n",
		".ci/run":            "qemu-aarch64-static\n",
		"docs/peers.svg":     "<svg>NotASource</svg>",
		".git/refs/heads.go": "not Go",
	} {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s, err := readSource(folder, "internal/own")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Each line of a document, and its fault.
func TestChecker(t *testing.T) {
	have, foreign := repository(t), names{"FOREIGN": true, "-run": true, "-bench": true}
	fenced := func(code string) string { return "```go\n" + code + "\n```" }
	for _, c := range []struct {
		text string
		want string // the fault, as line: text
	}{
		{"`Tensor`, `View.Data`, `Tensor.Row()`, `Config.Row`, `Store.Append`, `attn.Block`", ""},
		{"`cache.Format` of a variable, `&Config{Format: 1}`, `VPDPBUSD`, `qemu-aarch64`", ""},
		{"`TestStride`, `Test…`, `…UFFIX`, `Ten…`, `_static`, `-isa x`, `FOREIGN`",
			"1: the source has no UFFIX"},
		{"`view.go`, `cmd/attn`, `attn/main.go`, `*.go`, `docs/`, `peers.svg` beside it", ""},
		{"none\n`Stride`", "2: the source has no Stride"},
		{"`onlyInAComment`", "1: the source has no onlyInAComment"},
		{"`NotASource`", "1: the source has no NotASource"},
		{"`LeftOut`", "1: the source has no LeftOut"},
		{"`Tensor.Rows`", "1: Tensor has no Rows; the source has no Rows"},
		{"`attn.Row`", "1: package attn has no Row"},
		{"`store.Open` of a package, `store.Append` of a variable", ""},
		{"`store.Row`", "1: package store has no Row"},
		{"`kernels.go`", "1: there is no file kernels.go"},
		{"`TestStrides`", "1: there is no TestStrides"},
		{"`TestStrides…`", "1: there is no TestStrides…"},
		{"`-fast`", "1: no command has a flag -fast"},
		{"    go test -run '^$' -bench 'Row|Column/n=1' ./cmd/... # all", "1: Column selects no test"},
		{"    go run ./cmd/attn -fast\n    another -slow", "1: no command has a flag -fast"},
		{"`go run ./cmd/other -isa x`", "1: there is no file cmd/other"},
		{fenced("x := attn.Config{\n\tFormat: 1, Type: attn.Block}\ncase y: z.Append()"),
			"3: Config has no Type"},
		{fenced("attn.Store(func() { if x {}; label: }, map[string]int{a: 1})\n}\nz.Grow()"),
			"4: the source has no Grow"},
		{"```yaml\n`Nothing` here\n```", ""},
	} {
		check := checker{source: have, foreign: foreign, used: names{}, folder: "docs"}
		check.document(c.text)
		var got []string
		for _, f := range check.faults {
			text := f.text
			if got == nil {
				text = fmt.Sprintf("%d: %s", f.line, text)
			}
			got = append(got, text)
		}
		if strings.Join(got, "; ") != c.want {
			t.Errorf("%q: %q, want %q", c.text, strings.Join(got, "; "), c.want)
		}
	}
}

// A file that cannot be read, or that is not Go, is an error.
func TestSourceErrors(t *testing.T) {
	if _, err := readSource(filepath.Join(t.TempDir(), "none"), ""); err == nil {
		t.Error("a folder that is not there has names")
	}
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "x.go"), []byte("func"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := readSource(folder, ""); err == nil {
		t.Error("a file that is no Go has names")
	}
}
