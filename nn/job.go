package nn

import (
	"sync"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/elements"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// host is the tuning of this CPU.
var host = tuning.Host()

// isa is the implementation of the kernels.
var isa = host.ISA

// operation is what a job computes of each row.
type operation int

const (
	rmsNorm operation = iota
	layerNorm
	l2Norm
	add
	addRMSNorm
	activate
	gateActivated
	gateClamped
	rotate
	softmax
	convolve
	combine
)

const (
	// pieceElements is how many elements of a row one unit of an elementwise operation has.
	pieceElements = kernel.CallElements

	// partElements is how many elements a part of the work has: some microseconds.
	partElements = 4 * kernel.CallElements
)

// job is a call. Its work is divided into units, which are rows or pieces of rows; consecutive
// units form a part.
type job struct {
	operation
	all          [4]argument // outputs, then inputs
	weight, bias []float32
	eps          float32
	activation   Activation
	alpha, limit float32
	rope         *Rope
	positions    []int32
	inverse      bool
	convs        []*Conv // put keeps the array for the next call

	pieces, units, unitsOfPart int

	// Kernels prefetch from memory what is read and written unitsAhead units later.
	ahead      elements.Ahead
	unitsAhead int
}

var jobs = sync.Pool{New: func() any { return new(job) }}

// byRows divides work into rows.
func (j *job) byRows() {
	a := &j.all[0]
	j.pieces, j.units = 1, a.B*a.H*a.L
	j.unitsOfPart = max(1, partElements/a.D)
	if j.fromMemory() {
		j.unitsAhead = (host.PrefetchRows + 4*a.D - 1) / (4 * a.D)
		j.ahead = elements.Ahead{X: 4 * j.unitsAhead * j.all[1].SL, Dst: 4 * j.unitsAhead * a.SL}
	}
}

// fromMemory reports whether the output, and so each input, is too large for the cache.
func (j *job) fromMemory() bool {
	return host.PrefetchRows > 0 && 4*j.units*(j.all[0].D/j.pieces) > host.L2
}

// byElements divides work into pieces of rows. Views of the same strides without gaps are treated
// as a single row.
func (j *job) byElements(views int) {
	a := &j.all[0]
	if a.Empty() {
		j.byRows()
		return
	}
	alike := a.Dense()
	for i := range j.all[:views] {
		alike = alike && j.all[i].SameStrides(a)
	}
	if n := a.B * a.H * a.L * a.D; alike {
		for i := range j.all[:views] {
			v := &j.all[i]
			v.B, v.H, v.L, v.D = 1, 1, 1, n
		}
	}
	j.pieces = (a.D + pieceElements - 1) / pieceElements
	j.units = a.B * a.H * a.L * j.pieces
	j.unitsOfPart = max(1, partElements/min(a.D, pieceElements))
	if j.pieces > 1 && j.fromMemory() {
		j.unitsAhead, j.ahead = 1, elements.Ahead{X: host.PrefetchRows, Dst: host.PrefetchRows}
	}
}

// run runs the job and puts it back.
func (j *job) run(p *attn.Pool) error {
	err := j.runUnits(p)
	j.put()
	return err
}

func (j *job) runUnits(p *attn.Pool) error {
	if p == nil {
		j.work(0, j.units)
		return nil
	}
	parts := 0
	if j.units > 0 {
		parts = (j.units + j.unitsOfPart - 1) / j.unitsOfPart
	}
	return p.Run(parts, j)
}

// put keeps the job for another call.
func (j *job) put() {
	clear(j.convs)
	*j = job{convs: j.convs[:0]}
	jobs.Put(j)
}

// Work implements attn.Worker.
func (j *job) Work(part int) {
	from := part * j.unitsOfPart
	j.work(from, min(from+j.unitsOfPart, j.units))
}

// work runs units [from, to).
func (j *job) work(from, to int) {
	if j.operation == convolve {
		for ; from < to; from++ {
			j.convolve(j.convs[from/j.pieces], from%j.pieces)
		}
		return
	}
	if j.operation == combine {
		for ; from < to; from++ {
			j.combineUnit(from)
		}
		return
	}
	a := &j.all[0]
	for from < to {
		row, piece := from/j.pieces, from%j.pieces
		l, rest := row%a.L, row/a.L
		h, b := rest%a.H, rest/a.H
		for ; l < a.L && from < to; l++ {
			for ; piece < j.pieces && from < to; piece++ {
				from++
				ahead := j.ahead
				if from+j.unitsAhead > to { // there are none, or another worker has them
					ahead = elements.Ahead{}
				}
				j.unit(b, h, l, piece, ahead)
			}
			piece = 0
		}
	}
}

// unit runs the operation on one unit.
func (j *job) unit(b, h, l, piece int, ahead elements.Ahead) {
	var x [len(j.all)][]float32
	for i := range x {
		if a := &j.all[i]; a.D > 0 {
			x[i] = a.Row(b, h, l)
		}
	}
	if j.pieces > 1 {
		at := piece * pieceElements
		end := min(at+pieceElements, j.all[0].D)
		for i := range x {
			if x[i] != nil {
				x[i] = x[i][at:end]
			}
		}
	}
	switch j.operation {
	case rmsNorm:
		normalizeSquares(x[0], x[1], j.weight, j.eps, true, ahead)
	case l2Norm:
		normalizeSquares(x[0], x[1], nil, j.eps, false, ahead)
	case layerNorm:
		normalizeMean(x[0], x[1], j.weight, j.bias, j.eps, ahead)
	case add:
		elements.Add(isa, x[0], x[1], x[2], ahead)
	case addRMSNorm:
		normalizeSum(x[0], x[1], x[2], x[3], j.weight, j.eps, ahead)
	case activate:
		activateRow(x[0], x[1], j.activation, ahead)
	case gateActivated:
		gateRow(x[0], x[1], x[2], j.activation, ahead)
	case gateClamped:
		elements.GateClamped(isa, x[0], x[1], x[2], j.alpha, j.limit, ahead)
	case rotate:
		j.rotateRow(x[0], x[1], b, l)
	case softmax:
		attn.Softmax(x[0], x[1])
	}
}
