package constants

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func read(t *testing.T, source string) (Values, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file.go")
	if err := os.WriteFile(path, []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	return Read(path)
}

// The file uses imports and names of other files, as real files do.
func TestRead(t *testing.T) {
	got, err := read(t, `package p

import "example.com/absent"

const (
	whole = 3
	exact = -0x1.8p-2
	sum   = 0x1.8p+23 + whole
	tenth = 0.1
	typed float64 = 2
	text  = "no number"
	other = absent.Number
	alien = elsewhere
)

var variable = 1.5

func f(x float32) float32 {
	const local = 4
	return absent.Call(x, elsewhere) + local
}
`)
	if err != nil {
		t.Fatal(err)
	}
	want := Values{"whole": 3, "exact": -0.375, "sum": 12582915, "tenth": 0.1, "typed": 2, "local": 4}
	if !maps.Equal(got, want) {
		t.Errorf("Read = %v, want %v", got, want)
	}
}

// Constants of float64 may refer to those of another file.
func TestReadWide(t *testing.T) {
	folder := t.TempDir()
	paths := []string{filepath.Join(folder, "a.go"), filepath.Join(folder, "b.go")}
	for i, source := range []string{"package p\nconst third = one / 3\n",
		"package p\nconst one = 1.0\n"} {
		if err := os.WriteFile(paths[i], []byte(source), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := ReadWide(paths[0], paths[1])
	if err != nil {
		t.Fatal(err)
	}
	if want := (Wide{"third": 1. / 3, "one": 1}); !maps.Equal(got, want) {
		t.Errorf("ReadWide = %v, want %v", got, want)
	}
	if _, err := ReadWide(filepath.Join(folder, "absent.go")); !os.IsNotExist(err) {
		t.Errorf("the error is %v", err)
	}
}

func TestReadErrors(t *testing.T) {
	for _, c := range []struct{ name, source, want string }{
		{"syntax", "package p\nconst x = = 1\n", "file.go:2:11"},
		{"a name twice", "package p\nconst x = 1\nfunc f() { const x = 2 }\n", "a second constant x"},
	} {
		if _, err := read(t, c.source); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
	}
	if _, err := Read(filepath.Join(t.TempDir(), "absent.go")); !os.IsNotExist(err) {
		t.Errorf("no file: error %v", err)
	}
}

func TestGet(t *testing.T) {
	v := Values{"zero": 0}
	if x := v.Get("zero"); x != 0 {
		t.Errorf("Get = %v, want 0", x)
	}
	defer func() {
		if message, _ := recover().(string); !strings.Contains(message, "one") {
			t.Errorf("a name that is not there: panic %q", message)
		}
	}()
	v.Get("one")
}

func TestPolynomial(t *testing.T) {
	v := Values{"expC3": 3, "expC2": 2, "expCount": 7, "exp2C0": 0, "gapC0": 0, "gapC2": 2}
	for i := range 11 {
		v[fmt.Sprintf("longC%d", i)] = float32(i)
	}
	for prefix, want := range map[string]string{
		"expC":  "expC3 expC2",
		"exp2C": "exp2C0",
		"longC": "longC10 longC9 longC8 longC7 longC6 longC5 longC4 longC3 longC2 longC1 longC0",
	} {
		if got := strings.Join(v.Polynomial(prefix), " "); got != want {
			t.Errorf("%s: %s, want %s", prefix, got, want)
		}
	}
	for _, prefix := range []string{"gapC", "absentC"} {
		func() {
			defer func() {
				if message, _ := recover().(string); !strings.Contains(message, prefix) {
					t.Errorf("%s: panic %q", prefix, message)
				}
			}()
			v.Polynomial(prefix)
		}()
	}
}
