package cluster

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
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

// structsIn are the structs of a folder, with those of its tests or without.
func structsIn(t *testing.T, dir string, tests bool) structsOf {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	must(t, err)
	structs := structsOf{}
	for _, name := range names {
		if !tests && strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		must(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			if x, ok := n.(*ast.TypeSpec); ok {
				if fields, ok := x.Type.(*ast.StructType); ok {
					structs[x.Name.Name] = fields.Fields.List
				}
			}
			return true
		})
	}
	return structs
}

// structsOf are the fields of a package's structs.
type structsOf map[string][]*ast.Field

// eachField calls yield with each field of a struct, and those of the ones that are embedded.
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
