package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// sheet has objects in each place where a file may have them.
type sheet struct {
	Size   int `json:"size"`
	Name   string
	Inner  *struct{ Width int }       `json:"inner"`
	List   []struct{ ID int }         `json:"list"`
	ByName map[string]struct{ N int } `json:"by_name"`
	Counts map[string]int
	Stop   oneOrMore `json:"stop"`
	hidden int
}

const fullSheet = `{"size": 1, "name": "x", "inner": {"width": 2}, "list": [{"id": 3}, {"id": 4}],
	"by_name": {"any": {"n": 5}}, "counts": {"any": 6}, "stop": [7], "note": {"any": 8},
	"off": false, "inner": null}`

var sheetIdle = Idle{"note": nil, "off": {"false", "0"}, "inner.hint": nil,
	"list.special": {"true"}}

// TestUnmarshal says which keys are refused, and with which errors.
func TestUnmarshal(t *testing.T) {
	for text, want := range map[string]string{
		`{"size": 1, "name": "x", "inner": {"width": 2}, "list": [{"id": 3}], "stop": [7],
			"by_name": {"any": {"n": 5}}, "counts": {"any": 6}}`: "",
		`{"note": {"any": [{"x": 1}]}, "off": false, "inner": {"hint": 1}}`: "",
		`{"inner": null, "list": null, "off": null, "note": null}`:          "",
		`{"off": 0, "list": [{"special": true}]}`:                           "",

		`{"size": 1, "nam": "x"}`:                      `key "nam" is "x", want only keys that are known`,
		`{"Size": 1}`:                                  `key "Size" is 1, want only`,
		`{"hidden": 1}`:                                `key "hidden" is 1, want only`,
		`{"extra": null}`:                              `key "extra" is null, want only`,
		`{"off": true}`:                                `off is true, want false or 0 or null`,
		`{"inner": {"deep": {"a": [1,  2]}}}`:          `key "inner.deep" is {"a":[1,2]}, want only`,
		`{"list": [{"id": 1}, {"new": "y"}]}`:          `key "list[1].new" is "y", want only`,
		`{"list": [{}, {"special": false}]}`:           `list[1].special is false, want true or null`,
		`{"by_name": {"some": {"x": 1}}}`:              `key "by_name.some.x" is 1, want only`,
		`{"size": 1, "note": 2, "size": 3}`:            `key "size" is there twice, want it once`,
		`{"a\u001b[2J": 1}`:                            `key "a\x1b[2J" is 1`,
		`{"x": "` + strings.Repeat("y", 200):           `want JSON as published models have it`,
		`{"x": "` + strings.Repeat("y", 200) + `"}`:    strings.Repeat("y", 99) + "…, want only",
		`{"size": "1"}`:                                `want JSON as published models have it`,
		`[]`:                                           `want JSON as published models have it`,
		`{"name": "x\ud83d\ude00\\ud800"}`:             "",
		`{"name": "\\\ud83d\uDE00", "note": "\uffff"}`: "",
		"{\"name\": \"\xff\"}":                         "it is not UTF-8",
		`{"name": "\uD800"}`:                           `\ud800 is half of a surrogate pair`,
		`{"name": "\\\ud83ddc00"}`:                     `\ud83d is half of a surrogate pair`,
		`{"name": "\ud83d\u0020"}`:                     `\ud83d is half of a surrogate pair`,
		`{"name": "\ude00\ud83d"}`:                     `\ude00 is half of a surrogate pair`,
		`{"a\ud800": 1, "a\ud801": 2}`:                 `\ud800 is half of a surrogate pair`,
	} {
		err := Unmarshal([]byte(text), &sheet{}, sheetIdle)
		if got := fmt.Sprint(err); want == "" && err != nil || !strings.Contains(got, want) {
			t.Errorf("%s: the error is %v, want %q", text, err, want)
		}
	}
	if err := Unmarshal([]byte(`{"what": 1}`), &sheet{}, AnyKey); err != nil {
		t.Errorf("any key: %v", err)
	}
}

// TestUnmarshalInAnyPlace adds an unknown key to each object with fields, at any depth.
func TestUnmarshalInAnyPlace(t *testing.T) {
	var all any
	text := strings.Replace(fullSheet, `, "inner": null`, "", 1)
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		t.Fatal(err)
	}
	places := 0
	eachObject(all, "", func(at string, object map[string]any) {
		if strings.HasPrefix(at, "note") || at == "counts" || at == "by_name" {
			return // may have any keys
		}
		places++
		object["zz"] = "why"
		changed, _ := json.Marshal(all)
		delete(object, "zz")
		err := Unmarshal(changed, &sheet{}, sheetIdle)
		if want := fmt.Sprintf("key %q is \"why\"", join(at, "zz")); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error is %v, want it to say %s", at, err, want)
		}
	})
	if places != 5 {
		t.Errorf("%d objects were changed, want 5", places)
	}
	if err := Unmarshal([]byte(text), &sheet{hidden: 1}, sheetIdle); err != nil {
		t.Errorf("without an unknown key: %v", err)
	}
}

// oneOrMore decodes its own JSON.
type oneOrMore []int

func (o *oneOrMore) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, (*[]int)(o)) }

// eachObject visits the objects in a decoded JSON value with their places as errors name them.
func eachObject(value any, at string, visit func(at string, object map[string]any)) {
	switch v := value.(type) {
	case map[string]any:
		visit(at, v)
		for key, inner := range v {
			eachObject(inner, join(at, key), visit)
		}
	case []any:
		for i, inner := range v {
			eachObject(inner, fmt.Sprintf("%s[%d]", at, i), visit)
		}
	}
}

// TestCheckKeys has errors of a value below a key; the keys of idle are without it.
func TestCheckKeys(t *testing.T) {
	if err := CheckKeys("llama", []byte(`{"name": "x", "inner": {"hint": 1}}`), &sheet{},
		sheetIdle); err != nil {
		t.Errorf("the error is %v", err)
	}
	err := CheckKeys("llama", []byte(`{"inner": {"deep": 1}}`), &sheet{}, sheetIdle)
	if want := `key "llama.inner.deep" is 1, want only keys that are known here`; err == nil ||
		err.Error() != want {
		t.Errorf("the error is %v, want %s", err, want)
	}
}

// TestIdle finds keys by the longest matching pattern.
func TestIdle(t *testing.T) {
	idle := Idle{"a*": nil, "ab.*": {"0"}, "ab.c*": {"1"}, "ab.cd": {"2"}}
	for range 20 { // maps have no order
		for key, value := range map[string]string{"a": "7", "abc": "7", "ab.": "0", "ab.x": "0",
			"ab.c": "1", "ab.cde": "1", "ab.cd": "2"} {
			if err := idle.Check(key, []byte(value)); err != nil {
				t.Errorf("%s: %v", key, err)
			}
			wrong := `"wrong"`
			if err := idle.Check(key, []byte(wrong)); (err == nil) != (value == "7") {
				t.Errorf("%s is %s: the error is %v", key, wrong, err)
			}
		}
	}
	if err := idle.Check("b", []byte("null")); err == nil ||
		err.Error() != `key "b" is null, want only keys that are known here` {
		t.Errorf("the error is %v", err)
	}
}

// TestMembers visits keys in the order of the text.
func TestMembers(t *testing.T) {
	text := ""
	if err := Members([]byte(` {"b": 1, "a": {"b": [2]}}`), func(key string, v json.RawMessage) error {
		text += key + " " + string(v) + ";"
		return nil
	}); err != nil || text != `b 1;a {"b": [2]};` {
		t.Errorf("%q, %v", text, err)
	}
	for text, want := range map[string]string{"": "want an object in JSON, not ", "[]": "not []",
		"{": "not {", `{"a": 1, "a": 2}`: `key "a" is there twice, want it once`, "null": "not null",
		`{"a": 1} {}`: "want an object", `{"stop": 1}`: "that is all",
		"{\"\xfe\": 1}": "want an object in JSON: it is not UTF-8"} {
		err := Members([]byte(text), func(key string, _ json.RawMessage) error {
			if key == "stop" {
				return errors.New("that is all")
			}
			return nil
		})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error is %v, want %q", text, err, want)
		}
	}
}

// TestReadFile names the file.
func TestReadFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.json")
	var x sheet
	if err := ReadFile(path, &x, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a file the error is %v", err)
	}
	for text, want := range map[string]string{"\ufeff{\"size\": 3}": "",
		`{"nam": 1}`: path + `: key "nam" is 1, want only keys that are known here`,
		"{":          path + ": want JSON",
		"version https://git-lfs.github.com/spec/v1\noid sha256:0": path + ": it is a Git LFS pointer"} {
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		err := ReadFile(path, &x, nil)
		if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: the error is %v, want %q", text, err, want)
		}
	}
	if x.Size != 3 {
		t.Errorf("the size is %d, want 3", x.Size)
	}
}

// FuzzUnmarshal decodes hostile JSON: encoding/json with unknown keys refused accepts all that
// Unmarshal accepts.
func FuzzUnmarshal(f *testing.F) {
	f.Add([]byte(fullSheet))
	f.Add([]byte(`{"inner": {"width": 2}, "by_name": {"a": {"n": 1}, "a": {}}}`))
	f.Add([]byte(`{"list": [{"id": 3}, null], "stop": null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var x, y sheet
		if Unmarshal(data, &x, nil) != nil {
			return
		}
		d := json.NewDecoder(bytes.NewReader(data))
		d.DisallowUnknownFields()
		if err := d.Decode(&y); err != nil || !reflect.DeepEqual(x, y) {
			t.Errorf("it is taken as %+v, and by encoding/json as %+v (%v)", x, y, err)
		}
	})
}
