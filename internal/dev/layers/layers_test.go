package layers

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// A small package with each kind of upward reference, and with names that only look like one.
var village = map[string]string{
	"shop": `package village

import "strings"

type Shop struct{ Shelf int }

const open = 9

func (f *farm) sell() int { return f.grow() } // in the layer above its type's

func (s *Shop) Deliver(t truck) string { return strings.Repeat(t.sound, s.Shelf) }
`,
	"farm": `package village

type farm struct{ field *Shop }

func (f *farm) grow() int {
	f.sell()
	f.field.Shelf = open
	Shelf, Deliver := 1, 2 // names of the shop's, which are local here
	return Shelf + Deliver
}
`,
	"barn": "package village\n\ntype barn struct{ farm }\n\nfunc empty(b barn) (func() int, road) " +
		"{ return b.sell, road{} }\n",
	"truck": "package village\n\ntype truck struct{ sound string }\n\nfunc park(b barn, r road) {}\n",
	"road":  "package village\n\ntype road struct{ next *truck }\n",
	"arm":   "//go:build arm64\n\npackage village\n\nfunc wave(s Shop) {}\n",
}

var villageLayers = []Layer{{"trade", "shop"}, {"land", "farm barn"}, {"way", "truck road arm"}}

func readVillage(t *testing.T, arch string) (files []string, uses []Use) {
	folder := t.TempDir()
	for name, text := range village {
		if err := os.WriteFile(filepath.Join(folder, name+".go"), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	files, uses, err := NewReader().Build(folder, arch, "")
	if err != nil {
		t.Fatal(err)
	}
	return files, uses
}

func equal(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n%q, want\n%q", what, got, want)
	}
}

func TestUpward(t *testing.T) {
	table, faults := NewTable(villageLayers)
	equal(t, "faults of the table", faults, nil)
	_, uses := readVillage(t, "amd64")
	want := []string{
		"barn.go:5: sell of shop.go is in layer trade, above land",
		"farm.go:3: Shop of shop.go is in layer trade, above land",
		"farm.go:6: sell of shop.go is in layer trade, above land",
		"farm.go:7: Shelf of shop.go is in layer trade, above land",
		"farm.go:7: open of shop.go is in layer trade, above land",
		"truck.go:5: barn of barn.go is in layer land, above way",
	}
	equal(t, "upward", table.Upward(uses), want)

	for _, u := range uses {
		if u.From == u.To {
			t.Errorf("%+v is within a file", u)
		}
	}

	files, uses := readVillage(t, "arm64")
	want = slices.Insert(want, 0, "arm.go:5: Shop of shop.go is in layer trade, above way")
	equal(t, "upward on arm64", table.Upward(uses), want)
	equal(t, "files of arm64", files, []string{"arm.go", "barn.go", "farm.go", "road.go", "shop.go",
		"truck.go"})
}

func TestDifferences(t *testing.T) {
	table, faults := NewTable([]Layer{{"trade", "shop barn"}, {"land", "farm barn"}})
	equal(t, "faults of the table", faults, []string{"barn is in two layers, trade and land"})
	equal(t, "differences", table.Differences([]string{"shop.go", "barn.s", "road.go"}),
		[]string{"road.go is in no layer", "farm is in layer land, and there is no such file"})
}

func TestCircles(t *testing.T) {
	table, _ := NewTable(villageLayers)
	_, uses := readVillage(t, "amd64")
	circles := Circles(uses)
	if len(circles) != 1 {
		t.Fatalf("circles are %q, want one", circles)
	}
	equal(t, "circle", circles[0], []string{"barn.go", "farm.go", "road.go", "shop.go", "truck.go"})
	equal(t, "faults", table.Circles(circles, 4), []string{
		"5 files need one another, want at most 4: barn.go farm.go road.go shop.go truck.go",
		"files of layers trade, land, way need one another: barn.go farm.go road.go shop.go truck.go",
	})
	equal(t, "faults if five may", table.Circles(circles, 5)[1:], nil)

	one, _ := NewTable([]Layer{{"all", "shop farm barn truck road"}})
	equal(t, "faults in one layer", one.Circles(circles, 5), nil)
}

// A chain is no circle, a file that needs itself is none, and two circles with one way between them
// stay two.
func TestCirclesAreMutual(t *testing.T) {
	var uses []Use
	for _, pair := range []string{"ab", "bc", "cc", "cd", "de", "ec", "ef", "fg", "gf", "hh"} {
		uses = append(uses, Use{From: pair[:1], To: pair[1:]})
	}
	var got []string
	for _, circle := range Circles(uses) {
		got = append(got, circle...)
	}
	equal(t, "circles", got, []string{"c", "d", "e", "f", "g"})
}
