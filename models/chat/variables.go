package chat

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"

	"github.com/seed-1415985d/attn/models/internal/jinja"
)

// mostNested bounds how deep lists and maps of a variable are nested.
const mostNested = 100

// variable returns a value for templates. All its strings are the caller's, so they are Input.
func variable(value any) (any, error) { return convert(reflect.ValueOf(value), mostNested) }

func convert(v reflect.Value, nested int) (any, error) {
	if nested == 0 {
		return nil, fmt.Errorf("has values more than %d deep in one another, want fewer", mostNested)
	}
	if n, ok := valueOf(v).(json.Number); ok {
		return number(n)
	}
	switch v.Kind() {
	case reflect.Invalid: // nil
		return nil, nil
	case reflect.Interface, reflect.Pointer:
		return convert(v.Elem(), nested-1)
	case reflect.Bool:
		return v.Bool(), nil
	case reflect.String:
		return jinja.Input(v.String()), nil
	case reflect.Float32, reflect.Float64:
		return v.Float(), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return int(v.Int()), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if v.Uint() > math.MaxInt {
			return nil, fmt.Errorf("is %d, want at most %d", v.Uint(), math.MaxInt)
		}
		return int(v.Uint()), nil
	case reflect.Slice, reflect.Array:
		return convertList(v, nested)
	case reflect.Map:
		if v.Type().Key().Kind() == reflect.String {
			return convertMap(v, nested)
		}
	}
	return nil, fmt.Errorf("has a value of type %v, want nil, a bool, a number, a string, or a slice "+
		"or a map with keys of string of these", v.Type())
}

// valueOf returns what a pointer or interface holds, nil for nothing.
func valueOf(v reflect.Value) any {
	if !v.IsValid() {
		return nil
	}
	return v.Interface()
}

// number returns a number of JSON.
func number(n json.Number) (any, error) {
	if i, err := strconv.Atoi(n.String()); err == nil {
		return i, nil
	}
	f, err := n.Float64()
	if err != nil {
		return nil, fmt.Errorf("has the number %q, want one of 64 bits", n)
	}
	return f, nil
}

func convertList(v reflect.Value, nested int) (any, error) {
	list := []any{}
	for i := range v.Len() {
		item, err := convert(v.Index(i), nested-1)
		if err != nil {
			return nil, err
		}
		list = append(list, item)
	}
	return list, nil
}

func convertMap(v reflect.Value, nested int) (any, error) {
	made := map[string]any{}
	for entries := v.MapRange(); entries.Next(); {
		value, err := convert(entries.Value(), nested-1)
		if err != nil {
			return nil, err
		}
		made[entries.Key().String()] = value
	}
	return made, nil
}
