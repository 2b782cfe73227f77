package constants

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The structs of two files refer to each other and, within functions, to names of other files.
func TestReadOffsets(t *testing.T) {
	folder := t.TempDir()
	var paths []string
	for name, source := range map[string]string{
		"a.go": "package p\n\nimport \"example.com/absent\"\n\ntype outer struct {\n\tn " +
			"int\n\tinner\n\tlast bool\n\tpointer *plain\n\tother *absent.Type\n}\n\ntype plain int\n",
		"b.go": "package p\n\ntype inner struct {\n\tflag bool\n\tat uintptr\n\truns [count]struct{ " +
			"a, b int32 }\n}\n\nconst count = 3\n\n" +
			"type left struct{ x absent.Type }\n\ntype long struct{ x [alien]int }\n\nfunc f() { " +
			"elsewhere() }\n",
	} {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(source), 0o644); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	got, err := ReadOffsets(paths...)
	if err != nil {
		t.Fatal(err)
	}
	want := Offsets{"inner": 40, "inner.flag": 0, "inner.at": 8, "inner.runs": 16,
		"outer": 72, "outer.n": 0, "outer.inner": 8, "outer.last": 48, "outer.pointer": 56,
		"outer.other": 64}
	if !maps.Equal(got, want) {
		t.Errorf("ReadOffsets = %v, want %v", got, want)
	}
	if _, err := ReadOffsets(filepath.Join(folder, "c.go")); !os.IsNotExist(err) {
		t.Errorf("no file: error %v", err)
	}
}

// The structs of kernels of all packages are in one table, so their names must differ.
func TestKernelOffsets(t *testing.T) {
	got, err := KernelOffsets("../../..")
	if err != nil || got["PanelLayout.Keys"] != 0 || got["blockCall.a"] != 8 {
		t.Errorf("KernelOffsets = %v, %v", got, err)
	}
	folder := t.TempDir()
	if _, err := KernelOffsets(folder); !os.IsNotExist(err) {
		t.Errorf("no files: error %v", err)
	}
	for _, file := range kernelStructs {
		path := filepath.Join(folder, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("package p\n\ntype s struct{ x int }\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	_, err = KernelOffsets(folder)
	if err == nil || !strings.Contains(err.Error(), "a second struct s") {
		t.Errorf("a name twice: error %v", err)
	}
}

func TestGetOffset(t *testing.T) {
	o := Offsets{"s.first": 0}
	if x := o.Get("s.first"); x != 0 {
		t.Errorf("Get = %d, want 0", x)
	}
	defer func() {
		if message, _ := recover().(string); !strings.Contains(message, "s.second") {
			t.Errorf("a field that is not there: panic %q", message)
		}
	}()
	o.Get("s.second")
}
