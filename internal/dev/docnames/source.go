package docnames

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// names is a set.
type names map[string]bool

// source is the names in the files of a repository.
type source struct {
	files    names // with folders, by path
	words    names // identifiers, words of strings, of scripts, and of the names of files
	literals names // whole strings of Go: flags are defined by them
	declarations
	leftOut string // a folder of which only declarations count
}

// word is an identifier, also in a sentence.
var word = regexp.MustCompile(`[\pL_][\pL\d_]*`)

// readSource reads all files below a folder except documents. Of the files in leftOut only
// declarations count.
func readSource(root, leftOut string) (*source, error) {
	s := &source{names{}, names{}, names{}, newDeclarations(), leftOut}
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(relative)
		if name == ".git" && entry.IsDir() {
			return fs.SkipDir
		}
		s.files[name] = true
		s.addWords(path.Base(name))
		if entry.IsDir() {
			return nil
		}
		return s.read(root, name)
	})
	return s, err
}

// read adds the names of a file.
func (s *source) read(root, file string) error {
	ending := path.Ext(file)
	switch ending {
	case ".go", ".s", ".py", ".mod", ".work":
	default:
		if !strings.HasPrefix(file, ".ci/") {
			return nil
		}
	}
	text, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		return err
	}
	if ending != ".go" {
		s.addWords(string(text))
		return nil
	}
	if path.Dir(file) != s.leftOut {
		s.scan(text)
	}
	return s.declare(file, text)
}

func (s *source) addWords(text string) {
	for _, w := range word.FindAllString(text, -1) {
		s.words[w] = true
	}
}

// scan adds the identifiers and strings of Go code. It skips comments, which may be as outdated as
// documents.
func (s *source) scan(text []byte) {
	for _, t := range tokens(string(text)) {
		switch t.kind {
		case token.IDENT:
			s.words[t.text] = true
		case token.STRING:
			s.addWords(t.text)
			s.literals[strings.Trim(t.text, "\"`")] = true
		}
	}
}

// lexeme is a token of Go.
type lexeme struct {
	kind token.Token
	text string
	line int
}

// tokens returns the tokens of Go text, which may be a fragment.
func tokens(text string) (list []lexeme) {
	var s scanner.Scanner
	set := token.NewFileSet()
	file := set.AddFile("", -1, len(text))
	s.Init(file, []byte(text), func(token.Position, string) {}, 0)
	for {
		at, sort, literal := s.Scan()
		if sort == token.EOF {
			return list
		}
		list = append(list, lexeme{sort, literal, file.Line(at)})
	}
}
