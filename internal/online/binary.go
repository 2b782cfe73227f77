package online

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/kernel"
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
//	u32       marks: 1 if sinks follow, plus 2 if outputs are rotated
//	f32       sinks, h of them
//	f32       in version 3: the unit of each row's maxima
//	          for each node, in the order of their keys:
//	u32       its keys
//	u32       1 if it takes more keys, else 0; only the last one may
//	f32       m and l of all rows, then o of all rows
//
// Version 2 belongs to version 2 of the numeric contract, which fixes Block, Segment and the tree
// of segments. Version 3 is for states whose rows have their own units, see Options.Integers in
// package attn.
const (
	stateMagic  = "attnSta\x02"
	unitsMagic  = "attnSta\x03"
	headerSize  = len(stateMagic) + 8*4
	rotatedMark = 2
)

// stateFields are the fields of a header; all but the unit are integers.
var stateFields = [8]string{"Batch", "Heads", "Queries", "ValueDim", "number of keys", unitField,
	"number of nodes", "marks"}

const unitField = "unit"

// Form is a state of all rows of a call in its binary form.
type Form struct {
	B, H, L, D int // of its outputs
	Keys       int // that were seen
	Tree       Tree
	Units      Units
	Rotated    bool      // outputs are sums of rotated values
	Sinks      []float32 // one for each head, or none
}

// rows returns the number of rows of all batches and heads.
func (f *Form) rows() int { return f.B * f.H * f.L }

// Size returns the length of the binary form, if it fits an int.
func (f *Form) Size() (bytes int, ok bool) {
	n, ok := views.Product(len(f.Tree.Rows), f.B, f.H, f.L, f.D+2)
	n += 2*len(f.Tree.Rows) + len(f.Sinks) + len(f.Units.Own)
	if !ok || n > views.MaxElements {
		return 0, false
	}
	return headerSize + 4*n, true
}

// Append appends the binary form, after Size has succeeded, to data.
func (f *Form) Append(data []byte, size int) []byte {
	if cap(data)-len(data) < size {
		longer := make([]byte, len(data), len(data)+size)
		stop.Copy(longer, data)
		data = longer
	}
	marks := uint32(min(1, len(f.Sinks)))
	if f.Rotated {
		marks |= rotatedMark
	}
	magic := stateMagic
	if len(f.Units.Own) > 0 {
		magic = unitsMagic
	}
	data = append(data, magic...)
	for _, n := range [...]uint32{
		uint32(f.B), uint32(f.H), uint32(f.L), uint32(f.D), uint32(f.Keys),
		math.Float32bits(f.Units.All), uint32(len(f.Tree.Rows)), marks} {
		data = binary.LittleEndian.AppendUint32(data, n)
	}
	data = appendFloats(data, f.Sinks)
	data = appendFloats(data, f.Units.Own)
	for i := range f.Tree.Rows {
		node, keys, open := &f.Tree.Rows[i], &f.Tree.Shape[i], uint32(0)
		if keys.Open {
			open = 1
		}
		data = binary.LittleEndian.AppendUint32(data, uint32(keys.Keys))
		data = binary.LittleEndian.AppendUint32(data, open)
		data = appendFloats(data, node.M)
		data = appendFloats(data, node.L)
		data = appendFloats(data, node.O)
	}
	return data
}

// appendFloats writes −0 as +0: the sign of a zero depends on how the rows were divided, and no
// result depends on it. Other bits stay, also of a signalling NaN, which arithmetic would change.
func appendFloats(data []byte, x []float32) []byte {
	for _, e := range x {
		if isNegativeZero(e) {
			e = 0
		}
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(e))
	}
	return data
}

// Header is the header of a binary form, with fields within their bounds.
type Header struct {
	Form             // without tree, sinks and units of rows
	Nodes        int // of the tree
	sinks, units int // 1 if there are sinks, or units of rows
	body         []byte
}

// ReadHeader reads a header.
func ReadHeader(data []byte) (h Header, err error) {
	if err := checkMagic(data); err != nil {
		return h, err
	}
	var head [8]uint32
	for i := range head {
		head[i] = binary.LittleEndian.Uint32(data[len(stateMagic)+4*i:])
		if name := stateFields[i]; name != unitField && head[i] > views.MaxLength {
			return h, malformed("the data's %s is %d, want at most %d", name, head[i], views.MaxLength)
		}
	}
	h.B, h.H, h.L, h.D, h.Keys = int(head[0]), int(head[1]), int(head[2]), int(head[3]), int(head[4])
	h.Units.All, h.Rotated = math.Float32frombits(head[5]), head[7]&rotatedMark != 0
	h.Nodes, h.sinks, h.body = int(head[6]), int(head[7]&^rotatedMark), data[headerSize:]
	if string(data[:len(unitsMagic)]) == unitsMagic {
		h.units = -1 // one for each row: their number may be too large yet
	}
	return h, nil
}

// ReadBody reads the rest of a form whose sizes were checked. Before it reads nodes it allocates
// the memory of all, since data is known to be long enough.
func (h *Header) ReadBody(reserve func(nodes int) error, next func() Node) (*Form, error) {
	f := &h.Form
	if h.units != 0 {
		if h.units = f.rows(); h.units == 0 {
			return nil, malformed("data of no rows is version %d of the form, want version %d",
				unitsMagic[len(unitsMagic)-1], stateMagic[len(stateMagic)-1])
		}
	}
	if err := h.check(); err != nil {
		return nil, err
	}
	data := h.body
	if h.sinks == 1 {
		f.Sinks = make([]float32, f.H)
		data = readFloats(f.Sinks, data)
		if i := slices.IndexFunc(f.Sinks, isNegativeZero); i >= 0 {
			return nil, malformed("the sink of head %d is -0, want 0", i)
		}
	}
	f.Units.Own = make([]float32, h.units)
	data = readFloats(f.Units.Own, data)
	for r, unit := range f.Units.Own {
		if !(unit > 0 && unit <= math.MaxFloat32) {
			return nil, malformed("the unit of row %d is %v, want a positive finite number", r, unit)
		}
	}
	if err := reserve(h.Nodes); err != nil {
		return nil, err
	}
	return f, h.readNodes(data, next)
}

// checkMagic verifies that data has a header of this version.
func checkMagic(data []byte) error {
	const version = len(stateMagic) - 1
	switch {
	case len(data) > version && string(data[:version]) == stateMagic[:version] &&
		data[version] != stateMagic[version] && data[version] != unitsMagic[version]:
		return malformed("data is version %d of the form, want version %d or 3: sums of another "+
			"version of the numeric contract cannot be continued", data[version], stateMagic[version])
	case len(data) < headerSize || string(data[:version]) != stateMagic[:version]:
		return malformed("data is %d bytes and begins with %q, want a header of %d bytes that "+
			"begins with %q", len(data), data[:min(len(data), len(stateMagic))], headerSize, stateMagic)
	}
	return nil
}

// check compares the numbers in a header with each other and with the length of the rest.
func (h *Header) check() error {
	f, nodes, sinks, length := &h.Form, h.Nodes, h.sinks, len(h.body)
	lo, hi := min(1, f.Keys), min(segment.Most, f.Keys)
	if f.B == 0 || f.H == 0 || f.L == 0 {
		lo, hi = 0, 0
	}
	if nodes < lo || nodes > hi {
		return malformed("%d nodes for %d keys, want %d to %d", nodes, f.Keys, lo, hi)
	}
	c := float32(float64(f.Units.All) * f32.Log2E)
	if !(f.Units.All >= 0) || isNegativeZero(f.Units.All) || c-c != 0 ||
		(f.Units.All == 0) != (nodes == 0) || nodes == 0 && h.units > 0 {
		return malformed("the unit of %d nodes is %v, want a positive number, or 0 for none",
			nodes, f.Units.All)
	}
	if sinks > 1 || sinks == 1 && f.H == 0 {
		return malformed("the mark of sinks is %d, want 0, or 1 with at least one head", sinks)
	}
	if f.Rotated && (nodes == 0 || f.D%2 == 1) {
		return malformed("outputs of %d nodes and %d dimensions are marked as rotated, want none "+
			"to be", nodes, f.D)
	}
	n, ok := views.Product(nodes, f.B, f.H, f.L, f.D+2)
	if !ok || length%4 != 0 || length/4 != n+2*nodes+sinks*f.H+h.units {
		return malformed("%d bytes follow the header, want 4 × (%d×(2 + %d×%d×%d×(%d+2)) + %d)",
			length, nodes, f.B, f.H, f.L, f.D, sinks*f.H+h.units)
	}
	return nil
}

// readNodes reads the nodes. Their keys are consecutive, and only the last one may be open for
// more.
func (h *Header) readNodes(data []byte, next func() Node) error {
	f, nodes := &h.Form, h.Nodes
	first := 0
	for i := range nodes {
		keys, open := int(binary.LittleEndian.Uint32(data)), binary.LittleEndian.Uint32(data[4:])
		if keys < 1 || keys > f.Keys-first {
			return malformed("node %d has %d keys, want 1 to %d", i, keys, f.Keys-first)
		}
		node := segment.Node{First: first, Keys: keys, Open: open == 1}
		first += keys
		const each = kernel.Segment
		takes := i == nodes-1 && first%each != 0 && node.First/each == first/each
		if open > 1 || node.Open && !takes {
			return malformed("the mark of node %d of %d is %d, want 0, or 1 for a last one inside "+
				"a segment", i, nodes, open)
		}
		rows := next()
		data = readFloats(rows.M, data[8:])
		data = readFloats(rows.L, data)
		data = readFloats(rows.O, data)
		if fault := rows.fault(f.rows(), f.D); fault != "" {
			return malformed("node %d: %s", i, fault)
		}
		f.Tree.Shape, f.Tree.Rows = append(f.Tree.Shape, node), append(f.Tree.Rows, rows)
	}
	if nodes > 0 && first != f.Keys {
		return malformed("the nodes have %d keys, want %d", first, f.Keys)
	}
	return nil
}

// fault says what in rows cannot come from any keys, or returns "".
func (s *State) fault(rows, d int) string {
	for r := range rows {
		m, l, o := s.M[r], s.L[r], s.O[r*d:][:d]
		if isNegativeZero(m) || isNegativeZero(l) || slices.ContainsFunc(o, isNegativeZero) {
			return fmt.Sprintf("row %d has a -0, want 0", r)
		}
		if m == kernel.NegInf && l == l && (l != 0 || slices.ContainsFunc(o, isNotZero)) {
			return fmt.Sprintf("row %d has seen nothing and its sum is %v, want 0 and outputs of 0", r, l)
		}
		if m != kernel.NegInf && l < 1 {
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

// malformed returns the error for data that is no such form.
func malformed(format string, args ...any) error {
	return views.Fail(views.ErrFormat, format, args...)
}
