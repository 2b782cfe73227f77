// Package foldertest changes folders of models for tests.
package foldertest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// EachObject visits the objects in a decoded JSON value with their places as errors name them.
func EachObject(value any, visit func(at string, object map[string]any)) {
	eachObject(value, "", visit)
}

func eachObject(value any, at string, visit func(at string, object map[string]any)) {
	switch v := value.(type) {
	case map[string]any:
		visit(at, v)
		for key, inner := range v {
			eachObject(inner, strings.TrimPrefix(at+"."+key, "."), visit)
		}
	case []any:
		for i, inner := range v {
			eachObject(inner, fmt.Sprintf("%s[%d]", at, i), visit)
		}
	}
}

// UnknownKeys adds an unknown key to each object of a folder's JSON file, one after another, except
// to objects that may have any keys. Reading the folder must fail with an error that names file,
// key and value. It returns how many objects it changed.
func UnknownKeys(t *testing.T, path string, free func(at string) bool, read func() error) int {
	t.Helper()
	const key, value = "unheard_of", "ünheard"
	original, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all any
	if err := json.Unmarshal(original, &all); err != nil {
		t.Fatal(err)
	}
	if err := read(); err != nil {
		t.Fatalf("%s as it is: %v", path, err)
	}
	changed := 0
	EachObject(all, func(at string, object map[string]any) {
		if free(at) {
			return
		}
		changed++
		object[key] = value
		text, _ := json.Marshal(all) // cannot fail
		delete(object, key)
		if err := os.WriteFile(path, text, 0o666); err != nil {
			t.Fatal(err)
		}
		err := read()
		for _, want := range []string{filepath.Base(path), key, value} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s with a key at %q: the error is %v, want it to say %q", path, at, err, want)
			}
		}
	})
	if err := os.WriteFile(path, original, 0o666); err != nil {
		t.Fatal(err)
	}
	return changed
}
