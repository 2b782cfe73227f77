package attn

import (
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"slices"

	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/segment"
	"github.com/seed-1415985d/attn/internal/stop"
	"github.com/seed-1415985d/attn/internal/views"
)

// The binary form of a state, little-endian:
//
//	8 bytes   stateMagic; its last byte is the version
//	4 × u32   b, h, l, d
//	u32       keys
//	f32       the unit of maxima, 0 if no key was seen
//	u32       nodes
//	u32       marks: 1 if sinks follow, plus 2 if outputs are rotated (kind_latent.go)
//	f32       sinks, h of them
//	f32       in version 3: the unit of each row's maxima
//	          for each node, in the order of their keys:
//	u32       its keys
//	u32       1 if it takes more keys, else 0; only the last one may
//	f32       m and l of all rows, then o of all rows
//
// Version 2 belongs to version 2 of the numeric contract, which fixes Block, Segment and the tree
// of segments. Version 3 is that of a state whose rows have units of their own, see
// Options.Integers.
const (
	stateMagic  = "attnSta\x02"
	unitsMagic  = "attnSta\x03"
	stateHeader = len(stateMagic) + 8*4
	rotatedMark = 2
)

// stateFields are the fields of a header; all but the unit are integers.
var stateFields = [8]string{"Batch", "Heads", "Queries", "ValueDim", "number of keys", unitField,
	"number of nodes", "marks"}

const unitField = "unit"

// MarshalBinary returns the state in a form that any machine can read with UnmarshalBinary. A state
// that travels gives the same bits as one that stays. The zero State has no shape, so it has no
// such form: that is an error that wraps [ErrShape]. One of more numbers than UnmarshalBinary takes
// on this architecture is an error that wraps [ErrUnsupported].
func (s *State) MarshalBinary() ([]byte, error) { return s.AppendBinary(nil) }

// AppendBinary appends what MarshalBinary returns to data.
func (s *State) AppendBinary(data []byte) ([]byte, error) {
	if err := s.checkOpen(); err != nil {
		return nil, err
	}
	if s.d == 0 {
		return nil, fail(ErrShape, "the State is the zero value, want one from NewState or "+
			"UnmarshalBinary")
	}
	size, ok := s.binarySize()
	if !ok || size > maxInt-len(data) {
		return nil, fail(ErrUnsupported, "the State is %d×%d×%d×%d×(%d+2) numbers after %d bytes, "+
			"want at most %d numbers and %d bytes in all",
			len(s.tree.rows), s.b, s.h, s.l, s.d, len(data), maxElements, maxInt)
	}
	if cap(data)-len(data) < size {
		longer := make([]byte, len(data), len(data)+size)
		stop.Copy(longer, data)
		data = longer
	}
	marks := uint32(min(1, len(s.sinks)))
	if s.rotated {
		marks |= rotatedMark
	}
	magic := stateMagic
	if len(s.units.own) > 0 {
		magic = unitsMagic
	}
	data = append(data, magic...)
	for _, n := range [...]uint32{
		uint32(s.b), uint32(s.h), uint32(s.l), uint32(s.d), uint32(s.keys),
		math.Float32bits(s.units.all), uint32(len(s.tree.rows)), marks} {
		data = binary.LittleEndian.AppendUint32(data, n)
	}
	data = appendFloats(data, s.sinks)
	data = appendFloats(data, s.units.own)
	for i := range s.tree.rows {
		node, keys, open := &s.tree.rows[i], &s.tree.shape[i], uint32(0)
		if keys.Open {
			open = 1
		}
		data = binary.LittleEndian.AppendUint32(data, uint32(keys.Keys))
		data = binary.LittleEndian.AppendUint32(data, open)
		data = appendFloats(data, node.m)
		data = appendFloats(data, node.l)
		data = appendFloats(data, node.o)
	}
	runtime.KeepAlive(s) // and with it its memory
	return data, nil
}

// binarySize is the length of the binary form, if an int holds it.
func (s *State) binarySize() (bytes int, ok bool) {
	n, ok := views.Product(len(s.tree.rows), s.b, s.h, s.l, s.d+2)
	n += 2*len(s.tree.rows) + len(s.sinks) + len(s.units.own)
	if !ok || n > maxElements {
		return 0, false
	}
	return stateHeader + 4*n, true
}

// appendFloats writes −0 as +0: the sign of a zero depends on how the rows were
// cut, and no result on it.
func appendFloats(data []byte, x []float32) []byte {
	for _, e := range x {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(e+0))
	}
	return data
}

// UnmarshalBinary replaces the state by one that MarshalBinary wrote. Data that it cannot have
// written is an error that wraps [ErrFormat], and leaves the state as it is. So does [ErrMemory],
// if the system has no memory. It cannot know whether there are keys and values with these maxima,
// sums and outputs: a row that has seen something may have any, with a sum of at least 1.
func (s *State) UnmarshalBinary(data []byte) error {
	if err := s.checkOpen(); err != nil {
		return err
	}
	if err := checkStateMagic(data); err != nil {
		return err
	}
	var head [8]uint32
	for i := range head {
		head[i] = binary.LittleEndian.Uint32(data[len(stateMagic)+4*i:])
		if name := stateFields[i]; name != unitField && head[i] > maxLength {
			return fail(ErrFormat, "the data's %s is %d, want at most %d", name, head[i], maxLength)
		}
	}
	c := StateConfig{int(head[0]), int(head[1]), int(head[2]), int(head[3])}
	if fault := c.fault(); fault != "" {
		return fail(ErrFormat, "the data's StateConfig%s", fault)
	}
	t, err := NewState(c)
	if err != nil {
		return err
	}
	t.keys, t.units.all = int(head[4]), math.Float32frombits(head[5])
	nodes, sinks, units := int(head[6]), int(head[7]&^rotatedMark), 0
	t.rotated = head[7]&rotatedMark != 0
	if string(data[:len(unitsMagic)]) == unitsMagic {
		if units = t.rows(); units == 0 {
			return fail(ErrFormat, "data of no rows is version %d of the form, want version %d",
				unitsMagic[len(unitsMagic)-1], stateMagic[len(stateMagic)-1])
		}
	}
	if err := t.checkBody(nodes, sinks, units, len(data)-stateHeader); err != nil {
		return err
	}
	// From here on the data is as long as what it asks to allocate.
	data = data[stateHeader:]
	if sinks == 1 {
		t.sinks = make([]float32, t.h)
		data = readFloats(t.sinks, data)
		if h := slices.IndexFunc(t.sinks, isNegativeZero); h >= 0 {
			return fail(ErrFormat, "the sink of head %d is -0, want 0", h)
		}
	}
	t.units.own = make([]float32, units)
	data = readFloats(t.units.own, data)
	for r, unit := range t.units.own {
		if !(unit > 0 && unit <= math.MaxFloat32) {
			return fail(ErrFormat, "the unit of row %d is %v, want a positive finite number", r, unit)
		}
	}
	if err := t.reserve(nodes); err != nil {
		return err
	}
	if err := t.readNodes(nodes, data); err != nil {
		return err
	}
	*s = *t
	return nil
}

// checkStateMagic makes sure that data has a header of this version.
func checkStateMagic(data []byte) error {
	const version = len(stateMagic) - 1
	switch {
	case len(data) > version && string(data[:version]) == stateMagic[:version] &&
		data[version] != stateMagic[version] && data[version] != unitsMagic[version]:
		return fail(ErrFormat, "data is version %d of the form, want version %d or 3: sums of another "+
			"version of the numeric contract cannot be continued", data[version], stateMagic[version])
	case len(data) < stateHeader || string(data[:version]) != stateMagic[:version]:
		return fail(ErrFormat, "data is %d bytes and begins with %q, want a header of %d bytes that "+
			"begins with %q", len(data), data[:min(len(data), len(stateMagic))], stateHeader, stateMagic)
	}
	return nil
}

// checkBody compares the numbers in a header with each other and with the
// length of what follows.
func (s *State) checkBody(nodes, sinks, units, length int) error {
	lo, hi := min(1, s.keys), min(segment.Most, s.keys)
	if s.b == 0 || s.h == 0 || s.l == 0 {
		lo, hi = 0, 0
	}
	if nodes < lo || nodes > hi {
		return fail(ErrFormat, "%d nodes for %d keys, want %d to %d", nodes, s.keys, lo, hi)
	}
	c := float32(float64(s.units.all) * f32.Log2E)
	if !(s.units.all >= 0) || isNegativeZero(s.units.all) || c-c != 0 ||
		(s.units.all == 0) != (nodes == 0) || nodes == 0 && units > 0 {
		return fail(ErrFormat, "the unit of %d nodes is %v, want a positive number, or 0 for none",
			nodes, s.units.all)
	}
	if sinks > 1 || sinks == 1 && s.h == 0 {
		return fail(ErrFormat, "the mark of sinks is %d, want 0, or 1 with at least one head", sinks)
	}
	if s.rotated && (nodes == 0 || s.rotation() == 1) {
		return fail(ErrFormat, "outputs of %d nodes and %d dimensions are marked as rotated, want none "+
			"to be", nodes, s.d)
	}
	n, ok := views.Product(nodes, s.b, s.h, s.l, s.d+2)
	if !ok || length%4 != 0 || length/4 != n+2*nodes+sinks*s.h+units {
		return fail(ErrFormat, "%d bytes follow the header, want 4 × (%d×(2 + %d×%d×%d×(%d+2)) + %d)",
			length, nodes, s.b, s.h, s.l, s.d, sinks*s.h+units)
	}
	return nil
}

// readNodes reads the nodes of a state. Their keys follow each other, and only the last one may
// take more.
func (s *State) readNodes(nodes int, data []byte) error {
	first := 0
	for i := range nodes {
		keys, open := int(binary.LittleEndian.Uint32(data)), binary.LittleEndian.Uint32(data[4:])
		if keys < 1 || keys > s.keys-first {
			return fail(ErrFormat, "node %d has %d keys, want 1 to %d", i, keys, s.keys-first)
		}
		node := segment.Node{First: first, Keys: keys, Open: open == 1}
		first += keys
		takes := i == nodes-1 && first%Segment != 0 && node.First/Segment == first/Segment
		if open > 1 || node.Open && !takes {
			return fail(ErrFormat, "the mark of node %d of %d is %d, want 0, or 1 for a last one inside "+
				"a segment", i, nodes, open)
		}
		rows := s.newRows()
		data = readFloats(rows.m, data[8:])
		data = readFloats(rows.l, data)
		data = readFloats(rows.o, data)
		if fault := rows.fault(s.rows(), s.d); fault != "" {
			return fail(ErrFormat, "node %d: %s", i, fault)
		}
		s.tree.shape, s.tree.rows = append(s.tree.shape, node), append(s.tree.rows, rows)
	}
	if nodes > 0 && first != s.keys {
		return fail(ErrFormat, "the nodes have %d keys, want %d", first, s.keys)
	}
	return nil
}

// fault says what in rows no keys leave behind. It is empty if there is nothing.
func (s *state) fault(rows, d int) string {
	for r := range rows {
		m, l, o := s.m[r], s.l[r], s.o[r*d:][:d]
		if isNegativeZero(m) || isNegativeZero(l) || slices.ContainsFunc(o, isNegativeZero) {
			return fmt.Sprintf("row %d has a -0, want 0", r)
		}
		if m == negInf && l == l && (l != 0 || slices.ContainsFunc(o, isNotZero)) {
			return fmt.Sprintf("row %d has seen nothing and its sum is %v, want 0 and outputs of 0", r, l)
		}
		if m != negInf && l < 1 {
			return fmt.Sprintf("the sum of row %d is %v, want at least 1", r, l)
		}
	}
	return ""
}

func isNegativeZero(x float32) bool { return math.Float32bits(x) == 1<<31 }
func isNotZero(x float32) bool      { return x != 0 }

func readFloats(dst []float32, data []byte) (rest []byte) {
	for i := range dst {
		dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return data[4*len(dst):]
}
