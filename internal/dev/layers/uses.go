package layers

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// A Use is a place where a file refers to a name that another file of its package declares. A
// method or a field belongs to the file in which it is written, wherever its type is.
type Use struct {
	From string
	Line int
	Name string
	To   string
}

// A Reader finds uses in packages. It keeps their imports, compiled for this machine, which are the
// same for each build.
type Reader struct {
	fset    *token.FileSet
	imports types.Importer
	exports map[string]string // files with the exported data of packages, by path
}

// NewReader returns a reader that knows no package yet.
func NewReader() *Reader {
	r := &Reader{fset: token.NewFileSet(), exports: map[string]string{}}
	r.imports = importer.ForCompiler(r.fset, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(r.exports[path])
	})
	return r
}

// know compiles the imports, and all that they import, unless the build cache has them.
func (r *Reader) know(imports []string) error {
	imports = slices.DeleteFunc(slices.Clone(imports), func(path string) bool {
		return r.exports[path] != "" || path == "unsafe"
	})
	if len(imports) == 0 {
		return nil
	}
	list := exec.Command("go", append([]string{"list", "-export", "-deps", "-f",
		"{{.ImportPath}} {{.Export}}"}, imports...)...)
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		return fmt.Errorf("go list -export: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		if path, file, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			r.exports[path] = file
		}
	}
	return nil
}

// Build returns the Go files of the package in a folder, as built for Linux with a tag, and their
// uses.
func (r *Reader) Build(folder, arch, tag string) (files []string, uses []Use, err error) {
	context := build.Default
	context.GOOS, context.GOARCH, context.BuildTags, context.CgoEnabled = "linux", arch, []string{tag},
		false
	pkg, err := context.ImportDir(folder, 0)
	if err != nil {
		return nil, nil, err
	}
	if err := r.know(pkg.Imports); err != nil {
		return nil, nil, err
	}
	var parsed []*ast.File
	for _, name := range pkg.GoFiles {
		file, err := parser.ParseFile(r.fset, filepath.Join(folder, name), nil,
			parser.SkipObjectResolution)
		if err != nil {
			return nil, nil, err
		}
		parsed = append(parsed, file)
	}
	uses, err = r.uses(parsed)
	return pkg.GoFiles, uses, err
}

// uses type-checks a package, because only types tell whose field or method a name is, and which
// names are local. Names that another file can refer to are never local, so the kinds of names need
// no check.
func (r *Reader) uses(files []*ast.File) (uses []Use, err error) {
	info := types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: r.imports}
	pkg, err := config.Check("attn", r.fset, files, &info)
	if err != nil {
		return nil, err
	}
	for id, object := range info.Uses {
		at, declared := r.fset.Position(id.Pos()), r.fset.Position(object.Pos())
		if object.Pkg() == pkg && at.Filename != declared.Filename {
			uses = append(uses, Use{filepath.Base(at.Filename), at.Line, object.Name(),
				filepath.Base(declared.Filename)})
		}
	}
	slices.SortFunc(uses, func(a, b Use) int {
		return cmp.Or(cmp.Compare(a.From, b.From), a.Line-b.Line, cmp.Compare(a.Name, b.Name))
	})
	return uses, nil
}
