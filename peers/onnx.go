//go:build cgo

package main

import (
	"fmt"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// onnxModel is a graph of operators, with constants, inputs and outputs.
type onnxModel struct {
	nodes           []onnxNode
	constants       []onnxValue
	inputs, outputs []onnxValue
}

// onnxNode is an operator. An input without a name is omitted.
type onnxNode struct {
	op              string
	standard        bool // or an operator of ONNX Runtime's own
	inputs, outputs []string
	attributes      []onnxAttribute
}

// onnxAttribute is a string if that is not empty, otherwise a fraction if that is not 0, otherwise
// an integer.
type onnxAttribute struct {
	name     string
	number   int
	text     string
	fraction float32
}

type onnxValue struct {
	name     string
	kind     uint64  // of elements
	dims     []int64 // -1: any
	constant []byte  // part of the model; nil for none
}

// Kinds of elements.
const (
	onnxFloat   = 1
	onnxUint8   = 2
	onnxInt8    = 3
	onnxInt32   = 6
	onnxFloat16 = 10
)

// onnxDomain is the domain of operators beyond the standard.
const onnxDomain = "com.microsoft"

// encode returns the model in ONNX's protobuf format. Numbers of fields are from onnx.proto.
func (m *onnxModel) encode() []byte {
	var graph []byte
	for _, n := range m.nodes {
		graph = append(graph, message(1, n.encode())...)
	}
	graph = append(graph, textField(2, "attn")...)
	for _, fields := range []struct {
		number protowire.Number
		values []onnxValue
		encode func(onnxValue) []byte
	}{{5, m.constants, onnxValue.tensor}, {11, m.inputs, onnxValue.encode},
		{12, m.outputs, onnxValue.encode}} {
		for _, v := range fields.values {
			graph = append(graph, message(fields.number, fields.encode(v))...)
		}
	}
	return slices.Concat(numberField(1, 8), message(7, graph), message(8, numberField(2, 17)),
		message(8, textField(1, onnxDomain), numberField(2, 1)))
}

func (n *onnxNode) encode() (node []byte) {
	for _, name := range n.inputs {
		node = append(node, textField(1, name)...)
	}
	for _, name := range n.outputs {
		node = append(node, textField(2, name)...)
	}
	node = append(node, textField(4, n.op)...)
	for _, a := range n.attributes {
		node = append(node, message(5, a.encode())...)
	}
	if !n.standard {
		node = append(node, textField(7, onnxDomain)...)
	}
	return node
}

func (a onnxAttribute) encode() []byte {
	name := textField(1, a.name)
	switch {
	case a.text != "":
		return slices.Concat(name, textField(4, a.text), numberField(20, 3))
	case a.fraction != 0:
		bits := protowire.AppendFixed32(protowire.AppendTag(nil, 2, protowire.Fixed32Type),
			math.Float32bits(a.fraction))
		return slices.Concat(name, bits, numberField(20, 1))
	}
	return slices.Concat(name, numberField(3, uint64(a.number)), numberField(20, 2))
}

func (v onnxValue) encode() []byte {
	var shape []byte
	for i, d := range v.dims {
		size := numberField(1, uint64(d))
		if d < 0 {
			size = textField(2, fmt.Sprint(v.name, i))
		}
		shape = append(shape, message(1, size)...)
	}
	return slices.Concat(textField(1, v.name), message(2,
		message(1, numberField(1, v.kind), message(2, shape))))
}

// tensor encodes a constant.
func (v onnxValue) tensor() (t []byte) {
	for _, d := range v.dims {
		t = append(t, numberField(1, uint64(d))...)
	}
	return slices.Concat(t, numberField(2, v.kind), textField(8, v.name), message(9, v.constant))
}

// message encodes a field that is a message of these fields.
func message(field protowire.Number, fields ...[]byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, field, protowire.BytesType),
		slices.Concat(fields...))
}

func textField(field protowire.Number, s string) []byte { return message(field, []byte(s)) }

func numberField(field protowire.Number, n uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, field, protowire.VarintType), n)
}
