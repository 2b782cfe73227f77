package attn

import (
	"github.com/seed-1415985d/attn/internal/blocks"
	"github.com/seed-1415985d/attn/internal/frames"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/matmul"
	"github.com/seed-1415985d/attn/internal/packed"
)

// outputsOf is the outputs of a matrix.
func outputsOf(m *Matrix) int {
	_, _, _, outputs := m.Dims()
	return outputs
}

// nameOf is the name of a matrix's format or type of blocks.
func nameOf(m *Matrix) string {
	if typ, is := m.BlockType(); is {
		return typ.String()
	}
	return m.Format().String()
}

// layoutOf is how a matrix lies in memory.
func layoutOf(m *Matrix) packed.Matrix {
	batch, heads, inputs, outputs := m.Dims()
	l := packed.Matrix{Batch: batch, Heads: heads, Inputs: inputs, Outputs: outputs}
	if typ, is := m.BlockType(); is {
		l.Blocks = blocks.Type(typ)
	} else {
		l.Format = kernel.Format(m.Format())
	}
	return l
}

// sizeOf is the bytes of a matrix's elements.
func sizeOf(m *Matrix) int {
	l := layoutOf(m)
	return l.Size()
}

// partsOfFile is the lengths of what follows the header of a matrix's file, each with a checksum.
func partsOfFile(l packed.Matrix) []int {
	if l.Scaled() {
		return []int{l.ScaleSize() + (64 - frames.ChecksumSize), l.Size()}
	}
	return []int{l.Size()}
}

// formatOfHalf is the format of a matrix of numbers that lie alone.
func formatOfHalf(t BlockType) Format {
	if t == BlockBF16 {
		return BF16
	}
	return F16
}

// oneByOne stands for workers, and does their tasks one after the other.
type oneByOne struct {
	workers int
	memory  *matmul.Memory
	timed   func(tasks int, task func(i int)) // nil: they are not timed
}

func (o *oneByOne) WorkersFor(float64) int { return o.workers }

func (o *oneByOne) Share(x matmul.Work, workers, tasks int, _ float64) {
	if o.timed == nil {
		o.timed = func(tasks int, task func(i int)) {
			for i := range tasks {
				task(i)
			}
		}
	}
	o.timed(workers, func(int) { x.Begin(o.memory) }) // as a phase of which each has a task
	o.timed(tasks, func(i int) { x.Task(o.memory, i) })
}
