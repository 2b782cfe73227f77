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

// root is the repository, seen from this folder.
const root = "../../.."

// Every piece of Go code in the documents compiles, and those that say what they print print that.
// They are laid over the repository as packages that are not there.
func TestSnippets(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles for half a minute what is the same on every CPU")
	}
	documents, err := filepath.Glob(root + "/docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	documents = append(documents, root+"/README.md")
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	packages := map[string][]string{} // by the module that they are laid into
	outputs := map[string]Snippet{}
	dir := t.TempDir()
	for _, document := range documents {
		text, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		all, err := Find(string(text))
		if err != nil {
			t.Errorf("%s: %v", document, err)
		}
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
	list := filepath.Join(dir, "overlay.json")
	x, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(list, x, 0o666); err != nil {
		t.Fatal(err)
	}
	for module, names := range packages {
		slices.Sort(names) // a program that is alone would be left in the module's folder
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

// run runs the go command in a folder.
func run(t *testing.T, folder string, arguments ...string) {
	t.Helper()
	command := exec.Command("go", arguments...)
	command.Dir = folder
	if out, err := command.CombinedOutput(); err != nil {
		t.Errorf("go %s: %v\n%s", arguments[0], err, out)
	}
}

// A block that is no program needs a prelude with a place for it.
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
