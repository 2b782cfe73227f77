package cluster

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"
)

// node is a worker's place: a name, memory, and the worker that runs there now.
type node struct {
	name    string
	config  WorkerConfig
	process *process
	worker  *Worker
	leaving bool
}

// start starts the worker of a node.
func (w *world) start(n *node) {
	p := &process{world: w, name: n.name}
	worker, err := NewWorker(p, n.config)
	if err != nil {
		w.Errorf("starting %s: %v", n.name, err)
		return
	}
	w.mu.Lock()
	n.process, n.worker, n.leaving = p, worker, false
	w.mu.Unlock()
}

// kill ends a worker as a crash does. Only the conductor calls it.
func (w *world) kill(n *node) {
	w.mu.Lock()
	n.process.dead = true
	if w.serving[n.name] == n.process {
		delete(w.serving, n.name)
	}
	worker := n.worker
	n.worker = nil
	w.mu.Unlock()
	go worker.Close()
}

// up reports whether the worker of a node runs, and nothing is wrong with it.
func (n *node) up() bool {
	now := time.Now()
	return n.worker != nil && !n.leaving && !n.process.stalled.After(now) &&
		!n.process.deaf.After(now) && !n.process.away.After(now)
}

// faultLater lets the next fault happen some time.
func (w *world) faultLater() {
	if w.weather.faults > 0 {
		w.in(time.Duration(w.dice.ExpFloat64()*float64(w.weather.faults)), func() {
			w.fault()
			w.faultLater()
		})
	}
}

// between draws a duration.
func between(r *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(r.Float64()*float64(most-least))
}

// fault lets something go wrong.
func (w *world) fault() {
	kind, n := w.dice.IntN(20), w.nodes[w.dice.IntN(len(w.nodes))]
	long := between(w.dice, 50*time.Millisecond, 4*time.Second)
	w.mu.Lock()
	healed := w.healed || w.safe && kind > 1 && !w.whole()
	running := n.worker != nil
	w.mu.Unlock()
	if healed || !running && kind > 3 {
		return
	}
	if w.tight && kind > 1 {
		kind = 12 + kind%5
	}
	now := time.Now()
	if w.endsLeases(kind) {
		long /= 3
	}
	switch {
	case kind < 2:
		w.say("clock of the client: %v", 3*long)
		w.caller.jumped.Add(int64(3 * long))
	case kind == 2:
		w.say("client deaf for %v", long)
		w.caller.deaf = now.Add(long)
	case kind == 3:
		w.say("client away for %v", long)
		w.caller.goAway(long)
	case kind < 9:
		w.say("kill %s", n.name)
		w.kill(n)
		w.in(long, func() {
			w.say("start %s", n.name)
			w.start(n)
		})
	case kind < 12:
		w.drain(n, long)
	case kind < 15:
		w.say("stall %s for %v", n.name, long)
		n.process.stalled = now.Add(long)
	case kind < 17:
		w.say("%s deaf for %v", n.name, long)
		n.process.deaf = now.Add(long)
	case kind < 19 || w.safe:
		w.say("%s away for %v", n.name, long)
		n.process.goAway(long)
	default:
		w.vanish()
	}
}

// endsLeases reports whether a fault could end leases, where nothing is to be lost, if it lasts:
// one of the client, or of a worker that may have the only copy with what messages have brought.
func (w *world) endsLeases(kind int) bool {
	return w.safe && (kind == 2 || kind == 3) || w.tight && kind > 11
}

// vanish ends the client as a crash does, and starts another one.
func (w *world) vanish() {
	w.say("client vanishes")
	old, p := w.client, &process{world: w, name: w.caller.name + "'"}
	client, err := newClient(p, old.config, p.now)
	must(w, err)
	w.mu.Lock()
	w.caller.dead = true
	w.caller, w.client = p, client
	w.mu.Unlock()
	w.leaving.Go(old.Close)
}

// whole reports whether all copies are there and all workers run. The lock is held.
func (w *world) whole() bool {
	now := time.Now().Add(-time.Second) // and what was lost then has been sent again
	if slices.ContainsFunc(w.nodes, func(n *node) bool {
		p := n.process
		return !n.up() || p.stalled.After(now) || p.deaf.After(now) || p.away.After(now)
	}) || w.caller.deaf.After(now) || w.caller.away.After(now) {
		return false
	}
	c := w.client
	c.mu.Lock()
	defer c.mu.Unlock()
	for s := range c.sequences {
		s.mu.Lock()
		parts := s.parts
		s.mu.Unlock()
		for _, p := range parts {
			good := 0
			for _, x := range p.copies {
				if x.counts() && c.healthOf(x.worker).answers() && w.has(s, p, x) {
					good++
				}
			}
			if good < c.config.Copies {
				return false
			}
		}
	}
	return true
}

// has reports whether a worker has a copy with all tokens. The client may not know yet that it has
// started again without.
func (w *world) has(s *Sequence, p *sequencePart, x *partCopy) bool {
	i := slices.IndexFunc(w.nodes, func(n *node) bool { return n.name == x.worker })
	worker := w.nodes[i].worker
	if worker == nil {
		return false
	}
	copied := worker.copiesOf(s.client.id)[x.id]
	if copied == nil {
		return false
	}
	s.mu.Lock()
	want := s.lengthsIn(p, s.lengths)
	s.mu.Unlock()
	for i, n := range copied.lengths() {
		if n < want[i] {
			return false
		}
	}
	return true
}

// drain lets a worker leave, and another one start in its place.
func (w *world) drain(n *node, long time.Duration) {
	if n.leaving {
		return
	}
	w.say("drain %s", n.name)
	worker := n.worker
	n.leaving = true
	drained := make(chan struct{})
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*long+3*time.Second)
		defer cancel()
		_ = worker.Drain(ctx)
		close(drained)
	}()
	var look func()
	look = func() {
		if n.worker != worker { // it was killed
			return
		}
		select {
		case <-drained:
			w.say("%s has left", n.name)
			w.kill(n)
			w.in(long, func() {
				w.say("start %s", n.name)
				w.start(n)
			})
		default:
			w.in(between(w.dice, 70*time.Millisecond, 80*time.Millisecond), look)
		}
	}
	look()
}

// heal ends all faults, and starts the workers that do not run.
func (w *world) heal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.healed = true
	w.weather = weather{lag: time.Millisecond}
	for _, n := range w.nodes {
		n.process.stalled, n.process.deaf = time.Time{}, time.Time{}
		n.process.comeBack()
	}
	w.caller.deaf = time.Time{}
	w.caller.comeBack()
}

// allUp reports whether all workers run, and nothing is wrong with any.
func (w *world) allUp() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !slices.ContainsFunc(w.nodes, func(n *node) bool { return !n.up() })
}

// running are the nodes whose workers run.
func (w *world) running() (all []*node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range w.nodes {
		if n.worker != nil {
			all = append(all, n)
		}
	}
	return all
}

func (n *node) String() string { return fmt.Sprintf("%s %+v", n.name, n.worker.Status()) }

// copiesOf are the copies of a client on a worker, which does not hear of it by that.
func (w *Worker) copiesOf(client clientID) map[uint64]*part {
	w.mu.Lock()
	defer w.mu.Unlock()
	if o := w.clients[client]; o != nil {
		return maps.Clone(o.copies)
	}
	return nil
}
