package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

const module = "github.com/seed-1415985d/attn"

// enter is a file of a package that stands between its functions and what records them.
const enter = `package %s

import "%s/internal/dev/calltrace/record"

func calltraceEnter(function int) { record.Enter(function) }
`

// names is a file of package attn that says which functions there are.
const names = `package attn

import "%s/internal/dev/calltrace/record"

func init() { record.Functions = %#v }
`

// runInstrumented runs this command again, with instruments in package attn.
func runInstrumented(out io.Writer, arguments ...string) error {
	temporary, err := os.MkdirTemp("", "calltrace")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temporary)
	files, err := instrument()
	if err != nil {
		return err
	}
	replace := map[string]string{}
	for file, text := range files {
		replace[file] = filepath.Join(temporary, fmt.Sprint(len(replace), filepath.Base(file)))
		if err := os.WriteFile(replace[file], text, 0o666); err != nil {
			return err
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	name := filepath.Join(temporary, "overlay.json")
	if err := os.WriteFile(name, overlay, 0o666); err != nil {
		return err
	}
	again := exec.Command("go", append([]string{"run", "-overlay", name,
		module + "/internal/dev/calltrace"}, arguments...)...)
	again.Stdout, again.Stderr = out, os.Stderr
	return again.Run()
}

// instrument returns the files, with instruments, of package attn and of those below it, and a few
// more.
func instrument() (files map[string][]byte, err error) {
	list := exec.Command("go", "list", "-deps", "-json=ImportPath,Name,Dir,GoFiles", module)
	list.Stderr = os.Stderr
	listed, err := list.Output()
	if err != nil {
		return nil, err
	}
	var functions []string
	files = map[string][]byte{}
	for each := json.NewDecoder(bytes.NewReader(listed)); ; {
		var p struct {
			ImportPath, Name, Dir string
			GoFiles               []string
		}
		if err := each.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			return nil, err
		}
		below, ours := strings.CutPrefix(p.ImportPath, module)
		if !ours {
			continue
		}
		for _, name := range p.GoFiles {
			text, err := os.ReadFile(filepath.Join(p.Dir, name))
			if err != nil {
				return nil, err
			}
			from := strings.TrimPrefix(path.Join(below, name), "/")
			text, err = instrumented(from, text, &functions)
			if err != nil {
				return nil, err
			}
			files[filepath.Join(p.Dir, name)] = text
		}
		files[filepath.Join(p.Dir, "calltrace_enter.go")] = fmt.Appendf(nil, enter, p.Name, module)
		if p.ImportPath == module {
			files[filepath.Join(p.Dir, "calltrace_names.go")] = fmt.Appendf(nil, names, module, functions)
		}
	}
	return files, nil
}

// instrumented returns a file whose functions first report that they were entered, and adds these
// to functions.
func instrumented(name string, text []byte, functions *[]string) ([]byte, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, d := range slices.Backward(file.Decls) { // from the end, so that offsets stay
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		at := fset.Position(f.Body.Lbrace).Offset + 1
		text = slices.Insert(text, at, fmt.Appendf(nil, " calltraceEnter(%d);", len(*functions))...)
		of := ""
		if f.Recv != nil {
			of = types.ExprString(f.Recv.List[0].Type) + "."
		}
		*functions = append(*functions, name+" "+of+f.Name.Name)
	}
	return text, nil
}
