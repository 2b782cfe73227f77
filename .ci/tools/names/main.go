// Names fails where a local name hides an import of its file or a name of its package: whoever
// reads the line has to know which of the two is meant.
//
//	names ./...
//
// Tests and their names, and parameters of functions without a body, which assembly names, are left
// out.
package main

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/singlechecker"
)

func main() { singlechecker.Main(analyzer) }

var analyzer = &analysis.Analyzer{
	Name: "names",
	Doc:  "reports local names that hide an import or a name of the package",
	Run:  run,
}

func run(pass *analysis.Pass) (any, error) {
	for _, file := range pass.Files {
		if isTest(pass, file.Pos()) {
			continue
		}
		imports := pass.TypesInfo.Scopes[file]
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				name, ok := n.(*ast.Ident)
				if !ok {
					return true
				}
				if what := hidden(pass, imports, name); what != "" {
					pass.Reportf(name.Pos(), "%s hides %s", name.Name, what)
				}
				return true
			})
		}
	}
	return nil, nil
}

// hidden is what a name that is declared here hides, or empty.
func hidden(pass *analysis.Pass, imports *types.Scope, name *ast.Ident) string {
	local := pass.TypesInfo.Defs[name]
	if local == nil || local.Parent() == nil || local.Parent() == pass.Pkg.Scope() {
		return "" // no definition; a field, a method or a label; a name of the package
	}
	if imports.Lookup(name.Name) != nil {
		return "an import"
	}
	if o := pass.Pkg.Scope().Lookup(name.Name); o != nil && !isTest(pass, o.Pos()) {
		return "a name of the package"
	}
	return ""
}

// isTest reports whether a place is in a file of tests.
func isTest(pass *analysis.Pass, at token.Pos) bool {
	return strings.HasSuffix(pass.Fset.Position(at).Filename, "_test.go")
}
