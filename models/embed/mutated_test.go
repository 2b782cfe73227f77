package embed

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/nlpodyssey/safetensors"
)

// mutatedFolders writes a folder of each kind: of texts, of pictures, with labels.
func mutatedFolders(t *testing.T) (paths []string) {
	for _, k := range kindTests() {
		path, _ := writeKind(t, &k, safetensors.F32)
		paths = append(paths, path)
		if slices.Contains([]string{"bert", "distilbert", "modernbert", "deberta-v2"}, k.kind) {
			path, _ = writeLabels(t, &k, map[string]any{"0": "O", "1": "B-x", "2": "I-x"})
			paths = append(paths, path)
		}
	}
	for _, c := range imageTests() {
		paths = append(paths, writeImagesPath(t, c))
	}
	return paths
}

// mutants are values that replace a value of a config.
var mutants = []string{"null", "true", "false", "-1", "0", "1", "2", "3", "7", "31", "1048576",
	"2147483647", "2147483648", "1099511627776", "-4611686018427387904", "0.5", "-0.0", "1e-300",
	"1e300", `""`, `"x"`, `"gelu"`, `"7"`, "[]", "[1, -1]", `["x"]`, "[null]", "{}", `{"0": 1}`,
	`{"shortest_edge": 16384}`}

// mutate changes one value of a config, at any depth: it is replaced, removed, or copied to
// the key of another value.
func mutate(r *rand.Rand, x any) any {
	switch x := x.(type) {
	case map[string]any:
		keys := make([]string, 0, len(x))
		for key := range x {
			keys = append(keys, key)
		}
		if len(keys) == 0 || r.IntN(8) == 0 {
			break
		}
		slices.Sort(keys)
		key := keys[r.IntN(len(keys))]
		switch r.IntN(8) {
		case 0:
			delete(x, key)
		case 1:
			x[keys[r.IntN(len(keys))]] = x[key]
		default:
			x[key] = mutate(r, x[key])
		}
		return x
	case []any:
		if len(x) == 0 || r.IntN(4) == 0 {
			break
		}
		i := r.IntN(len(x))
		x[i] = mutate(r, x[i])
		return x
	}
	return json.RawMessage(mutants[r.IntN(len(mutants))])
}

// mutated returns the text of a config with one to three changes of values, or of bytes.
func mutated(t *testing.T, r *rand.Rand, text []byte) []byte {
	if r.IntN(5) == 0 {
		text = bytes.Clone(text)
		for range 1 + r.IntN(3) {
			text[r.IntN(len(text))] = " \x00\"{}[],:-0123456789eE.truefalsn"[r.IntN(31)]
		}
		return text
	}
	var config any
	if err := json.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	for range 1 + r.IntN(3) {
		config = mutate(r, config)
	}
	return encode(t, config)
}

// Folders with any changes of their configs are refused, or load and compute: no change makes Open
// or a call panic. ATTN_TEST_FULL has 10 000 of them.
func TestMutatedConfigs(t *testing.T) {
	r, folders, each := rand.New(rand.NewPCG(69, 1)), mutatedFolders(t), 12
	if os.Getenv("ATTN_TEST_FULL") != "" {
		each = (10_000 + len(folders) - 1) / len(folders)
	}
	pictures, loaded, all := somePictures(t)[:2], 0, 0
	for _, folder := range folders {
		files, err := filepath.Glob(filepath.Join(folder, "*.json"))
		more, moreErr := filepath.Glob(filepath.Join(folder, "*", "*.json"))
		if err = errors.Join(err, moreErr); err != nil {
			t.Fatal(err)
		}
		files = append(files, more...)
		for range each {
			file := files[r.IntN(len(files))]
			if r.IntN(2) == 0 {
				file = filepath.Join(folder, configJSON)
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			changed := mutated(t, r, text)
			if err := os.WriteFile(file, changed, 0o600); err != nil {
				t.Fatal(err)
			}
			if tryFolder(t, fmt.Sprintf("%s: %s", filepath.Base(file), changed), folder, pictures) {
				loaded++
			}
			if all++; os.WriteFile(file, text, 0o600) != nil {
				t.Fatal("the file does not come back")
			}
		}
	}
	t.Logf("of %d folders with changes %d load", all, loaded)
	if loaded == 0 || loaded > all*3/4 {
		t.Errorf("of %d folders with changes %d load", all, loaded)
	}
}

// tryFolder opens a folder, and calls the model if it loads. A panic is a failure.
func tryFolder(t *testing.T, what, folder string, pictures []image.Image) (loads bool) {
	defer func() {
		if x := recover(); x != nil {
			t.Errorf("%s: panic: %v", what, x)
		}
	}()
	m, err := Open(folder, Options{Workers: 1})
	if err != nil {
		return false
	}
	defer func() { _ = m.Close() }()
	_, _ = m.Encode([]string{"cat un", ""})
	_, _ = m.EncodeImages(pictures)
	_, _ = m.ClassifyImages(pictures)
	_, _ = m.Classify([]string{"cat"})
	_, _ = m.Entities([]string{"un cat"}, Average)
	return true
}
