package cluster

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/seed-1415985d/attn"
)

// attending is a request for states while it is computed: in pieces, by as many goroutines as there
// are threads and pieces.
type attending struct {
	*Worker
	attendRequest
	copies []*part
	errs   []error // of parts
	groups []group
	pieces []piece
	next   atomic.Int64 // piece that nobody computes yet
}

// group is parts whose keys follow each other and whose states are to be one.
type group struct {
	from, to int // parts
	keys     int

	mu     sync.Mutex
	state  *attn.State
	merged int           // pieces that it has
	waits  []*attn.State // of pieces, until those before them are merged
	err    error
}

// piece is some keys of a group, all of an aligned power of two segments, so that states of pieces
// merge with the bits of one.
type piece struct {
	group    *group
	number   int // which of the group's pieces it is
	from, to int // keys of the group
}

func (w *Worker) attend(client clientID, d *decoder) ([]byte, error) {
	a := attending{Worker: w}
	if err := a.decode(d); err != nil {
		return nil, err
	}
	if err := a.find(client); err != nil {
		return nil, err
	}
	a.divide()
	a.compute()
	defer a.close()
	return a.reply(), nil
}

// find looks for the copies of each group, and makes sure that states are not too much.
func (a *attending) find(client clientID) error {
	a.copies, a.errs = make([]*part, len(a.parts)), make([]error, len(a.parts))
	size, keys := int64(0), int64(0)
	for i := range a.parts {
		if i == 0 || !a.parts[i].joins {
			a.groups = append(a.groups, group{from: i})
		}
		g := &a.groups[len(a.groups)-1]
		if keys += int64(a.parts[i].keys); keys > most {
			return fail(ErrLimit, "%d keys or more are asked for, want at most %d", keys, most)
		}
		g.to, g.keys = i+1, g.keys+a.parts[i].keys
		if a.copies[i], a.errs[i] = a.part(client, a.parts[i].copy); a.errs[i] != nil {
			g.err = a.errs[i]
			continue
		}
		// A whole part is one node; a beginning has one more for each bit. q has at least as many
		// elements as heads and rows, so nothing overflows.
		if i == g.from {
			size += a.stateBytes(a.copies[i])
		}
		if size > int64(a.config.Reply) {
			return fail(ErrLimit, "the states have more than %d bytes, want at most %d", size,
				a.config.Reply)
		}
	}
	return nil
}

// stateBytes is about what the state of a part takes.
func (a *attending) stateBytes(p *part) int64 {
	return 4 * int64(a.heads) * int64(a.rows) * int64(p.shape.valueDim+2)
}

// piecesPerThread makes the last pieces small enough that no thread waits for long for another.
const piecesPerThread = 4

// divide makes pieces of the groups: a few for each thread, of whole segments, whose states are not
// too much either.
func (a *attending) divide() {
	keys, size := 0, int64(1)
	for i := range a.groups {
		if g := &a.groups[i]; g.err == nil {
			keys, size = keys+g.keys, max(size, a.stateBytes(a.copies[g.from]))
		}
	}
	pieces := 1
	if threads := cap(a.threads); threads > 1 {
		pieces = min(piecesPerThread*threads, int(int64(a.config.Reply)/size))
	}
	length := attn.Segment
	for (keys-1)/length >= pieces {
		length *= 2
	}
	for i := range a.groups {
		g := &a.groups[i]
		for from := 0; g.err == nil && (from < g.keys || from == 0); from += length {
			a.pieces = append(a.pieces, piece{g, len(g.waits), from, min(from+length, g.keys)})
			g.waits = append(g.waits, nil)
		}
	}
}

// compute computes all pieces.
func (a *attending) compute() {
	var wg sync.WaitGroup
	for range min(cap(a.threads), len(a.pieces)) - 1 {
		wg.Go(a.computeSome)
	}
	a.computeSome()
	wg.Wait()
}

// computeSome computes pieces until all are taken, each when a thread is free.
func (a *attending) computeSome() {
	for {
		i := int(a.next.Add(1)) - 1
		if i >= len(a.pieces) {
			return
		}
		a.threads <- struct{}{}
		a.pieces[i].compute(a)
		<-a.threads
	}
}

// compute computes the state of a piece.
func (x *piece) compute(a *attending) {
	g := x.group
	s, err := attn.NewState(attn.StateConfig{Batch: 1, Heads: a.heads, Queries: a.rows,
		ValueDim: a.copies[g.from].shape.valueDim})
	if err != nil {
		g.fail(a, g.from, err)
		return
	}
	at, offset := 0, a.parts[g.from].offset-x.from // of query 0 after the state's first key
	for i := g.from; i < g.to; i++ {
		from, to := max(x.from-at, 0), min(x.to-at, a.parts[i].keys)
		at += a.parts[i].keys
		if from >= to {
			continue
		}
		if err := a.copies[i].attend(s, &a.attendRequest, &a.parts[i], offset, from, to); err != nil {
			g.fail(a, i, err)
			_ = s.Close() // it is open
			return
		}
	}
	g.add(x.number, s)
}

// fail notes why a part of the group has no state. Others then have none, too: without it they do
// not merge with the same bits.
func (g *group) fail(a *attending, part int, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.err, a.errs[part] = err, err
}

// add merges the state of a piece when those before it are.
func (g *group) add(number int, s *attn.State) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waits[number] = s
	for g.err == nil && g.merged < len(g.waits) && g.waits[g.merged] != nil {
		next := g.waits[g.merged]
		if g.state == nil {
			g.state = next
		} else {
			g.err = g.state.Merge(next)
			_ = next.Close() // it is open
		}
		g.waits[g.merged] = nil
		g.merged++
	}
}

// close gives back the memory of all states.
func (a *attending) close() {
	for i := range a.groups {
		g := &a.groups[i]
		for _, s := range append(g.waits, g.state) {
			_ = s.Close() // it is open, or nil
		}
	}
}

// reply has the state of each group at its first part, or says for each part why there is none.
func (a *attending) reply() []byte {
	r := attendReply{make([][]byte, len(a.parts)), a.errs}
	for i := range a.groups {
		g := &a.groups[i]
		if g.err == nil {
			r.states[g.from], g.err = g.state.MarshalBinary()
		}
		if g.err != nil {
			g.blame(a.errs[g.from:g.to])
		}
	}
	return r.encode()
}

// blame gives each part an error: those that have none the one that another has.
func (g *group) blame(errs []error) {
	if !slices.ContainsFunc(errs, func(err error) bool { return err != nil }) {
		errs[0] = g.err
	}
	for i := range errs {
		if errs[i] == nil {
			errs[i] = fail(errGroup, "another part of the group has no state")
		}
	}
}
