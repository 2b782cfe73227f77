package generate

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const old = "the committed file\n"

// folderWithFile returns a path at which there is a file, alone in its folder.
func folderWithFile(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "kernel.s")
	if err := os.WriteFile(path, []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// alone fails unless the file has this text and is the only one in its folder.
func alone(t *testing.T, path, want string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("the file is %q, want %q", got, want)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 {
		t.Errorf("beside the file there is more: %v", entries)
	}
}

func TestCommand(t *testing.T) {
	files := map[string]File{
		"kernel.s": func() ([]byte, error) { return []byte("new\n"), nil },
		"broken.s": func() ([]byte, error) { return []byte("half"), errors.New("no more registers") },
	}
	path := folderWithFile(t)
	for _, c := range []struct {
		args   []string
		status int
		stderr string
	}{
		{nil, 2, "want -out and a file that is called broken.s or kernel.s"},
		{[]string{"-out", "other.s"}, 2, "want -out"},
		{[]string{"-out", path, "more"}, 2, "want -out"},
		{[]string{"-o", path}, 2, "-out file"},
		{[]string{"-out", filepath.Join(filepath.Dir(path), "no", "kernel.s")}, 1, "is unchanged: "},
	} {
		var stderr strings.Builder
		status := Command("gen", c.args, files, &stderr)
		if status != c.status || !strings.Contains(stderr.String(), c.stderr) {
			t.Errorf("%q: status %d, want %d, with %q in %q", c.args, status, c.status, c.stderr,
				stderr.String())
		}
		alone(t, path, old)
	}
	var stderr strings.Builder
	if status := Command("gen", []string{"-out", path}, files, &stderr); status != 0 ||
		stderr.Len() > 0 {
		t.Errorf("status %d: %s", status, stderr.String())
	}
	alone(t, path, "new\n")
}

// A generator that fails does not change the committed file.
func TestCommandThatFails(t *testing.T) {
	path := folderWithFile(t)
	file := func() ([]byte, error) { return []byte("half"), errors.New("no more registers") }
	var stderr strings.Builder
	status := Command("gen", []string{"-out", path}, map[string]File{"kernel.s": file}, &stderr)
	if status != 1 || !strings.Contains(stderr.String(), "kernel.s is unchanged: no more registers") {
		t.Errorf("status %d: %s", status, stderr.String())
	}
	alone(t, path, old)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		panics := func() ([]byte, error) { panic("no such constant") }
		Command("gen", []string{"-out", path}, map[string]File{"kernel.s": panics}, &stderr)
	}()
	alone(t, path, old)
}

// Renaming a file to the name of a folder fails.
func TestReplaceThatFails(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "folder")
	if err := os.MkdirAll(filepath.Join(folder, "full"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Replace(folder, []byte("new\n")); err == nil {
		t.Error("a folder was replaced")
	}
	entries, err := os.ReadDir(filepath.Dir(folder))
	if err != nil || len(entries) != 1 {
		t.Errorf("%v, %v, want the folder alone", entries, err)
	}
}

func TestReplaceMakesFileReadable(t *testing.T) {
	path := folderWithFile(t)
	if err := Replace(path, []byte("new\n")); err != nil {
		t.Fatal(err)
	}
	alone(t, path, "new\n")
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if mode := info.Mode().Perm(); mode&0o444 != 0o444 {
		t.Errorf("its mode is %v", mode)
	}
}

func TestCurrent(t *testing.T) {
	path := folderWithFile(t)
	if err := Current(path, []byte(old)); err != nil {
		t.Error(err)
	}
	for _, c := range []struct{ path, text, want string }{
		{path, old + "and more\n", "kernel.s is not what the generator writes, from line 2 on"},
		{path, "", "from line 1 on: run `go generate`"},
		{path + ".absent", old, "from line 1 on"},
	} {
		if err := Current(c.path, []byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.path, err, c.want)
		}
	}
	if err := Current(filepath.Dir(path), nil); err == nil {
		t.Error("a folder is current")
	}
}

// A name that is composed at run time is not found.
func TestGreppable(t *testing.T) {
	folder := t.TempDir()
	source := []byte("package main\n\nvar names = []string{\"dotSIMD\", \"dot\" + \"AVX512\"}\n")
	if err := os.WriteFile(filepath.Join(folder, "dot.go"), source, 0o644); err != nil {
		t.Fatal(err)
	}
	const one, two = "TEXT ·dotSIMD(SB), $0-8\n", "TEXT ·dotAVX512(SB), $0-8\n"
	if err := Greppable([]byte(one), folder); err != nil {
		t.Error(err)
	}
	err := Greppable([]byte(one+two), folder)
	if err == nil || !strings.HasSuffix(err.Error(), "does not spell out dotAVX512") {
		t.Errorf("the error is %v, want dotAVX512", err)
	}
}

func TestTwins(t *testing.T) {
	folder := t.TempDir()
	source := []byte("package attn\n\nfunc dotGeneric(a, b []float32) float32 { return 0 }\n" +
		"func turnGeneric[T any](x []T) {}\n")
	if err := os.WriteFile(filepath.Join(folder, "dot.go"), source, 0o644); err != nil {
		t.Fatal(err)
	}
	const (
		dot     = "// dotSIMD works like dotGeneric.\nTEXT ·dotSIMD(SB), $0-8\n"
		turn    = "// turnSIMD works like turnGeneric.\n// func turnSIMD()\nTEXT ·turnSIMD(SB), $0-0\n"
		silent  = "TEXT ·maxSIMD(SB), $0-8\n"
		unknown = "// expSIMD works like exp.\nTEXT ·expSIMD(SB), $0-8\n"
	)
	if err := Twins([]byte(dot+turn), folder); err != nil {
		t.Error(err)
	}
	err := Twins([]byte(dot+silent+unknown), folder)
	if want := `work like: maxSIMD (""), expSIMD ("exp")`; err == nil ||
		!strings.HasSuffix(err.Error(), want) {
		t.Errorf("the error is %v, want %s", err, want)
	}
	if err := Twins([]byte(dot), filepath.Join(folder, "none")); err == nil {
		t.Error("a folder without the function passes")
	}
}

// Lines become as long as allowed.
func TestJoin(t *testing.T) {
	line := "\t" + strings.Repeat("A", 48)
	text := strings.Join([]string{line, line, line, "\tRET", "end:", "\tA", "\tA", ""}, "\n")
	want := strings.Join([]string{line + "; " + line[1:], line, "\tRET", "end:", "\tA; A", ""}, "\n")
	got := Join([]byte(text), func(line, next string) bool {
		return strings.HasPrefix(line, "\tA") && strings.HasPrefix(next, "\tA")
	})
	if string(got) != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
