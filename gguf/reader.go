package gguf

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// reader reads values from the beginning of a file. It keeps the first error; after that all values
// are zero.
type reader struct {
	file *bufio.Reader
	at   int64
	size int64 // size of the file
	err  error

	letters []byte // buffer for the string that is being read
}

const (
	// mostBytes bounds a string. The longest ones of published files are tokenizers as JSON.
	mostBytes = 64 << 20
	// mostHeader bounds a header. The longest ones of published files have a few tokenizers.
	mostHeader = 256 << 20
)

func (r *reader) fail(format string, args ...any) { r.check(fmt.Errorf(format, args...)) }

func (r *reader) check(err error) {
	if r.err == nil {
		r.err = err
	}
}

// left returns how many more bytes the header may have.
func (r *reader) left() int64 { return min(r.size, mostHeader) - r.at }

// fill reads the next len(to) bytes of the file.
func (r *reader) fill(to []byte) {
	if int64(len(to)) > r.left() {
		r.fail("the header needs %d bytes at byte %d, want no more than the file, which has %d, and %d "+
			"at most", len(to), r.at, r.size, mostHeader)
	}
	if r.err == nil {
		_, err := io.ReadFull(r.file, to)
		r.check(err)
		r.at += int64(len(to))
	}
}

// number reads n bytes as an unsigned integer.
func (r *reader) number(n int) uint64 {
	var b [8]byte
	r.fill(b[:n])
	return binary.LittleEndian.Uint64(b[:])
}

func (r *reader) uint32() uint32 { return uint32(r.number(4)) }
func (r *reader) uint64() uint64 { return r.number(8) }

// count reads a number of entries, each of which has at least least bytes. So a damaged count fails
// before anything is allocated.
func (r *reader) count(what string, least int) uint64 {
	n := r.uint64()
	if left := uint64(r.left()) / uint64(least); r.err == nil && n > left {
		r.fail("it is to have %d %s, want no more than the header has bytes for, %d", n, what, left)
	}
	return n
}

// utf8 reads a string that must be valid UTF-8.
func (r *reader) utf8(what string) string {
	text := r.text(what)
	if !utf8.ValidString(text) {
		r.fail("%s is %q, want UTF-8", what, text)
	}
	return text
}

// text reads a string.
func (r *reader) text(what string) string { return string(r.bytes(what)) }

// bytes reads a string into a buffer that the next string overwrites.
func (r *reader) bytes(what string) []byte {
	n := r.uint64()
	if r.err == nil && n > uint64(min(mostBytes, r.left())) {
		r.fail("%s is to have %d bytes, want at most %d, and no more than the file, which has %d", what,
			n, mostBytes, r.size)
	}
	if r.err != nil {
		return nil
	}
	if r.letters = slices.Grow(r.letters[:0], int(n))[:n]; n > 0 {
		r.fill(r.letters)
	}
	return r.letters
}

// texts returns a function that reads one string after another into shared memory: a vocabulary has
// many short ones.
func (r *reader) texts(what string) func(r *reader) string {
	const together = 1 << 14 // bytes of an allocation
	var b strings.Builder
	return func(r *reader) string {
		next := r.bytes(what)
		if b.Cap()-b.Len() < len(next) {
			b = strings.Builder{}
			b.Grow(max(together, len(next)))
		}
		at := b.Len()
		b.Write(next)
		return b.String()[at:]
	}
}

// Types of values in metadata that are not scalars.
const (
	arrayType  = 9
	stringType = 8
)

// scalar reads a type of numbers or bools: a single value, or an array.
type scalar struct {
	bytes int
	value func(r *reader) any
	array func(r *reader, n uint64) any
}

var scalars = map[uint32]scalar{
	0: scalarOf(1, integer[uint8]),
	1: scalarOf(1, integer[int8]),
	2: scalarOf(2, integer[uint16]),
	3: scalarOf(2, integer[int16]),
	4: scalarOf(4, integer[uint32]),
	5: scalarOf(4, integer[int32]),
	6: scalarOf(4, func(r *reader, b uint64) float32 {
		return finite(r, math.Float32frombits(uint32(b)))
	}),
	7:  scalarOf(1, truth),
	10: scalarOf(8, integer[uint64]),
	11: scalarOf(8, integer[int64]),
	12: scalarOf(8, func(r *reader, b uint64) float64 { return finite(r, math.Float64frombits(b)) }),
}

func scalarOf[T any](bytes int, value func(r *reader, bits uint64) T) scalar {
	next := func(r *reader) T { return value(r, r.number(bytes)) }
	return scalar{bytes, func(r *reader) any { return next(r) },
		func(r *reader, n uint64) any { return array(r, n, next) }}
}

func integer[T uint8 | int8 | uint16 | int16 | uint32 | int32 | uint64 | int64](_ *reader,
	bits uint64) T {
	return T(bits)
}

// truth converts a byte, which must be 0 or 1, to a bool.
func truth(r *reader, b uint64) bool {
	if b > 1 {
		r.fail("it is a bool of %d, want 0 or 1", b)
	}
	return b == 1
}

func finite[T float32 | float64](r *reader, x T) T {
	if x-x != 0 {
		r.fail("it is %v, want finite numbers", x)
	}
	return x
}

// array reads n values. It allocates as it reads, since n may be damaged.
func array[T any](r *reader, n uint64, next func(r *reader) T) []T {
	list := make([]T, 0, min(n, 1<<16))
	for i := uint64(0); i < n && r.err == nil; i++ {
		list = append(list, next(r))
	}
	return list
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

// value reads a scalar, a string, or an array of either.
func (r *reader) value(kind uint32, key string) any {
	isArray := kind == arrayType
	if isArray {
		kind = r.uint32()
	}
	s, ok := scalars[kind]
	if kind == stringType {
		s, ok = scalar{8, func(r *reader) any { return r.text(key) }, func(r *reader, n uint64) any {
			return array(r, n, r.texts(key))
		}}, true // a string has at least 8 bytes, its length
	}
	switch {
	case r.err != nil:
	case isArray && kind == arrayType:
		r.fail("it has arrays in an array, want numbers, bools or strings")
	case !ok:
		r.fail("a value is of type %d, want 0 to 12", kind)
	case isArray:
		if n := r.count("elements", s.bytes); r.err == nil {
			return s.array(r, n)
		}
	default:
		return s.value(r)
	}
	return nil
}
