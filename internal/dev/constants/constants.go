// Package constants reads numeric constants and the layout of structs from Go files, so that
// generators of assembly use the constants of the code that calls the kernels, and each is written
// once. It reads source text, not the compiled package: a generator has to run when the assembly
// that it writes does not build.
package constants

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"slices"
	"strconv"
	"strings"
)

// Values are the numeric constants of a file by name, including those within functions, as the
// compiler rounds them to float32.
type Values = values[float32]

// Wide are constants as the compiler rounds them to float64.
type Wide = values[float64]

type values[T float32 | float64] map[string]T

// Read evaluates the constants of files. A name that is in two of them is an error.
func Read(paths ...string) (Values, error) { return evaluate(constant.Float32Val, paths...) }

// ReadWide is Read for constants of float64, which may refer to those of other files.
func ReadWide(path string, others ...string) (Wide, error) {
	return evaluate(constant.Float64Val, append([]string{path}, others...)...)
}

func evaluate[T float32 | float64](value func(constant.Value) (T, bool),
	paths ...string) (values[T], error) {
	files, defs, err := definitions(paths...)
	if err != nil {
		return nil, err
	}
	all := values[T]{}
	for name, object := range defs {
		c, ok := object.(*types.Const)
		if !ok || c.Val().Kind() != constant.Int && c.Val().Kind() != constant.Float {
			continue
		}
		if _, twice := all[c.Name()]; twice {
			return nil, fmt.Errorf("%v: a second constant %s", files.Position(name.Pos()), c.Name())
		}
		all[c.Name()], _ = value(c.Val())
	}
	return all, nil
}

// definitions parses files and returns the objects that they define.
func definitions(paths ...string) (*token.FileSet, map[*ast.Ident]types.Object, error) {
	files := token.NewFileSet()
	var parsed []*ast.File
	for _, path := range paths {
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, nil, err
		}
		ast.Inspect(file, withoutTargets)
		parsed = append(parsed, file)
	}
	// Files do not type-check without imports and the rest of their package, but their constants and
	// structs do.
	lenient := types.Config{Error: func(error) {}}
	info := types.Info{Defs: map[*ast.Ident]types.Object{}}
	lenient.Check("", files, parsed, &info)
	return files, info.Defs, nil
}

// withoutTargets replaces the types of pointers by pointers to bytes: the targets may be types of
// other files, and all pointers have the same size.
func withoutTargets(n ast.Node) bool {
	if field, ok := n.(*ast.Field); ok {
		if pointer, ok := field.Type.(*ast.StarExpr); ok {
			pointer.X = &ast.Ident{NamePos: pointer.X.Pos(), Name: "byte"}
		}
	}
	return true
}

// Get returns the constant of a name. It panics if there is none, since no kernel can be written
// without it.
func (v values[T]) Get(name string) T {
	x, ok := v[name]
	if !ok {
		panic(fmt.Sprintf("constants: no numeric constant %s", name))
	}
	return x
}

// Polynomial returns the names of a polynomial's coefficients, the leading one first: expC6 down to
// expC2 for the prefix expC. Generators use it so that the degree, too, is written once. It panics
// if there are none, or if the numbers have a gap.
func (v values[T]) Polynomial(prefix string) []string {
	var degrees []int
	for name := range v {
		digits, ok := strings.CutPrefix(name, prefix)
		if n, err := strconv.Atoi(digits); ok && err == nil {
			degrees = append(degrees, n)
		}
	}
	slices.Sort(degrees)
	if len(degrees) == 0 || degrees[len(degrees)-1]-degrees[0] != len(degrees)-1 {
		panic(fmt.Sprintf("constants: coefficients %s of degrees %v", prefix, degrees))
	}
	slices.Reverse(degrees)
	var names []string
	for _, n := range degrees {
		names = append(names, prefix+strconv.Itoa(n))
	}
	return names
}
