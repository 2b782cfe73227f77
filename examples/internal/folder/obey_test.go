package folder

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/seed-1415985d/attn/examples/internal/foldertest"
)

// sheet has objects in each place where a file may have them.
type sheet struct {
	Size   int `json:"size"`
	Name   string
	Inner  *struct{ Width int }       `json:"inner"`
	List   []struct{ ID int }         `json:"list"`
	ByName map[string]struct{ N int } `json:"by_name"`
	Counts map[string]int
	Stop   OneOrMore `json:"stop"`
	hidden int
}

const fullSheet = `{"size": 1, "name": "x", "inner": {"width": 2}, "list": [{"id": 3}, {"id": 4}],
	"by_name": {"any": {"n": 5}}, "counts": {"any": 6}, "stop": [7], "note": {"any": 8},
	"off": false, "inner": null}`

var sheetIdle = Idle{"note": nil, "off": {"false", "0"}, "inner.hint": nil,
	"list.special": {"true"}}

// TestObey says which keys are refused, and how.
func TestObey(t *testing.T) {
	for text, want := range map[string]string{
		`{"size": 1, "name": "x", "inner": {"width": 2}, "list": [{"id": 3}], "stop": [7],
			"by_name": {"any": {"n": 5}}, "counts": {"any": 6}}`: "",
		`{"note": {"any": [{"x": 1}]}, "off": false, "inner": {"hint": 1}}`: "",
		`{"inner": null, "list": null, "off": null, "note": null}`:          "",
		`{"off": 0, "list": [{"special": true}]}`:                           "",

		`{"size": 1, "nam": "x"}`:                   `key "nam" is "x", want only keys that are known here`,
		`{"Size": 1}`:                               `key "Size" is 1, want only`,
		`{"hidden": 1}`:                             `key "hidden" is 1, want only`,
		`{"extra": null}`:                           `key "extra" is null, want only`,
		`{"off": true}`:                             `off is true, want false or 0 or null`,
		`{"inner": {"deep": {"a": [1,  2]}}}`:       `key "inner.deep" is {"a":[1,2]}, want only`,
		`{"list": [{"id": 1}, {"new": "y"}]}`:       `key "list[1].new" is "y", want only`,
		`{"list": [{}, {"special": false}]}`:        `list[1].special is false, want true or null`,
		`{"by_name": {"some": {"x": 1}}}`:           `key "by_name.some.x" is 1, want only`,
		`{"size": 1, "note": 2, "size": 3}`:         `key "size" is there twice, want it once`,
		`{"a\u001b[2J": 1}`:                         `key "a\x1b[2J" is 1`,
		`{"x": "` + strings.Repeat("y", 200):        `want JSON as published models have it`,
		`{"x": "` + strings.Repeat("y", 200) + `"}`: strings.Repeat("y", 99) + "…, want only",
		`{"size": "1"}`:                             `want JSON as published models have it`,
		`[]`:                                        `want JSON as published models have it`,
	} {
		err := Obey([]byte(text), &sheet{}, sheetIdle)
		if got := fmt.Sprint(err); want == "" && err != nil || !strings.Contains(got, want) {
			t.Errorf("%s: the error is %v, want %q", text, err, want)
		}
	}
	if err := Obey([]byte(`{"what": 1}`), &sheet{}, AnyKey); err != nil {
		t.Errorf("any key: %v", err)
	}
}

// TestObeyInAnyPlace adds a key that nobody knows to each object with fields, however deep.
func TestObeyInAnyPlace(t *testing.T) {
	var all any
	text := strings.Replace(fullSheet, `, "inner": null`, "", 1)
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		t.Fatal(err)
	}
	places := 0
	foldertest.EachObject(all, func(at string, object map[string]any) {
		if strings.HasPrefix(at, "note") || at == "counts" || at == "by_name" {
			return // has any keys
		}
		places++
		object["zz"] = "why"
		changed, _ := json.Marshal(all)
		delete(object, "zz")
		err := Obey(changed, &sheet{}, sheetIdle)
		if want := fmt.Sprintf("key %q is \"why\"", join(at, "zz")); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error is %v, want it to say %s", at, err, want)
		}
	})
	if places != 5 {
		t.Errorf("%d objects were changed, want 5", places)
	}
	if err := Obey([]byte(text), &sheet{hidden: 1}, sheetIdle); err != nil {
		t.Errorf("without an unknown key: %v", err)
	}
}
