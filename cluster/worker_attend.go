package cluster

import (
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/seed-1415985d/attn"
)

// attending is requests for states during their computation: in pieces, by as many goroutines as
// there are threads and pieces.
type attending struct {
	*Worker
	load   *load
	asked  []asked
	size   int64 // of all states
	pieces []*piece
	next   atomic.Int64 // the next piece to compute
}

// asked is a request.
type asked struct {
	*attendRequest
	answer *attendReply
	work   []group
	err    error // if not nil, nothing of it is computed
}

// group is a group of a request.
type group struct {
	*attendGroup
	copies []*part // of its parts,
	errs   []error // and their errors
	keys   int     // keys of the state
	rest   int     // of these, the keys after the last piece

	mu     sync.Mutex
	state  *attn.State
	merged int // number of merged pieces
	pieces []piece
	err    error
}

// piece is the keys of a group in an aligned power of two of segments, so that states of pieces
// merge with the bits of one. Every piece has keys of a part.
type piece struct {
	of       *asked
	group    *group
	from, to int // keys of the group
	before   int // unseen keys between the piece and the one before

	state *attn.State // until the pieces before it are merged
}

// computeRequests computes all requests.
func (a *attending) computeRequests(client clientID) {
	for i := range a.asked {
		a.asked[i].err = a.find(&a.asked[i], client)
	}
	err := a.load.take(a.size)
	if err == nil {
		err = a.load.takeReply(a.size)
	}
	if err == nil {
		err = a.divide()
	}
	if err != nil {
		for i := range a.asked {
			if a.asked[i].err == nil {
				a.asked[i].err = err
			}
		}
		return
	}
	a.compute()
}

// find finds the copies of each group, and verifies that its states, together with those of earlier
// requests, are not too large.
func (a *attending) find(x *asked, client clientID) error {
	x.work = make([]group, len(x.groups))
	keys := int64(0)
	for i := range x.work {
		g := &x.work[i]
		g.attendGroup = &x.groups[i]
		g.copies, g.errs = make([]*part, len(g.parts)), x.answer.groups[i].errors
		all := int64(g.after)
		for j, p := range g.parts {
			all += int64(p.before) + int64(p.keys)
			if g.copies[j], g.errs[j] = a.part(client, p.copy); g.errs[j] != nil {
				g.err = g.errs[j]
			}
		}
		if keys += all; keys > maxLength {
			return fail(ErrLimit, "%d keys or more are asked for, want at most %d", keys, maxLength)
		}
		g.keys = int(all)
	}
	for i := range x.work {
		g := &x.work[i]
		if g.err != nil {
			continue
		}
		// q has at least as many elements as heads and rows, so nothing overflows.
		a.size += x.stateBytes(g) * int64(x.nodesOf(g))
		if a.size > int64(a.config.Reply) {
			return fail(ErrLimit, "the states have more than %d bytes, want at most %d", a.size,
				a.config.Reply)
		}
	}
	return nil
}

// nodesOf returns the number of nodes of a group's state in the reply: one for each bit of the
// number of its segments; or one for outputs.
func (x *asked) nodesOf(g *group) int {
	if x.whole {
		return 1
	}
	return bits.OnesCount(uint((g.keys + attn.Segment - 1) / attn.Segment))
}

// shape returns the shape of the first copy, which the others must have, too.
func (g *group) shape() *shape { return &g.copies[0].shape }

// stateBytes estimates the size of a node of a group's state.
func (x *asked) stateBytes(g *group) int64 {
	return 4 * int64(x.heads) * int64(x.rows) * int64(g.shape().ValueDim+2)
}

// piecesPerThread makes the last pieces small enough that no thread waits for long for another.
const piecesPerThread = 4

// divide divides the groups into pieces: a few for each thread, of whole runs; or as many as there
// is memory for their states, at least one for each group.
func (a *attending) divide() error {
	size := int64(1)
	a.eachGroup(func(x *asked, g *group) { size = max(size, x.stateBytes(g)) })
	pieces := int64(1)
	if threads := int64(cap(a.threads)); threads > 1 {
		pieces = min(piecesPerThread*threads, int64(a.config.Reply)/size)
	}
	err := a.divideInto(pieces)
	for ; err != nil && pieces > 1; pieces /= 2 {
		err = a.divideInto(pieces / 2)
	}
	return err
}

// divideInto makes about that many pieces, and counts the memory of their states in addition to the
// groups' states.
func (a *attending) divideInto(pieces int64) error {
	keys, length, made := int64(0), attn.Segment, -a.size
	a.eachGroup(func(x *asked, g *group) {
		for i := range g.parts {
			keys += int64(g.parts[i].keys)
		}
		length = max(length, g.copies[0].long)
	})
	for length < maxLength && (keys-1)/int64(length) >= pieces {
		length *= 2
	}
	a.pieces = a.pieces[:0]
	a.eachGroup(func(x *asked, g *group) {
		g.divide(x, length)
		for i := range g.pieces {
			a.pieces = append(a.pieces, &g.pieces[i])
		}
	})
	for _, x := range a.pieces {
		made += stateCost + x.of.stateBytes(x.group)*int64(nodes(x.to-x.from))
	}
	return a.load.takeMade(max(made, 0))
}

// stateCost is about the memory of a state without its nodes.
const stateCost = 1024

// nodes returns the most nodes of a state while keys are added.
func nodes(keys int) int { return bits.Len(uint(keys/attn.Segment)) + 1 }

// divide divides a group into pieces of length keys, without pieces that have no key of a part.
func (g *group) divide(x *asked, length int) {
	at, end := 0, 0 // a part's first key, and the end of the last piece
	g.pieces = g.pieces[:0]
	for i := range g.parts {
		at += g.parts[i].before
		keys := g.parts[i].keys
		for from := max(at-at%length, end); from < at+keys; from = end {
			to := min(from+length, g.keys)
			g.pieces = append(g.pieces, piece{of: x, group: g, from: from, to: to, before: from - end})
			end = to
		}
		at += keys
	}
	g.rest = g.keys - end
}

// eachGroup calls f for the groups whose copies all exist.
func (a *attending) eachGroup(f func(x *asked, g *group)) {
	for i := range a.asked {
		x := &a.asked[i]
		for j := range x.work {
			if g := &x.work[j]; x.err == nil && g.err == nil {
				f(x, g)
			}
		}
	}
}

// compute computes all pieces.
func (a *attending) compute() {
	var wg sync.WaitGroup
	for range min(cap(a.threads), len(a.pieces)) - 1 {
		wg.Add(1)
		a.staff.run(func() {
			defer wg.Done()
			a.computeSome()
		})
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
		a.pieces[i].compute()
		<-a.threads
	}
}

// compute computes the state of a piece.
func (x *piece) compute() {
	r, g := x.of, x.group
	s, err := attn.NewState(attn.StateConfig{Batch: 1, Heads: r.heads, Queries: r.rows,
		ValueDim: g.shape().ValueDim})
	if err != nil {
		g.fail(0, err)
		return
	}
	for all := x.reaches(); len(all) > 0; {
		n, index := r.inOneUpdate(all), 0
		if y := &all[0]; y.part == nil {
			hidden := r.unseen(g)
			s, err = hidden.add(s, s.Config(), y.to-y.from)
		} else {
			index, err = r.attend(s, all[:n], g.offset-x.from)
		}
		if err != nil {
			g.fail(index, err)
			_ = s.Close() // it is open
			return
		}
		all = all[n:]
	}
	g.add(x, s)
}

// reaches returns the keys of a piece.
func (x *piece) reaches() (all []reach) {
	at := 0
	within := func(n int) (from, to int) { // the range of the next n keys in the piece
		from, to = max(x.from-at, 0), min(x.to-at, n)
		at += n
		return from, to
	}
	for i := range x.group.parts {
		one := &x.group.parts[i]
		if from, to := within(one.before); from < to {
			all = append(all, reach{from: from, to: to})
		}
		if from, to := within(one.keys); from < to {
			all = append(all, reach{part: x.group.copies[i], asked: one, from: from, to: to, number: i})
		}
	}
	if from, to := within(x.group.after); from < to {
		all = append(all, reach{from: from, to: to})
	}
	return all
}

// inOneUpdate returns the number of copies, from the first on, that one update can add: copies
// without pairs, which belong to one part each, and without unseen keys between them.
func (r *attendRequest) inOneUpdate(all []reach) int {
	n := 0
	for n < len(all) && all[n].part != nil && r.pairs == (pairHeads{}) {
		n++
	}
	return max(n, 1)
}

// unseen returns keys of a group that no query sees.
func (x *asked) unseen(g *group) unseen {
	h := g.shape()
	return unseen{attn.BHLD(x.q, 1, x.heads, x.rows, h.HeadDim), h.KVHeads, x.options,
		x.pairs.bias > 0}
}

// fail records why a part of the group has no state. The group then has none, because without that
// part it would not merge with the same bits.
func (g *group) fail(index int, err error) {
	locked(&g.mu, func() { g.err, g.errs[index] = err, err })
}

// add merges the state of a piece once the pieces before it are merged.
func (g *group) add(x *piece, s *attn.State) {
	g.mu.Lock()
	defer g.mu.Unlock()
	x.state = s
	hidden := x.of.unseen(g)
	for g.err == nil && g.merged < len(g.pieces) && g.pieces[g.merged].state != nil {
		next := &g.pieces[g.merged]
		g.state, g.err = hidden.follow(g.state, next.before, next.state)
		next.state = nil
		g.merged++
	}
	if g.err == nil && g.merged == len(g.pieces) && g.rest > 0 {
		g.state, g.err = hidden.add(g.state, g.state.Config(), g.rest)
	}
}

// close releases the memory of all states.
func (a *attending) close() {
	for i := range a.asked {
		for j := range a.asked[i].work {
			g := &a.asked[i].work[j]
			_ = g.state.Close() // they are open, or nil
			for _, x := range g.pieces {
				_ = x.state.Close()
			}
		}
	}
}

// reply writes the state of each group, or its errors.
func (x *asked) reply() {
	if x.answer.err = x.err; x.err != nil {
		return
	}
	for i := range x.work {
		g, to := &x.work[i], &x.answer.groups[i]
		if g.err == nil {
			to.state, g.err = x.result(g.state)
			_ = g.state.Close() // it is open; its content is in the reply
			g.state = nil
		}
		if g.err != nil && !failed(g.errs) {
			g.errs[0] = g.err
		}
	}
}

// result returns a group's state, or its outputs if these are wanted.
func (x *asked) result(s *attn.State) ([]byte, error) {
	if !x.whole {
		return s.MarshalBinary()
	}
	o, err := outputsOf(s)
	return bytesOf(o), err
}
