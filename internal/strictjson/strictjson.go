// Package strictjson decodes JSON of which every key is obeyed or refused. A program that computes
// by the configuration of a model must not overlook a key: what it asks for would be left out, and
// the answers would be wrong without a word.
//
// A key is obeyed if it has a field in the struct that is decoded into, and allowed if the program
// lists it as one without effect, with the values that have none. All others are errors that name
// key and value, as is a key that an object has twice.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/seed-1415985d/attn/internal/modelfile"
)

// Idle are keys without effect on what a program computes, with all that is below them. A key of an
// inner object stands after the outer one's and a dot, without the indices of lists and the keys of
// maps; * at the end is for any rest. A list of nil allows any value; otherwise only these values,
// as compact JSON, are allowed: {"use_mrope": {"false"}}. null always is, as if the key were not
// there.
type Idle map[string][]string

// AnyKey is for a first look at a file, which is then read with a list.
var AnyKey = Idle{"*": nil}

// Unmarshal decodes JSON as [json.Unmarshal] does, and refuses keys of objects that became structs
// and have no field there, unless they are idle. Keys are those of tags, or names of fields in
// lower case, and upper and lower case differ. Maps have any keys. A type with an UnmarshalJSON of
// its own sees to its keys there: with Unmarshal, or with [Members] if they depend on one another.
//
// Where the error is one of keys, what is decoded into has been written to.
func Unmarshal(data []byte, into any, idle Idle) error {
	err := checkTexts(data)
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		return fmt.Errorf("want JSON as published models have it: %w", err)
	}
	return CheckKeys("", data, into, idle)
}

// checkTexts refuses texts that encoding/json would change: bytes that are not UTF-8, and halves of
// surrogate pairs. Different names would become one.
func checkTexts(data []byte) error {
	if !utf8.Valid(data) {
		return errors.New("it is not UTF-8")
	}
	for at := 0; ; {
		i := bytes.Index(data[at:], []byte(`\u`))
		if i < 0 {
			return nil
		}
		backslash := at + i
		at = backslash + 2
		if before := bytes.TrimRight(data[:backslash], `\`); (backslash-len(before))%2 != 0 {
			continue // another backslash escapes this one
		}
		r, ok := escaped(data[at:])
		if !ok || !utf16.IsSurrogate(r) {
			continue
		}
		if rest, pair := bytes.CutPrefix(data[at+4:], []byte(`\u`)); pair {
			second, _ := escaped(rest)
			ok = utf16.DecodeRune(r, second) != utf8.RuneError
			at += 10
		} else {
			ok = false
		}
		if !ok {
			return fmt.Errorf(`\u%04x is half of a surrogate pair`, r)
		}
	}
}

// escaped is the number of four hexadecimal digits.
func escaped(data []byte) (rune, bool) {
	n, err := strconv.ParseUint(string(data[:min(4, len(data))]), 16, 16)
	return rune(n), err == nil && len(data) >= 4
}

// CheckKeys is the second half of [Unmarshal], for what was decoded already: it refuses keys. The
// value may stand below a key, which errors name before its own; the keys of idle are without it.
func CheckKeys(key string, data []byte, into any, idle Idle) error {
	return idle.check(data, reflect.TypeOf(into), key, "")
}

// ReadFile is [Unmarshal] of a file, which errors name. It may begin with a byte order mark, as
// some editors write it.
func ReadFile(path string, into any, idle Idle) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	err = modelfile.CheckPointer(data)
	if err == nil {
		err = Unmarshal(bytes.TrimPrefix(data, []byte("\ufeff")), into, idle)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// Check refuses a key with a value in JSON, unless it is idle.
func (idle Idle) Check(key string, value []byte) error { return idle.allow(key, key, value) }

// check looks at all objects in data, which became a t. The place at is for people, and path,
// without indices, for Idle.
func (idle Idle) check(data []byte, t reflect.Type, at, path string) error {
	t = plain(t)
	if !keyed(t) || isNull(data) {
		return nil
	}
	element := func(key string, value json.RawMessage) error {
		return idle.check(value, t.Elem(), join(at, key), path)
	}
	switch t.Kind() {
	case reflect.Struct:
		fields := fieldsOf(t)
		element = func(key string, value json.RawMessage) error {
			if field, ok := fields[key]; ok {
				return idle.check(value, field, join(at, key), join(path, key))
			}
			return idle.allow(join(path, key), join(at, key), value)
		}
	case reflect.Slice, reflect.Array:
		return elements(data, func(i int, value json.RawMessage) error {
			return idle.check(value, t.Elem(), fmt.Sprintf("%s[%d]", at, i), path)
		})
	}
	return members(data, at, element)
}

// allow says whether a key that nobody obeys may stand in a file.
func (idle Idle) allow(path, at string, value []byte) error {
	values, ok := idle.find(path)
	switch {
	case !ok:
		return fmt.Errorf("key %q is %s, want only keys that are known here", at, Short(value))
	case values == nil || isNull(value) || slices.Contains(values, compact(value)):
		return nil
	}
	return fmt.Errorf("%s is %s, want %s", at, Short(value),
		strings.Join(append(slices.Clone(values), "null"), " or "))
}

// find looks for a key, or for the longest pattern that it matches.
func (idle Idle) find(path string) (values []string, ok bool) {
	if values, ok = idle[path]; ok {
		return values, true
	}
	longest := ""
	for pattern := range idle {
		prefix, open := strings.CutSuffix(pattern, "*")
		if open && strings.HasPrefix(path, prefix) && len(pattern) > len(longest) {
			longest, values, ok = pattern, idle[pattern], true
		}
	}
	return values, ok
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

func join(at, key string) string { return strings.TrimPrefix(at+"."+key, ".") }

// Members visits the keys of an object, which must be different: who reads one of two values
// overlooks the other. The first error ends it. What is no object is an error.
func Members(data []byte, visit func(key string, value json.RawMessage) error) error {
	if err := checkTexts(data); err != nil {
		return fmt.Errorf("want an object in JSON: %w", err)
	}
	if trimmed := bytes.TrimSpace(data); !json.Valid(data) || trimmed[0] != '{' {
		return fmt.Errorf("want an object in JSON, not %s", Short(data))
	}
	return members(data, "", visit)
}

// members visits the keys of what is known to be an object at a place.
func members(data []byte, at string, visit func(key string, value json.RawMessage) error) error {
	d := json.NewDecoder(bytes.NewReader(data))
	seen := map[string]bool{}
	_, err := d.Token() // the brace
	for err == nil && d.More() {
		var value json.RawMessage
		var key json.Token
		key, err = d.Token()
		if name, _ := key.(string); err == nil && seen[name] {
			err = fmt.Errorf("key %q is there twice, want it once", join(at, name))
		} else if err = errors.Join(err, d.Decode(&value)); err == nil {
			seen[name] = true
			err = visit(name, value)
		}
	}
	return err
}

// elements visits what is in a list.
func elements(data []byte, visit func(i int, value json.RawMessage) error) error {
	var list []json.RawMessage
	err := json.Unmarshal(data, &list)
	for i := 0; i < len(list) && err == nil; i++ {
		err = visit(i, list[i])
	}
	return err
}

func isNull(data []byte) bool { return string(bytes.TrimSpace(data)) == "null" }

// compact is a value without spaces between its parts; what is no JSON stays.
func compact(value []byte) string {
	var b bytes.Buffer
	if json.Compact(&b, value) != nil {
		return string(value)
	}
	return b.String()
}

// Short is a value in JSON as an error shows it: on a line, and cut after 100 characters.
func Short(value []byte) string {
	const most = 100
	text := []rune(compact(value))
	if len(text) > most {
		text = append(text[:most], '…')
	}
	return string(text)
}
