package snippets

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
)

// GoesOn returns the places where Go code continues after an unchecked error, which readers would
// copy: calls whose errors are collected and checked together, and an err that the next statement
// assigns again.
func GoesOn(name, program string) (faults []string, err error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, program, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if isName(n.Fun, "errors", "Join") && calls(n.Args) > 1 {
				faults = append(faults, fmt.Sprintf("%v: errors.Join of calls", files.Position(n.Pos())))
			}
		case *ast.CompositeLit:
			list, ok := n.Type.(*ast.ArrayType)
			if ok && isName(list.Elt, "", "error") && calls(n.Elts) > 1 {
				faults = append(faults, fmt.Sprintf("%v: a list of calls' errors", files.Position(n.Pos())))
			}
		case *ast.BlockStmt:
			for i := range n.List[:max(0, len(n.List)-1)] {
				if assigns(n.List[i]) && assigns(n.List[i+1]) {
					faults = append(faults, fmt.Sprintf("%v: err of the line before is not looked at",
						files.Position(n.List[i+1].Pos())))
				}
			}
		}
		return true
	})
	return faults, nil
}

// isName reports whether an expression is a name, in package pkg unless that is empty.
func isName(x ast.Expr, pkg, name string) bool {
	if s, ok := x.(*ast.SelectorExpr); ok {
		return pkg != "" && s.Sel.Name == name && isName(s.X, "", pkg)
	}
	identifier, ok := x.(*ast.Ident)
	return ok && pkg == "" && identifier.Name == name
}

func calls(list []ast.Expr) (n int) {
	for _, x := range list {
		if _, ok := x.(*ast.CallExpr); ok {
			n++
		}
	}
	return n
}

// assigns reports whether a statement sets err by a call that does not get err.
func assigns(s ast.Stmt) bool {
	a, ok := s.(*ast.AssignStmt)
	if !ok || !isName(a.Lhs[len(a.Lhs)-1], "", "err") {
		return false
	}
	call, ok := a.Rhs[0].(*ast.CallExpr)
	return ok && !gets(call, "err")
}

// gets reports whether a name is among a call's arguments.
func gets(call *ast.CallExpr, name string) bool {
	for _, x := range call.Args {
		if isName(x, "", name) {
			return true
		}
	}
	return false
}
