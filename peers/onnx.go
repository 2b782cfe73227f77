//go:build cgo

package main

import (
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// onnxModel is a model of one operator, with nothing in it but that.
type onnxModel struct {
	op         string
	attributes []onnxAttribute
	inputs     []onnxValue // one without a name stands for an input that is left out
	outputs    []onnxValue
}

// onnxAttribute is a text, or else a number.
type onnxAttribute struct {
	name   string
	number int
	text   string
}

type onnxValue struct {
	name     string
	kind     uint64 // of elements
	dims     []int64
	constant []byte // what is part of the model; nil for none
}

// Kinds of elements.
const (
	onnxFloat   = 1
	onnxUint8   = 2
	onnxInt8    = 3
	onnxInt32   = 6
	onnxFloat16 = 10
)

// encode returns the model in ONNX's protobuf format. The numbers of fields are those of
// onnx.proto.
func (m *onnxModel) encode() []byte {
	const domain = "com.microsoft" // of operators beyond the standard
	var node, graph []byte
	for _, v := range m.inputs {
		node = append(node, textField(1, v.name)...)
		switch {
		case v.constant != nil:
			graph = append(graph, message(5, v.tensor())...)
		case v.name != "":
			graph = append(graph, message(11, v.encode())...)
		}
	}
	for _, v := range m.outputs {
		node = append(node, textField(2, v.name)...)
		graph = append(graph, message(12, v.encode())...)
	}
	for _, a := range m.attributes {
		node = append(node, message(5, a.encode())...)
	}
	node = slices.Concat(node, textField(4, m.op), textField(7, domain))
	graph = slices.Concat(graph, message(1, node), textField(2, "attention"))
	return slices.Concat(numberField(1, 8), message(7, graph), message(8, numberField(2, 17)),
		message(8, textField(1, domain), numberField(2, 1)))
}

func (a onnxAttribute) encode() []byte {
	if a.text != "" {
		return slices.Concat(textField(1, a.name), textField(4, a.text), numberField(20, 3))
	}
	return slices.Concat(textField(1, a.name), numberField(3, uint64(a.number)), numberField(20, 2))
}

func (v onnxValue) encode() []byte {
	var shape []byte
	for _, d := range v.dims {
		shape = append(shape, message(1, numberField(1, uint64(d)))...)
	}
	return slices.Concat(textField(1, v.name), message(2,
		message(1, numberField(1, v.kind), message(2, shape))))
}

// tensor is a constant.
func (v onnxValue) tensor() (t []byte) {
	for _, d := range v.dims {
		t = append(t, numberField(1, uint64(d))...)
	}
	return slices.Concat(t, numberField(2, v.kind), textField(8, v.name), message(9, v.constant))
}

// message is a field that is a message of these fields.
func message(field protowire.Number, fields ...[]byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, field, protowire.BytesType),
		slices.Concat(fields...))
}

func textField(field protowire.Number, s string) []byte { return message(field, []byte(s)) }

func numberField(field protowire.Number, n uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, field, protowire.VarintType), n)
}
