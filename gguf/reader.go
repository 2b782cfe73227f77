package gguf

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"unicode/utf8"
)

// reader takes values from the beginning of a file. It keeps the first error, after which all
// values are zero.
type reader struct {
	file *bufio.Reader
	at   int64
	size int64 // of the file
	err  error
}

// mostBytes is more than the longest string of published files has, a tokenizer as JSON.
const mostBytes = 64 << 20

func (r *reader) fail(format string, args ...any) { r.check(fmt.Errorf(format, args...)) }

func (r *reader) check(err error) {
	if r.err == nil {
		r.err = err
	}
}

// fill takes the next bytes of the file.
func (r *reader) fill(to []byte) {
	if int64(len(to)) > r.size-r.at {
		r.fail("the header needs %d bytes at byte %d, want no more than the file, which has %d", len(to),
			r.at, r.size)
	}
	if r.err == nil {
		_, err := io.ReadFull(r.file, to)
		r.check(err)
		r.at += int64(len(to))
	}
}

// number is the next n bytes as an integer.
func (r *reader) number(n int) uint64 {
	var b [8]byte
	r.fill(b[:n])
	return binary.LittleEndian.Uint64(b[:])
}

func (r *reader) uint32() uint32 { return uint32(r.number(4)) }
func (r *reader) uint64() uint64 { return r.number(8) }

// count is a number of things that have some bytes each at least.
func (r *reader) count(what string, least int) uint64 {
	n := r.uint64()
	if left := uint64(r.size-r.at) / uint64(least); r.err == nil && n > left {
		r.fail("it is to have %d %s, want no more than the file has bytes for, %d", n, what, left)
	}
	return n
}

// utf8 is a string that is UTF-8.
func (r *reader) utf8(what string) string {
	text := r.text(what)
	if !utf8.ValidString(text) {
		r.fail("%s is %q, want UTF-8", what, text)
	}
	return text
}

// text is a string.
func (r *reader) text(what string) string {
	n := r.uint64()
	if r.err == nil && n > uint64(min(mostBytes, r.size-r.at)) {
		r.fail("%s is to have %d bytes, want at most %d, and no more than the file, which has %d", what,
			n, mostBytes, r.size)
	}
	if r.err != nil {
		return ""
	}
	text := make([]byte, n)
	r.fill(text)
	return string(text)
}

// The types of values in metadata.
const (
	arrayType  = 9
	stringType = 8
)

// scalars reads the values that are neither strings nor arrays.
var scalars = map[uint32]struct {
	bytes int
	value func(bits uint64) any
}{
	0:  {1, func(b uint64) any { return uint8(b) }},
	1:  {1, func(b uint64) any { return int8(b) }},
	2:  {2, func(b uint64) any { return uint16(b) }},
	3:  {2, func(b uint64) any { return int16(b) }},
	4:  {4, func(b uint64) any { return uint32(b) }},
	5:  {4, func(b uint64) any { return int32(b) }},
	6:  {4, func(b uint64) any { return math.Float32frombits(uint32(b)) }},
	7:  {1, func(b uint64) any { return b != 0 }},
	10: {8, func(b uint64) any { return b }},
	11: {8, func(b uint64) any { return int64(b) }},
	12: {8, func(b uint64) any { return math.Float64frombits(b) }},
}

func (r *reader) keyValue() (kv KeyValue) {
	kv.Key = r.utf8("a key")
	before := r.err
	kv.Value = r.value(r.uint32(), kv.Key)
	if before == nil && r.err != nil {
		r.err = fmt.Errorf("key %q: %w", kv.Key, r.err)
	}
	return kv
}

// value reads one that is no array, or an array of those.
func (r *reader) value(kind uint32, key string) any {
	if kind != arrayType {
		return r.plain(kind, key)
	}
	kind = r.uint32()
	least := 8 // of a string, its length
	if s, ok := scalars[kind]; ok {
		least = s.bytes
	}
	n := r.count("elements", least)
	if r.err == nil && kind == arrayType {
		r.check(errors.New("it has arrays in an array, want numbers, bools or strings"))
	}
	if r.err != nil {
		return nil
	}
	list := make([]any, 0, min(n, 1<<20))
	for i := uint64(0); i < n && r.err == nil; i++ {
		list = append(list, r.plain(kind, key))
	}
	return list
}

func (r *reader) plain(kind uint32, key string) any {
	if kind == stringType {
		return r.text(key)
	}
	s, ok := scalars[kind]
	if !ok {
		r.fail("a value is of type %d, want 0 to 12", kind)
		return nil
	}
	value := s.value(r.number(s.bytes))
	if f, ok := value.(float32); ok && f-f != 0 {
		r.fail("it is %v, want finite numbers", f)
	} else if f, ok := value.(float64); ok && f-f != 0 {
		r.fail("it is %v, want finite numbers", f)
	}
	return value
}
