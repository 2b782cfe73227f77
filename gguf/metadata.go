package gguf

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/seed-1415985d/attn/internal/strictjson"
)

// Unmarshal decodes the keys of a group, such as "llama" or "tokenizer", into a struct. Keys begin
// with the group and a dot; the rest of the key is the JSON tag of its field:
//
//	Heads int `json:"attention.head_count"`
//
// Each key must have a field or be idle: a key of the map idle, by the rest of its name, without
// effect on what the program computes. The map's value lists the values that the key may have, as
// compact JSON, or is nil for any: {"use_mrope": {"false"}, "quantization_version": nil}. A * at
// the end of a key of the map matches any rest. Other keys of the file are errors, and so are
// strings that are invalid UTF-8 unless their keys are idle. Fields without a key in the file keep
// their values. Slices are copies.
func (f *File) Unmarshal(group string, into any, idle map[string][]string) error {
	var text bytes.Buffer
	comma := ""
	text.WriteByte('{')
	for _, kv := range f.Metadata {
		key, ok := strings.CutPrefix(kv.Key, group+".")
		if !ok {
			continue
		}
		if err := checkText(kv, key, idle); err != nil {
			return f.named(err)
		} else if isBad(kv.Value) || setList(into, key, kv.Value) {
			continue
		}
		fmt.Fprintf(&text, "%s%s: %s", comma, asJSON(key), asJSON(kv.Value))
		comma = ", "
	}
	text.WriteByte('}')
	if err := json.Unmarshal(text.Bytes(), into); err != nil {
		return f.named(fmt.Errorf("%s: want metadata as published models have it: %w", group, err))
	}
	return f.named(strictjson.CheckKeys(group, text.Bytes(), into, idle))
}

// setList sets the field of a key directly if both are lists of the same type, or of integers. A
// vocabulary as JSON would cost more time than the rest of opening a model.
func setList(into any, key string, value any) bool {
	if _, own := into.(json.Unmarshaler); own {
		return false
	}
	to := reflect.Indirect(reflect.ValueOf(into))
	if to.Kind() != reflect.Struct {
		return false
	}
	for _, f := range reflect.VisibleFields(to.Type()) {
		if f.Tag.Get("json") != key || !f.IsExported() || len(f.Index) > 1 {
			continue
		}
		switch field := to.FieldByIndex(f.Index).Addr().Interface().(type) {
		case *[]string:
			return setTo(field, value)
		case *[]float32:
			return setTo(field, value)
		case *[]int:
			list, ok := value.([]int32)
			if ok {
				*field = make([]int, len(list))
				for i, n := range list {
					(*field)[i] = int(n)
				}
			}
			return ok
		}
	}
	return false
}

// setTo sets a list to a copy of a value of the same type, and reports whether it is.
func setTo[T any](list *[]T, value any) bool {
	from, ok := value.([]T)
	if ok {
		*list = slices.Clone(from)
	}
	return ok
}

// CheckKeys refuses keys outside of groups, which the caller has read, unless their whole names are
// idle as in [File.Unmarshal]. So no setting of a file is overlooked.
func (f *File) CheckKeys(idle map[string][]string, groups ...string) error {
	for _, kv := range f.Metadata {
		if slices.ContainsFunc(groups, func(group string) bool {
			return strings.HasPrefix(kv.Key, group+".")
		}) {
			continue
		}
		err := checkText(kv, kv.Key, idle)
		if err == nil && !isBad(kv.Value) {
			err = strictjson.Idle(idle).Check(kv.Key, asJSON(kv.Value))
		}
		if err != nil {
			return f.named(err)
		}
	}
	return nil
}

// checkText refuses strings that are invalid UTF-8, unless key, the rest of the whole key, is idle:
// a description has no effect, but a token would be another one.
func checkText(kv KeyValue, key string, idle strictjson.Idle) error {
	bad := badText(kv.Value)
	if bad == nil || idle.Check(key, asJSON(*bad)) == nil { // idle values are valid texts
		return nil
	}
	is := "is"
	if _, ok := kv.Value.(string); !ok {
		is = "has"
	}
	return fmt.Errorf("key %q %s %q, want UTF-8", kv.Key, is, *bad)
}

func isBad(value any) bool { return badText(value) != nil }

// badText returns the first text of a value that is invalid UTF-8, nil for none.
func badText(value any) *string {
	texts, _ := value.([]string)
	if text, ok := value.(string); ok {
		texts = []string{text}
	}
	for i, text := range texts {
		if !utf8.ValidString(text) {
			return &texts[i]
		}
	}
	return nil
}

// asJSON returns a value of metadata as JSON.
func asJSON(value any) []byte {
	if list, ok := value.([]uint8); ok { // package json would write base64
		numbers := make([]uint16, len(list))
		for i, n := range list {
			numbers[i] = uint16(n)
		}
		value = numbers
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(value)
	return bytes.TrimSpace(b.Bytes())
}
