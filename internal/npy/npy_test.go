package npy

import (
	"bytes"
	"encoding/binary"
	"os"
	"strings"
	"testing"
)

// The header is spelled as NumPy does it, elements follow at a multiple of 64, whatever the parts.
func TestWrite(t *testing.T) {
	for want, shape := range map[string][]int{
		"{'descr': '<f4', 'fortran_order': False, 'shape': (6,), }":      {6},
		"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }":    {2, 3},
		"{'descr': '<f4', 'fortran_order': False, 'shape': (), }":        {},
		"{'descr': '<f4', 'fortran_order': False, 'shape': (0, 4, 5), }": {0, 4, 5},
	} {
		n := 1
		for _, d := range shape {
			n *= d
		}
		data := []float32{1, -2.5, 0, 3, 4, 5}[:n]
		var file bytes.Buffer
		if err := Write(&file, shape, data[:n/2], nil, data[n/2:]); err != nil {
			t.Fatal(err)
		}
		elements, _ := binary.Append(nil, binary.LittleEndian, data)
		head, found := bytes.CutSuffix(file.Bytes(), elements)
		length := len(head) - len(Magic) - 4
		begin := append([]byte(Magic+"\x01\x00"), byte(length), byte(length>>8))
		if !found || len(head)%64 != 0 || !bytes.HasPrefix(head, begin) ||
			string(head[len(begin):]) != want+strings.Repeat(" ", length-len(want)-1)+"\n" {
			t.Errorf("the file is %q, want %q", file.Bytes(), want)
		}
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, os.ErrClosed }

func TestWriteReportsErrors(t *testing.T) {
	if err := Write(failing{}, []int{1 << 16}, make([]float32, 1<<16)); err == nil {
		t.Error("no error")
	}
}
