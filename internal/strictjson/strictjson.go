// Package strictjson decodes JSON and obeys or refuses every key. A program that runs a model by
// its configuration must not overlook a key: answers would be wrong without an error.
//
// A key is obeyed if the struct has a field for it, and allowed if the program lists it as a key
// without effect, with the values that have none. Any other key is an error that names key and
// value, and so is a key that an object has twice.
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

// Idle lists keys without effect on what a program computes, and includes everything below them. A
// key of an inner object is written after the outer key and a dot, without indices of lists or keys
// of maps; * at the end matches any rest. A nil list allows any value; otherwise only these values
// are allowed, as compact JSON: {"use_mrope": {"false"}}. null is always allowed, as if the key
// were absent.
type Idle map[string][]string

// AnyKey is for a first look at a file that is decoded with a list afterwards.
var AnyKey = Idle{"*": nil}

// Unmarshal decodes JSON as [json.Unmarshal] does, and refuses keys of objects that became structs
// and have no field there, unless they are idle. A field's key is its tag or its name in lower
// case; keys are case-sensitive. Maps have any keys. A type with its own UnmarshalJSON checks its
// keys there: with Unmarshal, or with [Members] if they depend on one another.
//
// If a key is refused, the value has been decoded already.
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

// checkTexts refuses strings that encoding/json would change, invalid UTF-8 and halves of surrogate
// pairs: different names would become one.
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

// CheckKeys is the second half of [Unmarshal], for a value that was decoded already: it refuses
// keys. key is the key of the value, "" at the top; errors name it before the value's own keys, and
// idle's keys are without it.
func CheckKeys(key string, data []byte, into any, idle Idle) error {
	return idle.check(data, reflect.TypeOf(into), key, "")
}

// ReadFile is [Unmarshal] of a file, which errors name. The file may begin with a byte order mark,
// which some editors write.
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

// Check refuses a key with a JSON value, unless the key is idle.
func (idle Idle) Check(key string, value []byte) error { return idle.allow(key, key, value) }

// check checks all objects in data, which was decoded into a t. at is the place for errors, path
// the place without indices, for Idle.
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

// allow returns an error unless a key without a field is allowed.
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

// find returns the values of a key or of the longest pattern that matches it.
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

// plain returns the type that pointers point to.
func plain(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// keyed reports whether values of a type contain objects with fields.
func keyed(t reflect.Type) bool {
	switch t = plain(t); {
	case reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()):
		return false
	case t.Kind() == reflect.Slice || t.Kind() == reflect.Array || t.Kind() == reflect.Map:
		return keyed(t.Elem())
	}
	return t.Kind() == reflect.Struct
}

// fieldsOf returns the types of a struct's fields by their keys: the tags, or the names in lower
// case.
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

// Members visits the keys of an object. A key that is there twice is an error: a program that reads
// one of its values overlooks the other. The first error ends the visit. Data that is no object is
// an error.
func Members(data []byte, visit func(key string, value json.RawMessage) error) error {
	if err := checkTexts(data); err != nil {
		return fmt.Errorf("want an object in JSON: %w", err)
	}
	if trimmed := bytes.TrimSpace(data); !json.Valid(data) || trimmed[0] != '{' {
		return fmt.Errorf("want an object in JSON, not %s", Short(data))
	}
	return members(data, "", visit)
}

// members visits the keys of an object at a place.
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

// elements visits the elements of a list.
func elements(data []byte, visit func(i int, value json.RawMessage) error) error {
	var list []json.RawMessage
	err := json.Unmarshal(data, &list)
	for i := 0; i < len(list) && err == nil; i++ {
		err = visit(i, list[i])
	}
	return err
}

func isNull(data []byte) bool { return string(bytes.TrimSpace(data)) == "null" }

// compact returns a value without white space between its parts, and anything that is no JSON
// unchanged.
func compact(value []byte) string {
	var b bytes.Buffer
	if json.Compact(&b, value) != nil {
		return string(value)
	}
	return b.String()
}

// Short returns a JSON value for an error: on one line, cut after 100 characters.
func Short(value []byte) string {
	const most = 100
	text := []rune(compact(value))
	if len(text) > most {
		text = append(text[:most], '…')
	}
	return string(text)
}
