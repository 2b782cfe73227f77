package cluster

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/seed-1415985d/attn"
)

// attending is requests for states while they are computed: in pieces, by as many goroutines as
// there are threads and pieces.
type attending struct {
	*Worker
	request int64 // its bytes
	asked   []asked
	size    int64 // of all states
	keys    int64 // of all parts
	pieces  []piece
	next    atomic.Int64 // piece that nobody computes yet
}

// asked is one of the requests.
type asked struct {
	attendRequest
	copies []*part
	errs   []error // of parts
	groups []group
	err    error // nothing of it is computed
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
	of       *asked
	group    *group
	number   int // which of the group's pieces it is
	from, to int // keys of the group
}

func (w *Worker) attend(client clientID, d *decoder) ([]byte, error) {
	var r attendRequest
	if err := r.decode(d); err != nil {
		return nil, err
	}
	a := attending{Worker: w, request: d.whole, asked: []asked{{attendRequest: r}}}
	defer a.close()
	a.run(client)
	x := &a.asked[0]
	if x.err != nil {
		return nil, x.err
	}
	reply := x.reply()
	return reply.encode(), nil
}

// run computes what is asked for.
func (a *attending) run(client clientID) {
	for i := range a.asked {
		a.asked[i].err = a.find(&a.asked[i], client)
	}
	if err := a.flight.take(a.size, a.request); err != nil {
		a.size = 0
		for i := range a.asked {
			if a.asked[i].err == nil {
				a.asked[i].err = err
			}
		}
		return
	}
	a.divide()
	a.compute()
}

// find looks for the copies of each group, and makes sure that states are not too much, with those
// of the requests before.
func (a *attending) find(x *asked, client clientID) error {
	x.copies, x.errs = make([]*part, len(x.parts)), make([]error, len(x.parts))
	for i := range x.parts {
		if i == 0 || !x.parts[i].joins {
			x.groups = append(x.groups, group{from: i})
		}
		g := &x.groups[len(x.groups)-1]
		if a.keys += int64(x.parts[i].keys); a.keys > most {
			return fail(ErrLimit, "%d keys or more are asked for, want at most %d", a.keys, most)
		}
		g.to, g.keys = i+1, g.keys+x.parts[i].keys
		if x.copies[i], x.errs[i] = a.part(client, x.parts[i].copy); x.errs[i] != nil {
			g.err = x.errs[i]
			continue
		}
		// A whole part is one node; a beginning has one more for each bit. q has at least as many
		// elements as heads and rows, so nothing overflows.
		if i == g.from {
			a.size += x.stateBytes(x.copies[i])
		}
		if a.size > int64(a.config.Reply) {
			return fail(ErrLimit, "the states have more than %d bytes, want at most %d", a.size,
				a.config.Reply)
		}
	}
	return nil
}

// stateBytes is about what the state of a part takes.
func (x *asked) stateBytes(p *part) int64 {
	return 4 * int64(x.heads) * int64(x.rows) * int64(p.shape.valueDim+2)
}

// piecesPerThread makes the last pieces small enough that no thread waits for long for another.
const piecesPerThread = 4

// divide makes pieces of the groups: a few for each thread, of whole runs, whose states are not too
// much either.
func (a *attending) divide() {
	keys, size, length := 0, int64(1), attn.Segment
	a.eachGroup(func(x *asked, g *group) {
		p := x.copies[g.from]
		keys, size, length = keys+g.keys, max(size, x.stateBytes(p)), max(length, p.long)
	})
	pieces := 1
	if threads := cap(a.threads); threads > 1 {
		pieces = min(piecesPerThread*threads, int(int64(a.config.Reply)/size))
	}
	for (keys-1)/length >= pieces {
		length *= 2
	}
	a.eachGroup(func(x *asked, g *group) {
		for from := 0; from < g.keys || from == 0; from += length {
			a.pieces = append(a.pieces, piece{x, g, len(g.waits), from, min(from+length, g.keys)})
			g.waits = append(g.waits, nil)
		}
	})
}

// eachGroup calls f for the groups whose copies are all there.
func (a *attending) eachGroup(f func(x *asked, g *group)) {
	for i := range a.asked {
		x := &a.asked[i]
		for j := range x.groups {
			if g := &x.groups[j]; x.err == nil && g.err == nil {
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
		ValueDim: r.copies[g.from].shape.valueDim})
	if err != nil {
		g.fail(r, g.from, err)
		return
	}
	offset := r.parts[g.from].offset - x.from // of query 0 after the state's first key
	for all := x.reaches(); len(all) > 0; {
		n := inOneUpdate(all)
		if part, err := r.attend(s, all[:n], offset); err != nil {
			g.fail(r, part, err)
			_ = s.Close() // it is open
			return
		}
		all = all[n:]
	}
	g.add(x.number, s)
}

// reaches are the keys of copies that a piece has.
func (x *piece) reaches() (all []reach) {
	at := 0
	for i := x.group.from; i < x.group.to; i++ {
		asked := &x.of.parts[i]
		from, to := max(x.from-at, 0), min(x.to-at, asked.keys)
		at += asked.keys
		if from < to {
			all = append(all, reach{part: x.of.copies[i], asked: asked, from: from, to: to, number: i})
		}
	}
	return all
}

// inOneUpdate is how many copies, from the first on, go in one update: those without a mask or a
// bias, which are of one part each.
func inOneUpdate(all []reach) int {
	n := 0
	for n < len(all) && all[n].asked.maskHeads == 0 && all[n].asked.biasHeads == 0 {
		n++
	}
	return max(n, 1)
}

// fail notes why a part of the group has no state. Others then have none, too: without it they do
// not merge with the same bits.
func (g *group) fail(x *asked, part int, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.err, x.errs[part] = err, err
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
	a.flight.add(-a.size)
	for i := range a.asked {
		for j := range a.asked[i].groups {
			g := &a.asked[i].groups[j]
			for _, s := range append(g.waits, g.state) {
				_ = s.Close() // it is open, or nil
			}
		}
	}
}

// reply has the state of each group at its first part, or says for each part why there is none.
func (x *asked) reply() attendReply {
	r := attendReply{make([][]byte, len(x.parts)), x.errs}
	for i := range x.groups {
		g := &x.groups[i]
		if g.err == nil {
			r.states[g.from], g.err = x.result(g.state)
		}
		if g.err != nil {
			g.blame(x.errs[g.from:g.to])
		}
	}
	return r
}

// result is a group's state, or its outputs if these are wanted.
func (x *asked) result(s *attn.State) ([]byte, error) {
	if !x.whole {
		return s.MarshalBinary()
	}
	o, err := outputsOf(s)
	return o.encode(), err
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
