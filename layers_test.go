package attn

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/seed-1415985d/attn/internal/dev/layers"
)

// layerTable is the order of the package's files, without .go and .s, from the top: a file refers
// to its own layer and to those below, so that each layer can be read, tested and replaced without
// those above.
var layerTable = []layers.Layer{
	{Name: "API", Files: `doc attention cache store attend_sequences
		state state_update pool pool_work matmul vector inspect`},
	{Name: "call", Files: `validate validate_views validate_lists schedule
		schedule_sequences`},
	{Name: "engine", Files: `chunk span look ancestors tile tile_options kind kind_floats
		kind_bits kind_integers kind_latent kind_pairs gather arithmetic scratch
		prefetch`},
	{Name: "plan", Files: "plan plan_sequences"},
	{Name: "kernels", Files: `kernel kernel_generic kernel_amd64 kernel_arm64
		kernel_noasm`},
	{Name: "types", Files: "view options format errors"},
}

// layerBuilds differ in their files. Each is checked for itself, because a file meets only those of
// its build.
var layerBuilds = []struct{ name, arch, tag string }{
	{"linux/amd64", "amd64", ""},
	{"linux/arm64", "arm64", ""},
	{"linux/s390x", "s390x", ""},
	{"purego", "amd64", "purego"},
}

// maxInCircle is how many files may need one another: an idea may take a few, and more can only be
// read as one.
const maxInCircle = 3

// TestLayers fails where a file refers to a layer above its own, and where too many files need one
// another.
func TestLayers(t *testing.T) {
	if testing.Short() {
		t.Skip("it reads the same files on every machine, so that one full run is enough")
	}
	table, faults := layers.NewTable(layerTable)
	faults = append(faults, table.Differences(sourceFiles(t))...)
	reader := layers.NewReader()
	for _, b := range layerBuilds {
		files, uses, err := reader.Build(".", b.arch, b.tag)
		if err != nil {
			t.Fatalf("%s: %v", b.name, err)
		}
		up, circles := table.Upward(uses), layers.Circles(uses)
		largest := append(circles, nil)[0]
		t.Logf("%s: %d files, %d references to layers above, %d files in the largest circle", b.name,
			len(files), len(up), len(largest))
		faults = slices.Concat(faults, up, table.Circles(circles, maxInCircle))
	}
	seen := map[string]bool{} // most are in each build
	for _, fault := range faults {
		if !seen[fault] {
			t.Error(fault)
		}
		seen[fault] = true
	}
}

// packageTable is the order of the module's packages from the top, by folder: a package imports
// those of its own layer and of the layers below. The last layer is all others in internal, which
// know nothing of these; internal/dev is for developers, and no package that is used imports it.
var packageTable = []layers.Layer{
	{Name: "beside attention", Files: "nn linattn gguf safetensors inspect"},
	{Name: "attention", Files: "."},
	{Name: "products and workers", Files: "internal/matmul internal/pool"},
	{Name: "layout", Files: `internal/packed internal/pages internal/file internal/online
		internal/segment internal/ancestors internal/sight internal/ragged
		internal/inspect internal/distance`},
	{Name: "kernels", Files: `internal/kernel internal/kernel/floats internal/kernel/narrow
		internal/kernel/integers internal/kernel/int4 internal/kernel/blockwise
		internal/kernel/elements internal/kernel/pairs internal/kernel/triangle`},
	{Name: "tuning", Files: "internal/tuning"},
}

// TestPackagesKnowThoseBelow fails where a package imports one of a layer above its own.
func TestPackagesKnowThoseBelow(t *testing.T) {
	of := map[string]int{}
	for i, l := range packageTable {
		for _, folder := range strings.Fields(l.Files) {
			of[folder] = i
			if found, _ := filepath.Glob(folder + "/*.go"); len(found) == 0 {
				t.Errorf("there is no package in %s, of layer %s", folder, l.Name)
			}
		}
	}
	layerOf := func(folder string) int {
		if i, known := of[folder]; known {
			return i
		}
		return len(packageTable)
	}
	for _, pattern := range []string{"*.go", "*/*.go", "internal/*/*.go", "internal/*/*/*.go"} {
		files, err := filepath.Glob(pattern)
		must(t, err)
		for _, file := range files {
			folder := filepath.ToSlash(filepath.Dir(file))
			_, known := of[folder]
			if strings.HasSuffix(file, "_test.go") || strings.HasPrefix(folder, "internal/dev/") ||
				strings.HasSuffix(folder, "test") || !known && !strings.HasPrefix(folder, "internal/") {
				continue
			}
			for _, path := range importsOf(t, file) {
				if layerOf(path) < layerOf(folder) || strings.HasPrefix(path, "internal/dev/") {
					t.Errorf("%s imports %s, which is above %s", file, path, folder)
				}
			}
		}
	}
}

// importsOf is the packages of this module that a file imports, by folder.
func importsOf(t *testing.T, file string) (folders []string) {
	const module = "github.com/seed-1415985d/attn"
	text, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
	must(t, err)
	for _, i := range text.Imports {
		if path, _ := strconv.Unquote(i.Path.Value); path == module {
			folders = append(folders, ".")
		} else if folder, ours := strings.CutPrefix(path, module+"/"); ours {
			folders = append(folders, folder)
		}
	}
	return folders
}

// kindReaders are the files, beside the kinds' own, that name a kind of keys or values: the list of
// kinds, what chooses among them, and what treats one apart.
var kindReaders = []string{"kind.go", "plan.go", "schedule.go", "scratch.go", "tile.go"}

// TestKindsAreNamedInFewFiles keeps the loop free of kinds, so that a new one is one file, a line
// in plan.go, its choice in schedule.go, and a line in each switch of kind.go.
func TestKindsAreNamedInFewFiles(t *testing.T) {
	kind := regexp.MustCompile(`\bkind(Views|Panels|Bits|Integers|Latent|Pairs)\b|\b(float|bit|integer|latent|pair)Kind\b`)
	var named []string
	for _, file := range sourceFiles(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if kind.Match(text) && !strings.HasPrefix(file, "kind_") {
			named = append(named, file)
		}
	}
	if !slices.Equal(named, kindReaders) {
		t.Errorf("kinds of keys and values are named in %v, want %v", named, kindReaders)
	}
}

// TestRowsAreLocatedInOneFile keeps in plan.go which row is of which head and query: who computes
// it elsewhere may forget that a chunk begins anywhere in a group.
func TestRowsAreLocatedInOneFile(t *testing.T) {
	divides := regexp.MustCompile(`[/%] ?(p\.)?group\b|kv ?\* ?(p\.)?group\b|p\.heads ?/ ?p\.kvHeads`)
	for _, file := range sourceFiles(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if file == "plan.go" || filepath.Ext(file) != ".go" {
			continue
		}
		for i, line := range strings.Split(string(text), "\n") {
			if code, _, _ := strings.Cut(line, "//"); divides.MatchString(code) {
				t.Errorf("%s:%d computes with a group: want locate, queries, ofHead or rowsBefore", file, i+1)
			}
		}
	}
}

// TestAssemblyReadsNoVariables keeps kernels functions of their arguments: what they do is chosen
// where it can be tested.
func TestAssemblyReadsNoVariables(t *testing.T) {
	variable := regexp.MustCompile(`\w*·\w+(\+\d+)?\(SB\)`) // local symbols end in <>
	for _, file := range assemblyFiles(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		functions := 0
		for i, line := range strings.Split(string(text), "\n") {
			code, _, _ := strings.Cut(line, "//")
			if strings.HasPrefix(code, "TEXT") {
				functions++
			} else if name := variable.FindString(code); name != "" {
				t.Errorf("%s:%d: %s is of the package, want only arguments and local tables", file, i+1, name)
			}
		}
		if functions == 0 {
			t.Errorf("%s has no function", file)
		}
	}
}

// assemblyFiles lists the assembly of the package and of internal/kernel.
func assemblyFiles(t *testing.T) (files []string) {
	for _, pattern := range []string{"*.s", "internal/kernel/*/*.s"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	return files
}

// sourceFiles lists the files of the package, of all builds and without tests.
func sourceFiles(t *testing.T) (files []string) {
	for _, pattern := range []string{"*.go", "*.s"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	return slices.DeleteFunc(files, func(file string) bool {
		return strings.HasSuffix(file, "_test.go")
	})
}
