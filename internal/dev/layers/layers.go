// Package layers checks how the files of a package refer to each other. Only tests use it.
package layers

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// A Layer is a set of files that may refer to each other and to the layers below. Files are
// separated by white space, without .go and .s.
type Layer struct{ Name, Files string }

// A Table has a package's layers from the top.
type Table struct {
	layers []Layer
	of     map[string]int // the index of each file's layer
}

// NewTable returns the table of layers, and names the files that are in two.
func NewTable(layers []Layer) (t Table, faults []string) {
	t = Table{layers, map[string]int{}}
	for i, l := range layers {
		for _, file := range strings.Fields(l.Files) {
			if before, twice := t.of[file]; twice {
				faults = append(faults, fmt.Sprintf("%s is in two layers, %s and %s", file, layers[before].Name,
					l.Name))
			}
			t.of[file] = i
		}
	}
	return t, faults
}

// Differences names the files that are in no layer, and those that are only in the table.
func (t Table) Differences(files []string) (faults []string) {
	exists := map[string]bool{}
	for _, file := range files {
		exists[stem(file)] = true
		if _, known := t.of[stem(file)]; !known {
			faults = append(faults, file+" is in no layer")
		}
	}
	for _, file := range slices.Sorted(maps.Keys(t.of)) {
		if !exists[file] {
			faults = append(faults, fmt.Sprintf("%s is in layer %s, and there is no such file", file,
				t.layers[t.of[file]].Name))
		}
	}
	return faults
}

// stem returns a file's name in the table.
func stem(file string) string {
	file = filepath.Base(file)
	return strings.TrimSuffix(file, filepath.Ext(file))
}

// Upward names the uses of a layer above the user's.
func (t Table) Upward(uses []Use) (faults []string) {
	for _, u := range uses {
		from, known := t.of[stem(u.From)]
		to, alsoKnown := t.of[stem(u.To)]
		if known && alsoKnown && to < from {
			faults = append(faults, fmt.Sprintf("%s:%d: %s of %s is in layer %s, above %s",
				u.From, u.Line, u.Name, u.To, t.layers[to].Name, t.layers[from].Name))
		}
	}
	return faults
}

// Circles names circles of more than most files, or of files of several layers.
func (t Table) Circles(circles [][]string, most int) (faults []string) {
	for _, circle := range circles {
		files := strings.Join(circle, " ")
		if len(circle) > most {
			faults = append(faults, fmt.Sprintf("%d files need one another, want at most %d: %s",
				len(circle), most, files))
		}
		if names := t.layersOf(circle); len(names) > 1 {
			faults = append(faults, fmt.Sprintf("files of layers %s need one another: %s",
				strings.Join(names, ", "), files))
		}
	}
	return faults
}

// layersOf names the layers of files, from the top.
func (t Table) layersOf(files []string) (names []string) {
	for i, l := range t.layers {
		if slices.ContainsFunc(files, func(file string) bool {
			at, known := t.of[stem(file)]
			return known && at == i
		}) {
			names = append(names, l.Name)
		}
	}
	return names
}

// Circles returns the largest sets of files each of which needs all others of its set, directly or
// indirectly; the set with the most files first.
func Circles(uses []Use) (circles [][]string) {
	next := map[string][]string{}
	for _, u := range uses {
		next[u.From] = append(next[u.From], u.To)
	}
	reached := map[string]map[string]bool{}
	for file := range next {
		reached[file] = map[string]bool{}
		visit(file, next, reached[file])
	}
	for file := range next {
		circle := slices.Sorted(maps.Keys(reached[file]))
		circle = slices.DeleteFunc(circle, func(other string) bool { return !reached[other][file] })
		if len(circle) > 1 && circle[0] == file { // once for each set
			circles = append(circles, circle)
		}
	}
	slices.SortFunc(circles, func(a, b []string) int {
		return cmp.Or(len(b)-len(a), strings.Compare(a[0], b[0]))
	})
	return circles
}

// visit marks the files that can be reached from a file in one step or more.
func visit(file string, next map[string][]string, reached map[string]bool) {
	for _, other := range next[file] {
		if !reached[other] {
			reached[other] = true
			visit(other, next, reached)
		}
	}
}
