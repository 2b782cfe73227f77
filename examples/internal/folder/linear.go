package folder

import (
	"encoding/binary"
	"slices"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/gguf"
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
func (l *Loader) keeps(t *stored) bool { return t != nil && t.encoding.block != 0 }

// packStored packs the blocks of a tensor, from where the file has them.
func (l *Loader) packStored(in int, bias bool, p Part) Linear {
	made, name := Linear{In: in, Out: p.Out}, p.Name+".weight"
	t, data := l.stored(name, []int{p.Out, in})
	if l.Err != nil {
		return made
	}
	defer t.Release()
	e := t.encoding
	data = pairsApart(data, e.size(in), p.Interleaved)
	var minima []byte
	if e.as != nil {
		data, minima = e.as.reblock(data)
		name += ", of " + e.name + ","
	}
	made.Matrix = l.packBlocks(t, name, data, e.block, p.Out, in, l.Integers && e.quantized)
	for i := range len(minima) / 2 {
		if minima[2*i+1]&0x7c == 0x7c { // NaN or infinite
			l.Fail("%s: tensor %s: the minimum of block %d is %v, want a finite number", t.Path(), name, i,
				half(minima[2*i:]))
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

// half is the number of half precision that bytes begin with.
func half(data []byte) float32 {
	var x [1]float32
	_ = gguf.F16.Decode(x[:], data[:2]) // which is one
	return x[0]
}

// packBlocks packs a tensor on all threads.
func (l *Loader) packBlocks(t *stored, name string, data []byte, block attn.BlockType, out, in int,
	integers bool) *attn.Matrix {
	pack := attn.PackBlocks
	if l.pool != nil {
		pack = l.pool.PackBlocks
	}
	m, err := pack(data, block, out, in, attn.MatrixConfig{Integers: integers})
	if l.failTensor(t, name, err); err != nil {
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
		return &Table{encodingOfGGUF(gguf.F32), data, width}
	}
	t, data := l.stored(name, []int{rows, width})
	if l.Err != nil {
		return nil
	}
	defer t.Release()
	return &Table{t.encoding, slices.Clone(data), width}
}

// Row decodes a row.
func (t *Table) Row(to []float32, i int) {
	size := t.encoding.size(t.width)
	if err := t.encoding.decode(to[:t.width], t.data[i*size:][:size]); err != nil {
		panic(err) // rows are whole blocks of a type that is read
	}
}

// MemoryUse is the bytes of all rows.
func (t *Table) MemoryUse() int { return len(t.data) }
