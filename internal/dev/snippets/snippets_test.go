package snippets

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// root is the path of the repository from this folder.
const root = "../../.."

// All Go code in the documents compiles, and code with an output prints it. The programs are
// overlaid on the repository as additional packages.
func TestSnippets(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles for half a minute what is the same on every CPU")
	}
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	packages := map[string][]string{} // by the module that contains them
	outputs := map[string]Snippet{}
	dir := t.TempDir()
	for document, all := range documents(t) {
		for _, s := range all {
			module := root
			if strings.Contains(s.Program, "attn/cluster") {
				module += "/cluster"
			}
			name := fmt.Sprintf("snippet_%s_%d", strings.TrimSuffix(filepath.Base(document), ".md"), s.Line)
			file := filepath.Join(dir, name+".go")
			if err := os.WriteFile(file, []byte(s.Program), 0o666); err != nil {
				t.Fatal(err)
			}
			at, err := filepath.Abs(filepath.Join(module, name))
			if err != nil {
				t.Fatal(err)
			}
			overlay.Replace[filepath.Join(at, "main.go")] = file
			packages[module] = append(packages[module], "./"+name)
			if s.Output != "" {
				outputs[at] = s
			}
		}
	}
	if len(overlay.Replace) < 15 || len(outputs) < 2 {
		t.Fatalf("%d snippets and %d outputs are found, want those of README and adopting.md at least",
			len(overlay.Replace), len(outputs))
	}
	list := writeJSON(t, filepath.Join(dir, "overlay.json"), overlay)
	for module, names := range packages {
		slices.Sort(names) // a single program would be left in the module's folder
		run(t, module, append([]string{"build", "-overlay", list, "-o", os.DevNull}, names...)...)
	}
	for at, s := range outputs {
		program := filepath.Join(dir, "program")
		run(t, filepath.Dir(at), "build", "-overlay", list, "-o", program, "./"+filepath.Base(at))
		got, err := exec.Command(program).Output()
		if err != nil || string(got) != s.Output {
			t.Errorf("%s prints %q, error %v, want %q", filepath.Base(at), got, err, s.Output)
		}
	}
}

// documents returns the snippets of each document.
func documents(t *testing.T) map[string][]Snippet {
	t.Helper()
	names, err := filepath.Glob(root + "/docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]Snippet{}
	for _, name := range append(names, root+"/README.md") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if all[name], err = Find(string(text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	return all
}

// No code in documents continues after an error: a layer that does has changed the input of the
// next attempt.
func TestSnippetsStopAtErrors(t *testing.T) {
	check := func(name, program string) {
		faults, err := GoesOn(name, program)
		if err != nil {
			t.Error(err)
		}
		for _, fault := range faults {
			t.Error(fault)
		}
	}
	for document, all := range documents(t) {
		for _, s := range all {
			check(fmt.Sprintf("%s, the snippet of line %d", document, s.Line), s.Program)
		}
	}
	var examples []string
	for _, pattern := range []string{"/example*_test.go", "/*/example*_test.go",
		"/*/*/example*_test.go", "/examples/*/*.go"} {
		found, err := filepath.Glob(root + pattern)
		if err != nil {
			t.Fatal(err)
		}
		examples = append(examples, found...)
	}
	if len(examples) < 10 {
		t.Errorf("%d files with examples are found, want 10 or more", len(examples))
	}
	for _, name := range examples {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		check(name, string(text))
	}
}

// The layer of docs/adopting.md computes the same residuals over a cache that has to grow.
func TestLayer(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles what is the same on every CPU")
	}
	dir := t.TempDir()
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	at, err := filepath.Abs(root + "/snippet_layer")
	if err != nil {
		t.Fatal(err)
	}
	add := func(name, text string) {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		overlay.Replace[filepath.Join(at, name)] = file
	}
	for _, s := range documents(t)[root+"/docs/adopting.md"] {
		for _, part := range []string{"type layer struct", "func reserve("} {
			if strings.Contains(s.Program, part) {
				add(fmt.Sprintf("part%d.go", s.Line), strings.Replace(s.Program, "func main() {}", "", 1))
			}
		}
	}
	main, err := os.ReadFile("testdata/layer.go")
	if err != nil {
		t.Fatal(err)
	}
	add("main.go", string(main))
	if len(overlay.Replace) != 3 {
		t.Fatalf("%d parts of the program are found, want 3", len(overlay.Replace))
	}
	list := writeJSON(t, filepath.Join(dir, "overlay.json"), overlay)
	program := filepath.Join(dir, "program")
	run(t, root, "build", "-overlay", list, "-o", program, "./snippet_layer")
	got, err := exec.Command(program).CombinedOutput()
	if err != nil || string(got) != "true\n" {
		t.Errorf("the residuals are the same: %s, error %v, want true", got, err)
	}
}

// writeJSON writes a file and returns its name.
func writeJSON(t *testing.T, name string, x any) string {
	t.Helper()
	text, err := json.Marshal(x)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, text, 0o666); err != nil {
		t.Fatal(err)
	}
	return name
}

// run runs the go command in a folder.
func run(t *testing.T, folder string, arguments ...string) {
	t.Helper()
	command := exec.Command("go", arguments...)
	command.Dir = folder
	if out, err := command.CombinedOutput(); err != nil {
		t.Errorf("go %s: %v\n%s", arguments[0], err, out)
	}
}

// A block that is not a program needs a prelude with a place for it.
func TestFind(t *testing.T) {
	const program = "```go\npackage main\n\nfunc main() {\n\tprintln()\n\t// Output: 1\n\t// 2\n}\n```\n"
	const part = "<!-- prelude\nfunc f() (err error) {\n\t/* snippet */\n\treturn err\n}\n-->\n" +
		"```go\nerr = errors.New(\"x\")\n```\n"
	all, err := Find("text\n" + program + part + "```sh\nls\n```\n")
	if err != nil || len(all) != 2 || all[0].Output != "1\n2\n" || all[0].Line != 3 ||
		!strings.Contains(all[1].Program, "import (\n\t\"errors\"\n)") ||
		!strings.Contains(all[1].Program, "\terr = errors.New(\"x\")\n\treturn err\n") {
		t.Errorf("the snippets are %+v, error %v", all, err)
	}
	for _, bad := range []string{"```go\nx := 1\n```\n", strings.Replace(part, "*/ snippet", "", 1) + "```go\ny\n```"} {
		if _, err := Find(bad); err == nil {
			t.Errorf("no error for %q", bad)
		}
	}
}

// An error that is not checked before the next call is found, in whatever form it is kept.
func TestGoesOn(t *testing.T) {
	const frame = "package p\n\nfunc f() {\n\t%s\n}\n"
	for body, want := range map[string]int{
		"err := errors.Join(a(), b())":                           1,
		"err := errors.Join(one, two)":                           0,
		"for _, err := range []error{a(), b()} {\n}":             1,
		"for _, err := range [...]error{a(), b()} {\n}":          1,
		"x, err := a()\n\ty, err := b()":                         1,
		"x, err := a()\n\terr = b(err)":                          0,
		"x, err := a()\n\tif err != nil {\n\t}\n\ty, err := b()": 0,
		"_ = done(a()) && done(b())":                             0,
	} {
		faults, err := GoesOn("f.go", fmt.Sprintf(frame, body))
		if err != nil || len(faults) != want {
			t.Errorf("%s: faults %q, error %v, want %d faults", body, faults, err, want)
		}
	}
	if _, err := GoesOn("f.go", "package"); err == nil {
		t.Error("no error for what is no program")
	}
}
