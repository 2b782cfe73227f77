package folder

import (
	"encoding/binary"

	"github.com/seed-1415985d/attn"
)

// Part is outputs of a Linear that have a name of their own.
type Part struct {
	Name string
	Out  int
	// Interleaved is the size of heads whose outputs come as pairs in the file, (0, 1), (2, 3), …,
	// and here with the first of all pairs before the second of all. 0 leaves them as they are.
	Interleaved int
}

// Linear packs layers with the same input into one matrix, side by side, of a kind or, if that is
// negative, as the folder has them.
func (l *Loader) Linear(kind attn.Format, in int, bias bool, parts ...Part) Linear {
	if len(parts) == 1 && kind < 0 && l.keeps(l.tensors[parts[0].Name+".weight"]) {
		return l.packStored(in, bias, parts[0])
	}
	var rows, biases []float32 // a row for each output
	out, names := 0, []string{}
	for _, p := range parts {
		names = append(names, p.Name+".weight")
		x := pairsApart(l.Tensor(p.Name+".weight", p.Out, in), in, p.Interleaved)
		if out += p.Out; len(parts) == 1 {
			rows = x // without a copy: it may be large
		} else {
			rows = append(rows, x...)
		}
		if bias {
			biases = append(biases, l.bias(p)...)
		}
	}
	if kind < 0 {
		kind = l.Kind(names...)
	}
	made := l.Pack(kind, rows, in, out)
	made.Bias = biases
	return made
}

func (l *Loader) bias(p Part) []float32 {
	return pairsApart(l.Tensor(p.Name+".bias", p.Out), 1, p.Interleaved)
}

// keeps says whether a matrix is packed without a copy in float32.
func (l *Loader) keeps(t *stored) bool { return t != nil && t.encoding != nil && t.block != 0 }

// packStored packs the blocks of a tensor.
func (l *Loader) packStored(in int, bias bool, p Part) Linear {
	made, name := Linear{In: in, Out: p.Out}, p.Name+".weight"
	t, data := l.stored(name, []int{p.Out, in})
	if l.Err != nil {
		return made
	}
	data = pairsApart(data, t.size(in), p.Interleaved)
	var minima []byte
	if t.as != nil {
		data, minima = t.reblock(data)
		name += ", of " + t.name + ","
	}
	made.Matrix = l.packBlocks(t, name, data, t.block, p.Out, in, l.Integers && t.quantized)
	for i := range len(minima) / 2 {
		if m := halfAt(minima[2*i:]); m-m != 0 {
			l.Fail("%s: tensor %s: the minimum of block %d is %v, want a finite number", t.file.Name(), name,
				i, m)
		}
	}
	if minima != nil {
		made.Minima = l.packBlocks(t, name, minima, attn.BlockF16, p.Out, in/MinimaInputs, false)
	}
	if bias {
		made.Bias = l.bias(p)
	}
	return made
}

// packBlocks packs a tensor on all threads.
func (l *Loader) packBlocks(t *stored, name string, data []byte, block attn.BlockType, out, in int,
	integers bool) *attn.Matrix {
	pack := attn.PackBlocks
	if l.pool != nil {
		pack = l.pool.PackBlocks
	}
	m, err := pack(data, block, out, in, attn.MatrixConfig{Integers: integers})
	if err != nil {
		l.Fail("%s: tensor %s: %w", t.file.Name(), name, err)
		return nil
	}
	l.Packed += m.MemoryUse()
	return m
}

// pairsApart puts the rows of heads, which come in pairs, into the order in which the first of all
// pairs are before the second of all.
func pairsApart[T any](rows []T, width, head int) []T {
	if head == 0 {
		return rows
	}
	sorted := make([]T, 0, len(rows))
	for ; len(rows) > 0; rows = rows[head*width:] {
		for j := range head {
			from := 2*(j%(head/2)) + j/(head/2)
			sorted = append(sorted, rows[from*width:][:width]...)
		}
	}
	return sorted
}

// Pack makes a Linear without bias of rows that are there already.
func (l *Loader) Pack(kind attn.Format, rows []float32, in, out int) Linear {
	made := Linear{In: in, Out: out}
	if l.Err == nil {
		made.Matrix, l.Err = attn.PackMatrix(attn.BHLD(rows, 1, 1, out, in),
			attn.MatrixConfig{Format: kind, Transposed: true, Integers: l.Integers && kind == attn.I8})
	}
	if l.Err == nil {
		l.Packed += made.MemoryUse()
	}
	return made
}

// Table is rows of numbers that are looked up one by one, as the folder has them.
type Table struct {
	encoding *encoding
	data     []byte
	width    int
}

// Table reads a tensor of some rows.
func (l *Loader) Table(name string, rows, width int) *Table {
	if l.Random != nil {
		x := l.Tensor(name, rows, width)
		data, _ := binary.Append(nil, binary.LittleEndian, x) // which cannot fail
		return &Table{&floats, data, width}
	}
	t, data := l.stored(name, []int{rows, width})
	if l.Err != nil {
		return nil
	}
	return &Table{t.encoding, data, width}
}

// Row decodes a row.
func (t *Table) Row(to []float32, i int) {
	size := t.encoding.size(t.width)
	t.encoding.row(to[:t.width], t.data[i*size:][:size])
}

// MemoryUse is the bytes of all rows.
func (t *Table) MemoryUse() int { return len(t.data) }
