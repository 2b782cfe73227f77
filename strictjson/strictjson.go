// Package strictjson decodes JSON of which every key is obeyed or refused.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Idle are keys of a file that change nothing an engine computes, with all that is below them: a
// key below others stands after theirs and a dot, and * at the end is for any rest. nil is for any
// value; otherwise only these values, as JSON, have no effect. null is always one of them, as if
// the key were not there.
type Idle map[string][]string

// AnyKey is for a first look at a file, which is then read with a list.
var AnyKey = Idle{"*": nil}

// Obey reads JSON into what it fills. A key of an object is obeyed if the object becomes a struct
// with a field of its name, or known to be without effect; others are errors that name key and
// value, since what they ask for would be left out. Maps have any keys. A type with an
// UnmarshalJSON of its own sees to its keys there, with an Obey for what they depend on.
func Obey(data []byte, into any, idle Idle) error {
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("want JSON as published models have it: %w", err)
	}
	return idle.Check(data, reflect.TypeOf(into), "", "")
}

// Check looks at all objects in data, which became a t. The place at is for people, and path,
// without indices, for Idle.
func (idle Idle) Check(data []byte, t reflect.Type, at, path string) error {
	t = plain(t)
	if !keyed(t) || IsNull(data) {
		return nil
	}
	element := func(key string, value json.RawMessage) error {
		return idle.Check(value, t.Elem(), Join(at, key), path)
	}
	switch t.Kind() {
	case reflect.Struct:
		fields := fieldsOf(t)
		element = func(key string, value json.RawMessage) error {
			if field, ok := fields[key]; ok {
				return idle.Check(value, field, Join(at, key), Join(path, key))
			}
			return idle.Allow(Join(path, key), Join(at, key), value)
		}
	case reflect.Slice, reflect.Array:
		return Elements(data, func(i int, value json.RawMessage) error {
			return idle.Check(value, t.Elem(), fmt.Sprintf("%s[%d]", at, i), path)
		})
	}
	return Members(data, at, element)
}

// Allow says whether a key that nobody obeys may stand in a file.
func (idle Idle) Allow(path, at string, value json.RawMessage) error {
	values, ok := idle.Find(path)
	switch {
	case !ok:
		return fmt.Errorf("key %q is %s, want only keys that are known here", at, Short(value))
	case values == nil || IsNull(value) || slices.Contains(values, compact(value)):
		return nil
	}
	return fmt.Errorf("%s is %s, want %s", at, Short(value),
		strings.Join(append(slices.Clone(values), "null"), " or "))
}

// Find looks for a key, or for a pattern that it matches.
func (idle Idle) Find(path string) (values []string, ok bool) {
	if values, ok = idle[path]; ok {
		return values, true
	}
	for pattern, values := range idle {
		prefix, ok := strings.CutSuffix(pattern, "*")
		if ok && strings.HasPrefix(path, prefix) {
			return values, true
		}
	}
	return nil, false
}

// plain is the type that pointers lead to.
func plain(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// keyed says whether objects with fields of their own are in values of a type.
func keyed(t reflect.Type) bool {
	switch t = plain(t); {
	case reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()):
		return false
	case t.Kind() == reflect.Slice || t.Kind() == reflect.Array || t.Kind() == reflect.Map:
		return keyed(t.Elem())
	}
	return t.Kind() == reflect.Struct
}

// fieldsOf are the types of a struct's fields by their keys: those of tags, or names in lower case.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(t) {
		key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if key == "" {
			key = strings.ToLower(f.Name)
		}
		if f.IsExported() && !f.Anonymous && key != "-" {
			fields[key] = f.Type
		}
	}
	return fields
}

// Members visits what is in an object, whose keys must be different: who reads one of two values
// overlooks the other.
func Members(data []byte, at string, visit func(key string, value json.RawMessage) error) error {
	d := json.NewDecoder(bytes.NewReader(data))
	seen := map[string]bool{}
	_, err := d.Token() // the brace; that the JSON is valid has been checked
	for err == nil && d.More() {
		var value json.RawMessage
		var key json.Token
		key, err = d.Token()
		if name, _ := key.(string); err == nil && seen[name] {
			err = fmt.Errorf("key %q is there twice, want it once", Join(at, name))
		} else if err = errors.Join(err, d.Decode(&value)); err == nil {
			seen[name] = true
			err = visit(name, value)
		}
	}
	return err
}

// Elements visits what is in a list.
func Elements(data []byte, visit func(i int, value json.RawMessage) error) error {
	var list []json.RawMessage
	err := json.Unmarshal(data, &list)
	for i := 0; i < len(list) && err == nil; i++ {
		err = visit(i, list[i])
	}
	return err
}

func Join(at, key string) string { return strings.TrimPrefix(at+"."+key, ".") }

func IsNull(data []byte) bool { return string(bytes.TrimSpace(data)) == "null" }

func compact(value json.RawMessage) string {
	var b bytes.Buffer
	_ = json.Compact(&b, value) // which is valid
	return b.String()
}

// Short is a value as an error shows it.
func Short(value json.RawMessage) string {
	const most = 100
	text := []rune(compact(value))
	if len(text) > most {
		text = append(text[:most], '…')
	}
	return string(text)
}
