package packed

import (
	"encoding/binary"

	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/floats"
	"github.com/seed-1415985d/attn/internal/kernel/int4"
	"github.com/seed-1415985d/attn/internal/kernel/integers"
	"github.com/seed-1415985d/attn/internal/kernel/narrow"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// Writing tokens into packed blocks. A row of a head is rotated if its format says so, encoded, and
// stored where the kernels read it.

// Writer is scratch memory for rows of one head.
type Writer struct {
	row    []float32 // rotated
	half   []uint16
	bytes  []int8    // integers, or codes
	folded []byte    // codes as they are kept
	panel  []float32 // a panel of keys of HeadDim
}

// Fit allocates memory for a format and its dimensions.
func (w *Writer) Fit(s *Blocks) {
	if s.K.Scaled {
		w.row = kernel.Grow(w.row, kernel.Block*s.D)
		w.bytes = kernel.Grow(w.bytes, kernel.Block*kernel.RoundUp(s.D, s.K.Whole))
	}
	if s.V.Scaled {
		w.bytes = kernel.Grow(w.bytes, kernel.Block*s.Cols)
	}
	if s.V.Codes {
		w.row = kernel.Grow(w.row, kernel.Block*s.DV)
	}
	if s.K.Codes || s.V.Codes {
		w.folded = kernel.Grow(w.folded, max(panel*kernel.RoundUp(s.D, 8)/2, kernel.Block*s.Cols))
	}
	if s.K.Bytes == 2 {
		w.half, w.panel = kernel.Grow(w.half, s.D), kernel.Grow(w.panel, s.D*panel)
	}
	if s.V.Bytes == 2 {
		w.half = kernel.Grow(w.half, s.Cols)
	}
}

// WriteKeys writes n keys of block x from key at on; rows are stride apart.
func (w *Writer) WriteKeys(cpu *tuning.Row, s *Blocks, x []byte, at int, k []float32, stride,
	n int) {
	keys, scales := s.Keys(x)
	const few = 4 // keys that are faster to store one by one
	for i := 0; i < n; {
		j := at + i
		m := min(n-i, panel-j%panel)
		if j%panel == 0 && m >= few {
			if all := n - i; s.K.Format == kernel.I8 && all > panel {
				// whole panels, or a last one with enough keys
				if m = all; all%panel < few {
					m -= all % panel
				}
			}
			w.writePanels(cpu, s, keys, scales, j, k[i*stride:], stride, m)
		} else {
			for r := range m {
				w.writeKey(cpu, s, keys, scales, j+r, k[(i+r)*stride:][:s.D])
			}
		}
		i += m
	}
}

// writePanels writes m keys from key j on, which begins a panel; in I8 more than one key.
func (w *Writer) writePanels(cpu *tuning.Row, s *Blocks, keys []byte, scales []float32, j int,
	k []float32, stride, m int) {
	switch s.K.Format {
	case kernel.F32:
		floats.PackKeys(cpu, kernel.Elements[float32](keys)[j*s.D:], k, stride, m, s.D)
	case kernel.F16, kernel.BF16:
		floats.PackKeys(cpu, w.panel, k, stride, m, s.D)
		narrow.Narrow(cpu.ISA, s.K.Format, kernel.Elements[uint16](keys)[j*s.D:][:panel*s.D],
			w.panel[:panel*s.D])
	case kernel.I8:
		width, done := kernel.RoundUp(s.D, 4), 0
		if s.Rotates && !s.ValuesInKeys {
			done = integers.QuantizeRotated(cpu, kernel.Elements[int8](keys)[j*width:], scales[j:], nil, k,
				m, s.D, stride, s.rotation)
		}
		if rest := m - done; rest > 0 {
			k, stride = w.rotateKeys(cpu, s, k[done*stride:], stride, rest)
			if s.D < width {
				clear(w.bytes[:rest*width])
			}
			integers.QuantizeRows(cpu.ISA, w.bytes, scales[j+done:], nil, k, rest, s.D, width, stride)
			w.packGroups(cpu, keys[(j+done)*width:], kernel.RawBytes(w.bytes), width, rest)
		}
	case kernel.I4:
		width := kernel.RoundUp(s.D, 8)
		k, stride = w.rotateKeys(cpu, s, k, stride, m)
		int4.EncodeRows(cpu.ISA, kernel.RawBytes(w.bytes), scales[j:], k, m, s.D, width, stride)
		kernel.FoldCodes(w.folded, kernel.RawBytes(w.bytes)[:m*width])
		w.packGroups(cpu, keys[j*width/2:], w.folded, width/2, m)
	}
}

// rotateKeys copies m keys and rotates them, if keys are rotated. They are stride apart then.
func (w *Writer) rotateKeys(cpu *tuning.Row, s *Blocks, k []float32, stride, m int) ([]float32,
	int) {
	if !s.Rotates {
		return k, stride
	}
	rows := w.row[:m*s.D]
	if s.ValuesInKeys {
		integers.CopyRows(cpu.ISA, rows, k, m, s.D, stride)
		s.Rotate(cpu.ISA, rows)
	} else {
		integers.Rotate(cpu.ISA, rows, k, m, s.D, s.D, stride, s.rotation)
	}
	return rows, s.D
}

// packGroups packs m keys, rows of bytes, moving four bytes as one element.
func (w *Writer) packGroups(cpu *tuning.Row, dst, rows []byte, width, m int) {
	to, from := kernel.Elements[float32](dst), kernel.Elements[float32](rows)
	floats.PackKeys(cpu, to, from, width/4, m, width/4)
}

// writeKey writes key j of a block.
func (w *Writer) writeKey(cpu *tuning.Row, s *Blocks, keys []byte, scales []float32, j int,
	k []float32) {
	if s.Rotates {
		copy(w.row, k)
		k = w.row[:s.D]
		s.Rotate(cpu.ISA, k)
	}
	switch s.K.Format {
	case kernel.F32:
		spread(kernel.Elements[float32](keys)[j/panel*panel*s.D+j%panel:], k)
	case kernel.F16, kernel.BF16:
		narrow.Narrow(cpu.ISA, s.K.Format, w.half[:s.D], k)
		spread(kernel.Elements[uint16](keys)[j/panel*panel*s.D+j%panel:], w.half[:s.D])
	case kernel.I8:
		scales[j] = integers.QuantizeToken(cpu.ISA, w.bytes[:s.D], k)
		width := kernel.RoundUp(s.D, 4)
		SpreadGroups(keys[j/panel*panel*width+j%panel*4:], kernel.RawBytes(w.bytes[:s.D]))
	case kernel.I4:
		width := kernel.RoundUp(s.D, 8)
		int4.EncodeRows(cpu.ISA, kernel.RawBytes(w.bytes), scales[j:], k, 1, s.D, width, s.D)
		kernel.FoldCodes(w.folded, kernel.RawBytes(w.bytes)[:width])
		SpreadGroups(keys[j/panel*panel*width/2+j%panel*4:], w.folded[:width/2])
	}
}

// SpreadGroups writes a row of integers, in groups of four, to one lane of a panel.
func SpreadGroups(dst, row []byte) {
	whole := len(row) / 4 * 4
	for x := 0; x < whole; x += 4 {
		binary.NativeEndian.PutUint32(dst[x*panel:], binary.NativeEndian.Uint32(row[x:]))
	}
	if whole < len(row) {
		copy(dst[whole*panel:][:len(row)-whole], row[whole:])
	}
}

// spread writes a row to one lane of a panel.
func spread[T any](dst, row []T) {
	for x, e := range row {
		dst[x*panel] = e
	}
}

// WriteValues writes n values of block x from key j on; rows are stride apart.
func (w *Writer) WriteValues(cpu *tuning.Row, s *Blocks, x []byte, j int, v []float32, stride,
	n int) {
	values, scales := s.Values(x)
	if s.V.Format == kernel.F32 {
		floats.PackValues(cpu, kernel.Elements[float32](values)[j*panel:], v, stride, n, s.DV)
		return
	}
	if s.V.Codes && s.Unrotate > 1 {
		rows := w.row[:n*s.DV]
		integers.CopyRows(cpu.ISA, rows, v, n, s.DV, stride)
		integers.Rotate(cpu.ISA, rows, rows, 1, len(rows), len(rows), len(rows), s.Unrotate)
		v, stride = rows, s.DV
	}
	for i := 0; i < n; {
		if whole := (n - i) / 4 * 4; s.V.Scaled && (j+i)%4 == 0 && whole > 0 {
			w.writeGroups(cpu, s, values, scales, j+i, v[i*stride:], stride, whole)
			i += whole
			continue
		}
		w.writeValue(cpu, s, values, scales, j+i, v[i*stride:][:s.DV])
		i++
	}
}

// writeGroups writes n values of I8 or I4 from value j on, whole groups. Those of I4 are rotated.
func (w *Writer) writeGroups(cpu *tuning.Row, s *Blocks, values []byte, scales []float32, j int,
	v []float32, stride, n int) {
	if s.V.Codes {
		rows := w.bytes[:n*s.Cols]
		int4.EncodeRows(cpu.ISA, kernel.RawBytes(rows), scales[j:], v, n, s.DV, s.Cols, stride)
		integers.Interleave(cpu.ISA, w.folded, kernel.RawBytes(rows), s.Cols, n)
		for group := range n / 4 {
			at, size := j/4+group, 4*s.Cols
			kernel.PutCodes(values[at/2*size:], w.folded[group*size:][:size], at%2 == 1)
		}
		return
	}
	integers.QuantizeGroups(cpu.ISA, kernel.Elements[int8](values)[j*s.Cols:], scales[j:], v, n, s.DV,
		s.Cols, stride, w.bytes)
}

// writeValue writes value j of a block of fewer bits. Columns after the last channel are 0.
func (w *Writer) writeValue(cpu *tuning.Row, s *Blocks, values []byte, scales []float32, j int,
	v []float32) {
	switch s.V.Format {
	case kernel.I8:
		row := w.bytes[:s.Cols]
		scales[j] = integers.QuantizeToken(cpu.ISA, row[:len(v)], v)
		clear(row[len(v):])
		to := kernel.Elements[int8](values)[j/4*4*s.Cols+j%4:]
		for c, e := range row {
			to[4*c] = e
		}
		return
	case kernel.I4:
		row := kernel.RawBytes(w.bytes[:s.Cols])
		int4.EncodeRows(cpu.ISA, row, scales[j:], v, 1, s.DV, s.Cols, s.DV)
		layout := s.ValueLayout(kernel.Block)
		for c, code := range row {
			kernel.SetCode(values, kernel.PlaceOf(kernel.I4, &layout, j, c), code)
		}
		return
	}
	row := w.half[:s.Cols]
	narrow.Narrow(cpu.ISA, s.V.Format, row[:len(v)], v)
	clear(row[len(v):])
	to := kernel.Elements[uint16](values)[j*panel:]
	for c := 0; c < s.Cols; c += panel {
		copy(to[c*kernel.Block:][:panel], row[c:])
	}
}
