package cluster

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// No field hides one of a struct that is embedded: a name means one thing wherever it stands.
func TestNoHiddenFields(t *testing.T) {
	for _, dir := range []string{".", "attn-cluster", "embedded"} {
		structs := structsIn(t, dir, true)
		if len(structs) == 0 {
			t.Errorf("%s has no structs", dir)
		}
		for name := range structs {
			from := map[string]string{}
			structs.eachField(name, name, func(field, owner string) {
				if other, ok := from[field]; ok {
					t.Errorf("%s: %s has the field %s of %s and of %s", dir, name, field, other, owner)
				}
				from[field] = owner
			})
		}
	}
}

// Each lock has its place in the order of locks.
func TestLocksHaveAnOrder(t *testing.T) {
	text, err := os.ReadFile("gate.go")
	must(t, err)
	order, _, _ := strings.Cut(string(text), "Gates and channels are held")
	for name, fields := range structsIn(t, ".", false) {
		for _, field := range fields {
			switch kind := strings.TrimPrefix(types.ExprString(field.Type), "[]"); kind {
			case "sync.Mutex", "sync.RWMutex", "gate":
				lock := name + "." + field.Names[0].Name
				if !regexp.MustCompile(`\b` + regexp.QuoteMeta(lock) + `\b`).MatchString(order) {
					t.Errorf("%s, a %s, is not in the order of locks in gate.go", lock, kind)
				}
			}
		}
	}
}

// endless are the sends and receives that stand alone. The others are in selects that end.
var endless = map[string]string{
	"a.threads <-": "is held while something is computed, which ends by itself",
	"b.landed <-":  "has room for all", "w.displaced <-": "has room for all",
	"<-a.threads": "gives back", "<-p.moving": "gives back", "<-c.moves": "gives back",
	"<-p.copying": "gives back", "<-w.copying": "gives back", "<-w.running": "gives back",
	"<-c.idle": "gives back", "<-l.turn": "gives back",
}

// ending is what ends a select: a context, a timer, what it belongs to, or that it does not wait.
var ending = regexp.MustCompile(`Done\(\)$|^<-time\.After\(|\.C$|\.stop$|^default$`)

// Every wait for another goroutine or a worker has an end.
func TestEveryWaitEnds(t *testing.T) {
	met := map[string]bool{}
	eachFile(t, ".", false, func(name string, file *ast.File) {
		inSelect := map[ast.Node]bool{}
		ast.Inspect(file, func(n ast.Node) bool {
			if x, ok := n.(*ast.SelectStmt); ok {
				if cases := casesOf(x, inSelect); !slices.ContainsFunc(cases, ending.MatchString) {
					t.Errorf("%s: a select of %q has no end", name, cases)
				}
			}
			if text := wait(n); text != "" && !inSelect[n] {
				if met[text] = true; endless[text] == "" {
					t.Errorf("%s: %s waits without an end", name, text)
				}
			}
			return true
		})
	})
	for text := range endless {
		if !met[text] {
			t.Errorf("%s is nowhere", text)
		}
	}
}

// casesOf are what a select waits for, which is noted.
func casesOf(s *ast.SelectStmt, noted map[ast.Node]bool) (cases []string) {
	for _, x := range s.Body.List {
		comm := x.(*ast.CommClause).Comm
		if comm == nil {
			cases = append(cases, "default")
			continue
		}
		ast.Inspect(comm, func(n ast.Node) bool {
			if text := wait(n); text != "" {
				cases, noted[n] = append(cases, text), true
			}
			return true
		})
	}
	return cases
}

// wait is a send or a receive, empty for anything else.
func wait(n ast.Node) string {
	switch x := n.(type) {
	case *ast.SendStmt:
		return types.ExprString(x.Chan) + " <-"
	case *ast.UnaryExpr:
		if x.Op == token.ARROW {
			return types.ExprString(x)
		}
	}
	return ""
}

// structsIn returns the structs of a folder, with or without those in its tests.
func structsIn(t *testing.T, dir string, tests bool) structsOf {
	t.Helper()
	structs := structsOf{}
	eachFile(t, dir, tests, func(_ string, file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			if x, ok := n.(*ast.TypeSpec); ok {
				if fields, ok := x.Type.(*ast.StructType); ok {
					structs[x.Name.Name] = fields.Fields.List
				}
			}
			return true
		})
	})
	return structs
}

// eachFile parses the files of a folder, with its tests or without.
func eachFile(t *testing.T, dir string, tests bool, f func(name string, file *ast.File)) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	must(t, err)
	for _, name := range names {
		if !tests && strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		must(t, err)
		f(name, file)
	}
}

// structsOf are the fields of a package's structs.
type structsOf map[string][]*ast.Field

// eachField calls yield with each field of a struct, including fields of embedded structs.
func (s structsOf) eachField(name, owner string, yield func(field, owner string)) {
	for _, field := range s[name] {
		for _, x := range field.Names {
			yield(x.Name, owner)
		}
		if len(field.Names) > 0 {
			continue
		}
		embedded := field.Type
		if pointer, ok := embedded.(*ast.StarExpr); ok {
			embedded = pointer.X
		}
		switch x := embedded.(type) {
		case *ast.Ident:
			yield(x.Name, owner)
			s.eachField(x.Name, x.Name, yield)
		case *ast.SelectorExpr:
			yield(x.Sel.Name, owner)
		}
	}
}
