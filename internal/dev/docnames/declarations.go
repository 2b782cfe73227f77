package docnames

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
)

// declarations are the declarations of Go files. Types and packages with the same name count as
// one.
type declarations struct {
	packages map[string]names    // what a package declares
	members  map[string]names    // fields and methods of a type
	parents  map[string][]string // types all of whose members a type has
	tests    names               // functions of tests
}

func newDeclarations() declarations {
	return declarations{map[string]names{}, map[string]names{}, map[string][]string{}, names{}}
}

func add(sets map[string]names, of, name string) {
	if sets[of] == nil {
		sets[of] = names{}
	}
	sets[of][name] = true
}

// isType reports whether there is such a type.
func (d *declarations) isType(name string) bool {
	return d.members[name] != nil || d.parents[name] != nil
}

// has reports whether a type has a field or method.
func (d *declarations) has(of, name string) bool {
	if d.members[of][name] {
		return true
	}
	for _, parent := range d.parents[of] {
		if parent != of && d.has(parent, name) {
			return true
		}
	}
	return false
}

// declare adds the declarations of a file.
func (d *declarations) declare(file string, text []byte) error {
	tree, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	in := tree.Name.Name
	for _, decl := range tree.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			switch {
			case decl.Recv != nil:
				add(d.members, typeName(decl.Recv.List[0].Type), decl.Name.Name)
			case strings.HasSuffix(file, "_test.go"):
				d.tests[decl.Name.Name] = true
			default:
				add(d.packages, in, decl.Name.Name)
			}
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				d.declareSpec(in, spec)
			}
		}
	}
	return nil
}

func (d *declarations) declareSpec(in string, spec ast.Spec) {
	switch spec := spec.(type) {
	case *ast.ValueSpec:
		for _, name := range spec.Names {
			add(d.packages, in, name.Name)
		}
	case *ast.TypeSpec:
		add(d.packages, in, spec.Name.Name)
		d.declareType(spec.Name.Name, spec.Type)
	}
}

// declareType adds the fields of a struct, the methods of an interface, or the type by which a type
// is defined.
func (d *declarations) declareType(name string, definition ast.Expr) {
	var fields *ast.FieldList
	switch t := definition.(type) {
	case *ast.StructType:
		fields = t.Fields
	case *ast.InterfaceType:
		fields = t.Methods
	default:
		d.parents[name] = append(d.parents[name], typeName(definition))
		return
	}
	for _, field := range fields.List {
		for _, n := range field.Names {
			add(d.members, name, n.Name)
		}
		if parent := typeName(field.Type); field.Names == nil {
			add(d.members, name, parent)
			d.parents[name] = append(d.parents[name], parent)
		}
	}
	if d.members[name] == nil {
		d.members[name] = names{}
	}
}

// typeName returns the name of a type without pointers, packages and parameters; "" if it has none.
func typeName(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.Ident:
		return t.Name
	case *ast.StarExpr:
		return typeName(t.X)
	case *ast.SelectorExpr:
		return t.Sel.Name
	case *ast.IndexExpr:
		return typeName(t.X)
	case *ast.IndexListExpr:
		return typeName(t.X)
	}
	return ""
}
