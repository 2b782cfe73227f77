package views

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"path/filepath"
	"strings"
	"testing"
)

// An error gets the name of the first function that returns it, and keeps its kind.
func TestNameFunction(t *testing.T) {
	of := func(functions []string, err error) error {
		for _, f := range functions {
			NameFunction(f, &err)
		}
		return err
	}
	fault := Fail(ErrShape, "k.H is %d, want 2", 3)
	for _, c := range []struct {
		functions []string
		err       error
		text      string
	}{
		{nil, fault, "attn: shape mismatch: k.H is 3, want 2"},
		{[]string{"nn.Add"}, fault, "attn: shape mismatch: nn.Add: k.H is 3, want 2"},
		{[]string{"nn.Add", "nn.Other"}, fault, "attn: shape mismatch: nn.Add: k.H is 3, want 2"},
		{[]string{"nn.Add"}, fmt.Errorf("layer 1: %w", fault),
			"nn.Add: layer 1: attn: shape mismatch: k.H is 3, want 2"},
		{[]string{"nn.Load"}, io.ErrUnexpectedEOF, "nn.Load: unexpected EOF"},
	} {
		err := of(c.functions, c.err)
		if err.Error() != c.text {
			t.Errorf("the error is %q, want %q", err, c.text)
		}
		if !errors.Is(err, ErrShape) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%q is not of its kind", err)
		}
	}
	if err := of([]string{"nn.Add"}, nil); err != nil {
		t.Errorf("no error became %q", err)
	}
}

// Every public function of the packages next to attention that returns an error names itself in it.
func TestFunctionsNameThemselves(t *testing.T) {
	named := 0
	for _, pkg := range []string{"nn", "linattn"} {
		files, err := filepath.Glob("../../" + pkg + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range files {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range file.Decls {
				if f, ok := d.(*ast.FuncDecl); ok && returnsError(f) && ast.IsExported(f.Name.Name) {
					name := pkg + "." + receiver(f) + f.Name.Name
					if named++; firstStatement(f) != name {
						t.Errorf("%s does not begin with defer views.NameFunction(%q, &err)", name, name)
					}
				}
			}
		}
	}
	if named < 20 {
		t.Errorf("%d functions return errors, want 20 or more", named)
	}
}

func returnsError(f *ast.FuncDecl) bool {
	if f.Type.Results == nil {
		return false
	}
	list := f.Type.Results.List
	last, ok := list[len(list)-1].Type.(*ast.Ident)
	return ok && last.Name == "error"
}

// receiver returns the type of a method and a dot.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	of := f.Recv.List[0].Type
	if pointer, ok := of.(*ast.StarExpr); ok {
		of = pointer.X
	}
	return of.(*ast.Ident).Name + "."
}

// firstStatement returns the name that the first statement of a function gives to NameFunction.
func firstStatement(f *ast.FuncDecl) string {
	d, ok := f.Body.List[0].(*ast.DeferStmt)
	if !ok {
		return ""
	}
	if to, ok := d.Call.Fun.(*ast.SelectorExpr); !ok || to.Sel.Name != "NameFunction" {
		return ""
	}
	return strings.Trim(d.Call.Args[0].(*ast.BasicLit).Value, `"`)
}
