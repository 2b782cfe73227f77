package cluster

import (
	"encoding/binary"
	"math"
	"slices"
	"sync"
)

// Messages are numbers in little-endian order, and lists with their length before them.

// encoder writes a message.
type encoder struct{ data []byte }

// buffers are those of messages that have gone, and that nobody reads any more.
var buffers sync.Pool

// mostReused is the largest buffer that is kept for another message.
const mostReused = 1 << 20

// newBuffer has room for a number of bytes.
func newBuffer(size int) []byte {
	if b, ok := buffers.Get().(*[]byte); ok && cap(*b) >= size {
		return (*b)[:0]
	}
	return make([]byte, 0, size)
}

// reuse gives a buffer to others.
func reuse(b []byte) {
	if cap(b) <= mostReused {
		buffers.Put(&b)
	}
}

func (e *encoder) u8(x uint8)    { e.data = append(e.data, x) }
func (e *encoder) u32(x uint32)  { e.data = binary.LittleEndian.AppendUint32(e.data, x) }
func (e *encoder) u64(x uint64)  { e.data = binary.LittleEndian.AppendUint64(e.data, x) }
func (e *encoder) f32(x float32) { e.u32(math.Float32bits(x)) }

func (e *encoder) flag(x bool) {
	if x {
		e.u8(1)
	} else {
		e.u8(0)
	}
}

func (e *encoder) bytes(x []byte) {
	e.u32(uint32(len(x)))
	e.data = append(e.data, x...)
}

func (e *encoder) text(x string) {
	e.u32(uint32(len(x)))
	e.data = append(e.data, x...)
}

func (e *encoder) floats(x []float32) {
	e.u32(uint32(len(x)))
	e.row(x)
}

// row writes numbers without their length.
func (e *encoder) row(x []float32) {
	at := len(e.data)
	e.data = slices.Grow(e.data, 4*len(x))[:at+4*len(x)]
	for i, f := range x {
		binary.LittleEndian.PutUint32(e.data[at+4*i:], math.Float32bits(f))
	}
}

// bits writes rows of flags, eight to a byte and each row from a byte on.
func (e *encoder) bits(x []bool, width int) {
	for ; len(x) > 0; x = x[width:] {
		at := len(e.data)
		e.data = append(e.data, make([]byte, bitBytes(width))...)
		row := e.data[at:]
		for i, is := range x[:width] {
			if is {
				row[i/8] |= 1 << (i % 8)
			}
		}
	}
}

// bitBytes is how many bytes a row of flags takes.
func bitBytes(flags int) int { return (flags + 7) / 8 }

func (e *encoder) u32s(x []uint32) {
	e.u32(uint32(len(x)))
	for _, n := range x {
		e.u32(n)
	}
}

func (e *encoder) u64s(x []uint64) {
	e.u32(uint32(len(x)))
	for _, n := range x {
		e.u64(n)
	}
}

// decoder reads a message. The first fault is its error, and everything after it reads as zero. No
// list is made before the message was seen to be long enough for it, and before what it takes was
// counted.
type decoder struct {
	data []byte
	load *load // of a request
	err  error

	parts, pieces int // that there are until now
}

// room counts what n elements of some bytes take that are about to be made, and returns n, or 0 if
// there is no room for them.
func (d *decoder) room(n, bytes int) int {
	if d.err == nil && n > 0 {
		d.err = d.load.takeMade(int64(n) * int64(bytes))
	}
	if d.err != nil {
		return 0
	}
	return n
}

// take is the next n bytes, nil if there are fewer.
func (d *decoder) take(n int) []byte {
	if d.err == nil && n > len(d.data) {
		d.err = fail(ErrProtocol, "the message ends %d bytes too early", n-len(d.data))
	}
	if d.err != nil {
		return nil
	}
	x := d.data[:n:n]
	d.data = d.data[n:]
	return x
}

func (d *decoder) u8() uint8 {
	if x := d.take(1); x != nil {
		return x[0]
	}
	return 0
}

func (d *decoder) u32() uint32 {
	if x := d.take(4); x != nil {
		return binary.LittleEndian.Uint32(x)
	}
	return 0
}

func (d *decoder) u64() uint64 {
	if x := d.take(8); x != nil {
		return binary.LittleEndian.Uint64(x)
	}
	return 0
}

func (d *decoder) f32() float32 { return math.Float32frombits(d.u32()) }

func (d *decoder) flag() bool {
	x := d.u8()
	if x > 1 {
		d.refuse("a flag is %d, want 0 or 1", x)
	}
	return x == 1
}

// most is the largest length and size that messages have; so products of a few fit 64 bits.
const most = 1 << 28

// size reads a number of 0 to most.
func (d *decoder) size(name string) int {
	n := d.u32()
	if n > most {
		d.refuse("%s is %d, want at most %d", name, n, most)
		return 0
	}
	return int(n)
}

// offset reads a position that may be negative.
func (d *decoder) offset(name string) int {
	n := int64(d.u64())
	if n > 2*most || n < -2*most {
		d.refuse("%s is %d, want at most %d either way", name, n, 2*most)
		return 0
	}
	return int(n)
}

// list reads the length of a list whose elements have at least a number of bytes, all of which are
// there.
func (d *decoder) list(bytes int) int {
	n := d.u32()
	if d.err == nil && uint64(n)*uint64(bytes) > uint64(len(d.data)) {
		d.refuse("a list of %d times %d bytes begins %d bytes before the end", n, bytes, len(d.data))
	}
	if d.err != nil {
		return 0
	}
	return int(n)
}

// atMost is list for a list that has a name and a longest length, after some elements of others.
func (d *decoder) atMost(name string, bytes, before, most int) int {
	n := d.list(bytes)
	if n > most-before {
		d.refuse("there are %d %s, want at most %d", before+n, name, most)
		return 0
	}
	return n
}

func (d *decoder) bytes() []byte { return d.take(d.list(1)) }

// text reads a string of at most a number of bytes.
func (d *decoder) text(longest int) string {
	n := d.list(1)
	if n > longest {
		d.refuse("a text has %d bytes, want at most %d", n, longest)
	}
	return string(d.take(n))
}

func (d *decoder) floats() []float32 {
	n := d.list(4)
	if n == 0 {
		return nil
	}
	return d.row(n)
}

// row reads numbers without their length.
func (d *decoder) row(n int) []float32 {
	raw := d.take(4 * d.room(n, 4))
	x := make([]float32, len(raw)/4)
	for i := range x {
		x[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return x
}

func (d *decoder) u32s() []uint32 {
	x := make([]uint32, d.room(d.list(4), 4))
	for i := range x {
		x[i] = d.u32()
	}
	return x
}

func (d *decoder) u64s() []uint64 {
	x := make([]uint64, d.room(d.list(8), 8))
	for i := range x {
		x[i] = d.u64()
	}
	return x
}

// bits reads rows of flags of some heads, each row from a byte on.
func (d *decoder) bits(name string, heads, rows, width int) []bool {
	raw := d.take(d.product(name, heads, rows, bitBytes(width)))
	if len(raw) == 0 {
		return nil
	}
	x := make([]bool, d.room(heads*rows*width, 1))
	for at := 0; at < len(x); at += width {
		for i := range x[at : at+width] {
			x[at+i] = raw[i/8]>>(i%8)&1 == 1
		}
		raw = raw[bitBytes(width):]
	}
	return x
}

// table reads rows of numbers of some heads.
func (d *decoder) table(name string, heads, rows, width int) []float32 {
	n := d.product(name, heads, rows, 4*width) / 4
	if n == 0 {
		return nil
	}
	return d.row(n)
}

// product is how many bytes rows of some heads have, all of which are there.
func (d *decoder) product(name string, heads, rows, bytes int) int {
	n := uint64(heads) * uint64(rows) // each at most most
	if n > most {
		n = math.MaxInt64 // no message has as much
	} else {
		n *= uint64(bytes)
	}
	if d.err == nil && n > uint64(len(d.data)) {
		d.refuse("%s of %d heads has %d rows of %d bytes, and begins %d bytes before the end", name,
			heads, rows, bytes, len(d.data))
	}
	if d.err != nil {
		return 0
	}
	return int(n)
}

func (d *decoder) refuse(format string, args ...any) {
	if d.err == nil {
		d.err = fail(ErrProtocol, format, args...)
	}
}

// end is the decoder's error, which it also is if bytes are left.
func (d *decoder) end() error {
	if len(d.data) > 0 {
		d.refuse("%d bytes follow the end of the message", len(d.data))
	}
	return d.err
}
