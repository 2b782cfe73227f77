// Package constants reads the numeric constants of a Go file, so that the
// generators of assembly use the numbers of the code that the kernels equal,
// and these are written once. It reads the text, not the package: a generator
// has to run while the assembly that it writes does not build.
package constants

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
)

// Values are the numeric constants of a file by name, those of functions
// included, as the compiler rounds them to float32.
type Values map[string]float32

// Read evaluates the constants of a file. A name that two of them share is an error.
func Read(path string) (Values, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	// Alone, without its package and imports, the file does not type-check. Its constants do.
	lenient := types.Config{Error: func(error) {}}
	info := types.Info{Defs: map[*ast.Ident]types.Object{}}
	lenient.Check(file.Name.Name, files, []*ast.File{file}, &info)
	values := Values{}
	for name, object := range info.Defs {
		c, ok := object.(*types.Const)
		if !ok || c.Val().Kind() != constant.Int && c.Val().Kind() != constant.Float {
			continue
		}
		if _, twice := values[c.Name()]; twice {
			return nil, fmt.Errorf("%v: a second constant %s", files.Position(name.Pos()), c.Name())
		}
		values[c.Name()], _ = constant.Float32Val(c.Val())
	}
	return values, nil
}

// Get returns the constant of a name and panics where there is none: no kernel
// can be written without it.
func (v Values) Get(name string) float32 {
	x, ok := v[name]
	if !ok {
		panic(fmt.Sprintf("constants: no numeric constant %s", name))
	}
	return x
}
