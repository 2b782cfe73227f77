package weights

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/gguf"
)

// Part is a group of outputs of a Linear with a name of its own.
type Part struct {
	Name string
	Out  int
	// Interleaved is the size of heads whose outputs are in pairs in the file, (0, 1), (2, 3), …, and
	// here with the first elements of all pairs before the second ones. 0 leaves them as they are.
	Interleaved int
	// Of is how many outputs the tensor has, if these are only some of them, from From on; 0: all.
	// They may be outputs of several experts, whose number is the first dimension of the tensor.
	From, Of, Experts int
	// Order lists the tensor's outputs, instead of From; nil for none.
	Order []int
	// In is the shape of an output's weights, if it has several dimensions, otherwise nil.
	In []int
	// Bare says that the name of the tensor does not end in .weight.
	Bare bool
	// Unscaled says that X.scale in a GGUF file is not the scale of this tensor X.weight.
	Unscaled bool
}

// weight returns the name of the tensor.
func (p *Part) weight() string {
	if p.Bare {
		return p.Name
	}
	return p.Name + ".weight"
}

// shape returns the shape of the tensor, whose outputs have the shape each.
func (p *Part) shape(each ...int) []int {
	shape := []int{max(p.Of, p.Out)}
	if p.Experts > 0 {
		shape = []int{p.Experts, p.Of / p.Experts}
	}
	return append(shape, each...)
}

// inputs returns the shape of an output's weights, for a number of inputs.
func (p *Part) inputs(in int) []int {
	if p.In != nil {
		return p.In
	}
	return []int{in}
}

// label returns the name of a part among matrices.
func (p *Part) label() string {
	if p.Of == 0 {
		return p.weight()
	}
	if p.Order != nil {
		return fmt.Sprintf("%s, %d outputs from %d on", p.weight(), p.Out, p.Order[0])
	}
	return fmt.Sprintf("%s, outputs %d to %d", p.weight(), p.From, p.From+p.Out-1)
}

// of returns the bytes of the part's outputs, out of the tensor's bytes. Each output has size
// bytes.
func (p *Part) of(data []byte, size int) []byte {
	if p.Order == nil {
		return data[p.From*size:][:p.Out*size]
	}
	chosen := make([]byte, 0, p.Out*size)
	for _, i := range p.Order {
		chosen = append(chosen, data[i*size:][:size]...)
	}
	return chosen
}

// Linear packs layers with the same input side by side into one matrix, in a format or, if kind is
// negative, in the format of the files.
func (l *Loader) Linear(kind attn.Format, in int, bias bool, parts ...Part) Linear {
	if len(parts) == 1 && kind < 0 && l.keeps(l.tensors[parts[0].weight()]) {
		return l.packStored(in, bias, parts[0])
	}
	made, names, labels := Linear{In: in, Scales: l.scales(parts...)}, []string{}, []string{}
	var drawn []float32 // of a random model, where a part's weights are drawn before its biases
	for _, p := range parts {
		names, labels = append(names, p.weight()), append(labels, p.label())
		made.Out += p.Out
		if l.Random != nil {
			drawn = append(drawn, l.rows(in, []Part{p})...)
		} else {
			l.stored(p.weight(), p.shape(p.inputs(in)...)) // checks it, also if a packed file has the matrix
		}
		if bias {
			made.Bias = append(made.Bias, l.bias(p)...)
		}
	}
	if kind < 0 {
		kind = l.Kind(names...)
	}
	label := strings.Join(labels, "+")
	made.Matrix = l.packed(label, in, made.Out, func() *attn.Matrix {
		rows := drawn
		if l.Random == nil {
			rows = l.rows(in, parts)
		}
		return l.packRows(l.tensors[names[0]], label, kind, rows, in, made.Out)
	})
	return made
}

// rows returns the weights of parts, a row for each output.
func (l *Loader) rows(in int, parts []Part) (rows []float32) {
	for _, p := range parts {
		x := pairsApart(l.part(p.weight(), p, p.inputs(in)...), in, p.Interleaved)
		if len(parts) == 1 {
			return x // not copied: it may be large
		}
		rows = append(rows, x...)
	}
	return rows
}

func (l *Loader) bias(p Part) []float32 {
	return pairsApart(l.part(p.Name+".bias", p), 1, p.Interleaved)
}

// part decodes the outputs of a part, each with elements of the shape each.
func (l *Loader) part(name string, p Part, each ...int) []float32 {
	if p.Of == 0 || l.Random != nil {
		return l.Tensor(name, append([]int{p.Out}, each...)...)
	}
	t, data := l.stored(name, p.shape(each...))
	if l.Err != nil {
		return nil
	}
	defer t.Release()
	x, size := make([]float32, p.Out*product(each)), len(data)/p.Of
	l.failTensor(t, name, t.encoding.decode(x, p.of(data, size)))
	return x
}

// keeps reports whether a matrix is packed without a copy in float32.
func (l *Loader) keeps(t *stored) bool { return t != nil && t.encoding.block != 0 }

// packStored packs the blocks of a tensor straight from the file.
func (l *Loader) packStored(in int, bias bool, p Part) Linear {
	made, name := Linear{In: in, Out: p.Out, Scales: l.scales(p)}, p.weight()
	t, data := l.stored(name, p.shape(in))
	if l.Err != nil {
		return made
	}
	defer t.Release()
	name = p.label()
	e := t.encoding
	data = p.of(data, e.size(in))
	made.Matrix = l.packed(name, in, p.Out, func() *attn.Matrix {
		return l.packBlocks(t, name, pairsApart(data, e.size(in), p.Interleaved), e.block, p.Out, in,
			e.quantized)
	})
	if bias {
		made.Bias = l.bias(p)
	}
	return made
}

// packBlocks packs a tensor on all threads. quantized says whether blocks have integers.
func (l *Loader) packBlocks(t *stored, name string, data []byte, block attn.BlockType, out, in int,
	quantized bool) *attn.Matrix {
	pack := attn.PackBlocks
	if l.pool != nil {
		pack = l.pool.PackBlocks
	}
	m, err := pack(data, block, out, in, attn.MatrixConfig{Integers: l.Integers && quantized,
		BFloat16: l.BFloat16})
	if l.failTensor(t, name, err); err != nil {
		return nil
	}
	l.Packed += m.MemoryUse()
	return m
}

// pairsApart puts the rows of heads, which are in pairs, into the order with the first rows of all
// pairs before the second ones.
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

// Pack makes a Linear without bias from rows in memory, which are of the tensor of a name.
func (l *Loader) Pack(kind attn.Format, name string, rows []float32, in, out int) Linear {
	return Linear{In: in, Out: out, Matrix: l.packRows(l.tensors[name], name, kind, rows, in, out)}
}

// packRows packs rows in memory. Errors name the tensor.
func (l *Loader) packRows(t *stored, name string, kind attn.Format, rows []float32, in,
	out int) *attn.Matrix {
	if l.Err != nil {
		return nil
	}
	m, err := attn.PackMatrix(attn.BHLD(rows, 1, 1, out, in), attn.MatrixConfig{Format: kind,
		Transposed: true, Integers: l.Integers && kind == attn.I8, BFloat16: l.BFloat16})
	if l.failTensor(t, name, err); err != nil {
		return nil
	}
	l.Packed += m.MemoryUse()
	return m
}

// Table is rows of numbers that are looked up one by one, exactly as the files have them.
type Table struct {
	matrix   *attn.Matrix // its outputs are the rows; or nil:
	encoding *encoding
	data     []byte
	width    int
	scale    float32
}

// Table reads a tensor of some rows. If the matrix of shared keeps them exactly, they are not
// stored twice.
func (l *Loader) Table(name string, rows, width int, shared *Linear) *Table {
	if l.Random != nil {
		x := l.Tensor(name, rows, width)
		data, _ := binary.Append(nil, binary.LittleEndian, x) // cannot fail
		return &Table{encoding: encodingOfGGUF(gguf.F32), data: data, width: width, scale: 1}
	}
	t, data := l.stored(name, []int{rows, width})
	if l.Err != nil {
		return nil
	}
	defer t.Release()
	scale := l.scale(strings.TrimSuffix(name, ".weight"), 1, 0)
	if shared != nil && l.exact(shared, t.encoding) {
		return &Table{matrix: shared.Matrix, width: width, scale: scale}
	}
	return &Table{encoding: t.encoding, data: slices.Clone(data), width: width, scale: scale}
}

// exact reports whether a matrix keeps the exact numbers of a tensor in some encoding.
func (l *Loader) exact(m *Linear, e *encoding) bool {
	block, is := m.BlockType()
	return is && block == e.block || m.Format() == attn.F32 ||
		e.format > attn.F32 && m.Format() == e.format
}

// Row decodes a row.
func (t *Table) Row(to []float32, i int) {
	t.decode(to, i)
	if t.scale != 1 {
		for j := range to[:t.width] {
			to[j] *= t.scale
		}
	}
}

func (t *Table) decode(to []float32, i int) {
	if t.matrix != nil {
		row := [1]int32{int32(i)}
		if err := t.matrix.Rows(attn.BHLD(to[:t.width], 1, 1, 1, t.width), row[:]); err != nil {
			panic(err) // tokens are checked before
		}
		return
	}
	size := t.encoding.size(t.width)
	if err := t.encoding.decode(to[:t.width], t.data[i*size:][:size]); err != nil {
		panic(err) // rows are whole blocks of a supported type
	}
}

// Scale multiplies all rows by a number, from now on.
func (t *Table) Scale(by float32) { t.scale *= by }

// MemoryUse returns the bytes of the rows that are not shared.
func (t *Table) MemoryUse() int { return len(t.data) }
