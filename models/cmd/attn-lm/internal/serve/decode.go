package serve

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-1415985d/attn/internal/strictjson"
)

// obey reads the value of a field, which is not null. Its error says what is wanted, or is a
// problem.
type obey func(value json.RawMessage) error

// fields are the fields that an object may have. Null means that the field is absent.
type fields map[string]obey

// decode reads an object. at is its name for errors, "" for the request itself.
func (f fields) decode(at string, data []byte) error {
	err := strictjson.Members(data, func(key string, value json.RawMessage) error {
		name := strings.TrimPrefix(at+"."+key, ".")
		do, ok := f[key]
		switch {
		case !ok:
			return f.unknown(name, key)
		case isNull(value):
			return nil
		}
		return refused(name, value, do(value))
	})
	var p *problem
	if err != nil && !errors.As(err, &p) {
		err = refused(at, data, err)
	}
	return err
}

func isNull(value json.RawMessage) bool { return string(value) == "null" }

// refused returns the problem of an invalid value.
func refused(name string, value []byte, err error) error {
	var p *problem
	if err == nil || errors.As(err, &p) {
		return err
	}
	return invalid(name, "%s is %s, %s", cmp.Or(name, "the body"), strictjson.Short(value),
		err.Error())
}

// unknown returns the problem of a field that an object does not have.
func (f fields) unknown(name, key string) error {
	for known := range f {
		if strings.EqualFold(known, key) {
			return invalid(name, "%s is not known, want %s", name, known).coded(400, "unknown_parameter")
		}
	}
	return invalid(name, "%s is not known", strconv.Quote(name)).coded(400, "unknown_parameter")
}

// decodeBody reads a request. No object in it may have a key twice.
func decodeBody(data []byte, f fields) error {
	var all json.RawMessage
	if err := json.Unmarshal(data, &all); err != nil {
		return invalid("", "the body is not JSON: %v", err)
	}
	if trimmed := bytes.TrimLeft(all, " \t\r\n"); trimmed[0] != '{' {
		return invalid("", "the body is %s, want an object in JSON", strictjson.Short(all))
	}
	if name, twice := duplicate(all); twice {
		return invalid(name, "%s is there twice, want it once", strconv.Quote(name))
	}
	return f.decode("", all)
}

// level is an object or a list that is being read.
type level struct {
	seen map[string]bool // nil for a list
	name string          // of the current value
	key  bool            // a key comes next
	n    int             // elements of a list so far
}

// duplicate finds a key that an object of a valid JSON text has twice.
func duplicate(data []byte) (name string, twice bool) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var open []level
	for {
		token, err := d.Token()
		if err != nil { // the end of the text
			return "", false
		}
		top := len(open) - 1
		if key, ok := token.(string); ok && top >= 0 && open[top].key {
			o := &open[top]
			if o.seen[key] {
				return pathOf(open[:top], key), true
			}
			o.seen[key], o.name, o.key = true, key, false
			continue
		}
		switch token {
		case json.Delim('{'):
			open = append(open, level{seen: map[string]bool{}, key: true})
			continue
		case json.Delim('['):
			open = append(open, level{})
			continue
		case json.Delim('}'), json.Delim(']'):
			open = open[:top]
		}
		if top = len(open) - 1; top >= 0 { // a value has ended
			open[top].key, open[top].n = open[top].seen != nil, open[top].n+1
		}
	}
}

// pathOf returns the name of a key below others.
func pathOf(open []level, key string) string {
	var path strings.Builder
	for i := range open {
		switch o := &open[i]; {
		case o.seen == nil:
			fmt.Fprintf(&path, "[%d]", o.n)
		case path.Len() > 0:
			path.WriteString("." + o.name)
		default:
			path.WriteString(o.name)
		}
	}
	return strings.TrimPrefix(path.String()+"."+key, ".")
}

// neutral accepts any value: the field has no effect.
func neutral(json.RawMessage) error { return nil }

// only accepts some values, as compact JSON, and refuses others because the server lacks a feature.
func only(why string, values ...string) obey {
	return func(value json.RawMessage) error {
		var text bytes.Buffer
		if json.Compact(&text, value) == nil && slices.Contains(values, text.String()) {
			return nil
		}
		return errors.New("want " + strings.Join(append(values, "null"), " or ") + ": " + why)
	}
}

// to reads a value of a type.
func to[T any](into *T, want string) obey {
	return func(value json.RawMessage) error {
		if json.Unmarshal(value, into) != nil {
			return errors.New("want " + want)
		}
		return nil
	}
}

func toText(into *string) obey { return to(into, "a text") }

func toBool(into *bool) obey { return to(into, "true or false") }

// toInt reads a whole number.
func toInt(into *int, from, most int) obey {
	return func(value json.RawMessage) error {
		n, err := strconv.Atoi(string(value))
		if err != nil || n < from || n > most {
			if most == math.MaxInt {
				return fmt.Errorf("want a whole number of %d or more", from)
			}
			return fmt.Errorf("want a whole number from %d to %d", from, most)
		}
		*into = n
		return nil
	}
}

// toFloat reads a number, rounded to float32 once.
func toFloat(into *float32, from, most float64) obey {
	return func(value json.RawMessage) error {
		var x float64
		if json.Unmarshal(value, &x) != nil || x < from || x > most {
			if most >= math.MaxFloat32 {
				return fmt.Errorf("want a number from %v on that float32 has", from)
			}
			return fmt.Errorf("want a number from %v to %v", from, most)
		}
		*into = float32(x)
		return nil
	}
}

// toSeed reads a whole number of 64 bits. A negative one is the seed with the same bits: -1 is 2^64
// - 1.
func toSeed(into **uint64) obey {
	return func(value json.RawMessage) error {
		if n, err := strconv.ParseInt(string(value), 10, 64); err == nil {
			*into = new(uint64(n))
			return nil
		}
		n, err := strconv.ParseUint(string(value), 10, 64)
		if err != nil {
			return errors.New("want a whole number of 64 bits")
		}
		*into = &n
		return nil
	}
}

// listOf reads a list without null.
func listOf[T any](value json.RawMessage) ([]T, bool) {
	var list []*T
	if json.Unmarshal(value, &list) != nil {
		return nil, false
	}
	all := make([]T, len(list))
	for i, x := range list {
		if x == nil {
			return nil, false
		}
		all[i] = *x
	}
	return all, true
}

// toTexts reads a text or a list of texts.
func toTexts(into *[]string, most int) obey {
	return func(value json.RawMessage) error {
		var one string
		if value[0] == '"' && json.Unmarshal(value, &one) == nil {
			*into = []string{one}
			return nil
		}
		list, ok := listOf[string](value)
		if !ok || len(list) == 0 || len(list) > most {
			return fmt.Errorf("want a text or a list of 1 to %d texts", most)
		}
		*into = list
		return nil
	}
}
