package cluster

import (
	"encoding/binary"
	"math"
	"slices"
	"sync"
)

// codec writes a message, reads one, or counts its bytes: numbers in little-endian order, and lists
// after their length. A message lists its fields once, in order, for all three.
//
// The first fault in a message is the codec's error, and everything after it reads as zero. A list
// is allocated only after the message was found long enough for it, and its memory was counted.
type codec struct {
	mode   mode
	data   []byte // written, or still to be read
	count  int    // bytes, if it only counts
	worker string // whose reply is being read
	load   *load  // of the request being read
	err    error

	parts, pieces int // read so far
}

type mode uint8

const (
	writes mode = iota
	reads
	counts
)

// body is a message after its head.
type body interface{ wire(c *codec) }

// nothing is the body of messages that only have a head.
type nothing struct{}

func (nothing) wire(*codec) {}

// sizeOf returns the encoded size of a body.
func sizeOf(x body) int {
	c := codec{mode: counts}
	x.wire(&c)
	return c.count
}

// bytesOf returns the encoded bytes of a body.
func bytesOf(x body) []byte {
	return write(x, func(size int) []byte { return make([]byte, 0, size) })
}

// write encodes a body into a buffer of its size.
func write(x body, buffer func(size int) []byte) []byte {
	c := codec{mode: counts}
	x.wire(&c)
	c.mode, c.data = writes, buffer(c.count)
	x.wire(&c)
	return c.data
}

// read reads the rest of a message.
func (c *codec) read(x body) error {
	x.wire(c)
	return c.end()
}

// buffers are the buffers of sent messages, which nobody reads any more.
var buffers sync.Pool

// mostReused is the largest buffer that is kept for another message.
const mostReused = 1 << 20

// newBuffer returns a buffer of size bytes.
func newBuffer(size int) []byte {
	if b, ok := buffers.Get().(*[]byte); ok && cap(*b) >= size {
		return (*b)[:0]
	}
	return make([]byte, 0, size)
}

// reuse makes a buffer available for other messages.
func reuse(b []byte) {
	if cap(b) <= mostReused {
		buffers.Put(&b)
	}
}

// next returns the next n bytes: to be filled, or read from the message, nil if there are too few.
func (c *codec) next(n int) []byte {
	at := len(c.data)
	switch {
	case c.mode == counts:
		c.count += n
		return nil
	case c.mode == writes:
		c.data = slices.Grow(c.data, n)[:at+n]
		return c.data[at:]
	case c.err == nil && n > at:
		c.err = fail(ErrProtocol, "the message ends %d bytes too early", n-at)
	}
	if c.err != nil {
		return nil
	}
	x := c.data[:n:n]
	c.data = c.data[n:]
	return x
}

// room counts the memory of n elements that are about to be allocated, and returns n, or 0 if there
// is no room for them.
func (c *codec) room(n, bytes int) int {
	if c.err == nil && n > 0 {
		c.err = c.load.takeMade(int64(n) * int64(bytes))
	}
	if c.err != nil {
		return 0
	}
	return n
}

// number writes x in some bytes, or reads a number.
func (c *codec) number(x uint64, bytes int) uint64 {
	b := c.next(bytes)
	var raw [8]byte
	if c.mode == reads {
		copy(raw[:], b)
		return binary.LittleEndian.Uint64(raw[:])
	}
	binary.LittleEndian.PutUint64(raw[:], x)
	copy(b, raw[:])
	return x
}

// set stores a value that was read. It does nothing while writing: the message may be shared.
func set[T any](c *codec, x *T, value T) {
	if c.mode == reads {
		*x = value
	}
}

func (c *codec) u8(x *uint8)   { set(c, x, uint8(c.number(uint64(*x), 1))) }
func (c *codec) u32(x *uint32) { set(c, x, uint32(c.number(uint64(*x), 4))) }
func (c *codec) u64(x *uint64) { set(c, x, c.number(*x, 8)) }

func (c *codec) f32(x *float32) {
	set(c, x, math.Float32frombits(uint32(c.number(uint64(math.Float32bits(*x)), 4))))
}

func (c *codec) flag(x *bool) {
	n := uint8(0)
	if *x {
		n = 1
	}
	if c.u8(&n); n > 1 {
		c.refuse("a flag is %d, want 0 or 1", n)
	}
	set(c, x, n == 1)
}

// maxLength is the largest length and size in messages, so that products of a few fit 64 bits.
const maxLength = 1 << 28

// size is a number of 0 to maxLength.
func (c *codec) size(name string, x *int) {
	n := c.number(uint64(*x), 4)
	if n > maxLength {
		c.refuse("%s is %d, want at most %d", name, n, maxLength)
		n = 0
	}
	set(c, x, int(n))
}

// offset is a position that may be negative.
func (c *codec) offset(name string, x *int) {
	n := int64(c.number(uint64(*x), 8))
	if n > 2*maxLength || n < -2*maxLength {
		c.refuse("%s is %d, want at most %d either way", name, n, 2*maxLength)
		n = 0
	}
	set(c, x, int(n))
}

// mostAmount is the largest count in messages: sums of two fit an int64.
const mostAmount = 1<<62 - 1

// amount is a count of bytes or things.
func amount[T ~int | ~int64](c *codec, x *T) {
	n := c.number(uint64(*x), 8)
	if n > mostAmount {
		c.refuse("an amount is %d, want less than 2⁶²", n)
	}
	set(c, x, T(n))
}

// length is the length of a list of elements of at least bytes bytes each, which must all be in the
// message.
func (c *codec) length(n, bytes int) int {
	x := c.number(uint64(n), 4)
	if c.mode == reads && x*uint64(bytes) > uint64(len(c.data)) {
		c.refuse("a list of %d times %d bytes begins %d bytes before the end", x, bytes, len(c.data))
	}
	if c.err != nil {
		return 0
	}
	return int(x)
}

// limited is length for a named list with a limit, after before elements of other lists.
func (c *codec) limited(n, bytes int, name string, before, most int) int {
	n = c.length(n, bytes)
	if c.mode == reads && n > most-before {
		c.refuse("there are %d %s, want at most %d", before+n, name, most)
		return 0
	}
	return n
}

// each handles all elements of a list. A list that is read is allocated: n elements, cost bytes
// each.
func each[T any](c *codec, x *[]T, n, cost int, wire func(*T)) {
	if c.mode == reads {
		*x = make([]T, c.room(n, cost))
	}
	for i := range *x {
		if wire(&(*x)[i]); c.err != nil {
			return
		}
	}
}

func (c *codec) u32s(x *[]uint32) { each(c, x, c.length(len(*x), 4), 4, c.u32) }
func (c *codec) u64s(x *[]uint64) { each(c, x, c.length(len(*x), 8), 8, c.u64) }

// bytes are read without a copy.
func (c *codec) bytes(x *[]byte) {
	if b := c.next(c.length(len(*x), 1)); c.mode == reads {
		*x = b
	} else {
		copy(b, *x)
	}
}

// text is a string of at most longest bytes.
func (c *codec) text(x *string, longest int) {
	n := c.length(len(*x), 1)
	if c.mode == reads && n > longest {
		c.refuse("a text has %d bytes, want at most %d", n, longest)
	}
	if b := c.next(n); c.mode == reads {
		*x = string(b)
	} else {
		copy(b, *x)
	}
}

func (c *codec) floats(x *[]float32) { c.row(x, c.length(len(*x), 4)) }

// row is n numbers without their length.
func (c *codec) row(x *[]float32, n int) {
	if c.mode == reads {
		n = c.room(n, 4)
	}
	raw := c.next(4 * n)
	if c.mode == writes {
		for i, f := range *x {
			binary.LittleEndian.PutUint32(raw[4*i:], math.Float32bits(f))
		}
	}
	if c.mode != reads || len(raw) == 0 {
		return
	}
	if len(*x) != n {
		*x = make([]float32, n)
	}
	all := *x
	for i := range all {
		all[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
}

// bits are rows of flags of some heads, eight to a byte; each row begins at a byte.
func (c *codec) bits(name string, x *[]bool, heads, rows, width int) {
	if c.mode == reads {
		heads = c.has(name, heads, rows, bitBytes(width))
		*x = make([]bool, c.room(heads*rows*width, 1))
	}
	for at := 0; at < len(*x); at += width {
		raw, row := c.next(bitBytes(width)), (*x)[at:at+width]
		switch c.mode {
		case writes:
			packBits(raw, row)
		case reads:
			for i := range row {
				row[i] = raw[i/8]>>(i%8)&1 == 1
			}
		}
	}
}

// packBits writes flags to bytes, which need not be zero before.
func packBits(to []byte, row []bool) {
	clear(to)
	for i, is := range row {
		if is {
			to[i/8] |= 1 << (i % 8)
		}
	}
}

// bitBytes returns the bytes of a row of flags.
func bitBytes(flags int) int { return (flags + 7) / 8 }

// table is rows of numbers of some heads.
func (c *codec) table(name string, x *[]float32, heads, rows, width int) {
	n := len(*x)
	if c.mode == reads {
		n = c.has(name, heads, rows, 4*width) * rows * width
	}
	c.row(x, n)
}

// has verifies that the message has all bytes of rows of some heads, and returns heads, or 0 if
// not.
func (c *codec) has(name string, heads, rows, bytes int) int {
	n := uint64(heads) * uint64(rows) // each at most most
	if n > maxLength || n*uint64(bytes) > uint64(len(c.data)) {
		c.refuse("%s of %d heads has %d rows of %d bytes, and begins %d bytes before the end", name,
			heads, rows, bytes, len(c.data))
	}
	if c.err != nil {
		return 0
	}
	return heads
}

func (c *codec) refuse(format string, args ...any) {
	if c.mode == reads && c.err == nil {
		c.err = fail(ErrProtocol, format, args...)
	}
}

// end returns the codec's error; bytes that are left are an error, too.
func (c *codec) end() error {
	if len(c.data) > 0 {
		c.refuse("%d bytes follow the end of the message", len(c.data))
	}
	return c.err
}
