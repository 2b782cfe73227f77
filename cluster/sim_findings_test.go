package cluster

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-1415985d/attn"
)

// What the simulation has found, each as a play of its own.

// simQuick are the waits of these plays.
var simQuick = ClientConfig{Copies: 2, Segments: 1, Patience: 300 * time.Millisecond,
	Gone: time.Second, Lease: 5 * time.Second, Timeout: 20 * time.Second}

// finding plays a script over a sequence of some tokens, on a number of workers, without chance. In
// the end, all of it has to be in order.
func finding(t *testing.T, workers int, c ClientConfig, script func(w *world, s *simSequence)) {
	t.Helper()
	inBubble(t, 1, func(t *testing.T) {
		w := &world{T: t, seed: 1, dice: rand.New(rand.NewPCG(1, 0)), begin: time.Now(),
			sent: make(chan struct{}, 1), serving: map[string]*process{}, stats: map[string]int{},
			counted: map[simPart]map[uint64]simCopy{},
			weather: weather{lag: 100 * time.Microsecond}, safe: true}
		for i := range workers {
			w.nodes = append(w.nodes, &node{name: fmt.Sprint("w", i), config: WorkerConfig{
				Name: fmt.Sprint("w", i), Memory: 4 << 20, Threads: 1, Announce: 300 * time.Millisecond}})
		}
		w.play(func() {
			for _, n := range w.nodes {
				w.start(n)
			}
			w.connect(c)
			u := w.user("user", 1)
			s := u.sequences[0]
			must(t, s.append(w.soon(), s.all(), 100))
			script(w, s)
			for _, n := range w.nodes {
				if n.worker == nil {
					w.start(n)
				}
			}
			w.heal()
			w.end([]*simUser{u})
		})
	})
}

// soon is the time by which a call of a few seconds has to end.
func (w *world) soon() time.Time { return time.Now().Add(10 * time.Second) }

// lose lets those parcels be lost that are named, none if nil.
func (w *world) lose(drop func(x *parcel) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drop = drop
}

// holders are the nodes with a copy of the first part, in the order in which they are asked.
func (s *simSequence) holders() (all []*node) {
	for _, x := range s.far.good(s.far.parts[0]) {
		for _, n := range s.nodes {
			if n.name == x.worker {
				all = append(all, n)
			}
		}
	}
	return all
}

// Where nobody listens, that is ErrUnavailable.
func TestFoundNobody(t *testing.T) {
	finding(t, 2, simQuick, func(w *world, s *simSequence) {
		for _, n := range w.nodes {
			n.process.goAway(500 * time.Millisecond)
		}
		err := s.append(time.Now().Add(400*time.Millisecond), s.all(), 1)
		if !errors.Is(err, ErrUnavailable) {
			t.Errorf("the error is %v, want ErrUnavailable", err)
		}
	})
}

// A copy is not given up for one that has taken more, whose worker has just died.
func TestFoundRelianceOnTheDead(t *testing.T) {
	finding(t, 2, simQuick, func(w *world, s *simSequence) {
		first, second := s.holders()[0], s.holders()[1]
		w.lose(func(x *parcel) bool { return x.kind == "request" && x.worker == second.name })
		appended := beside(func() error { return s.append(w.soon(), s.all(), 1) })
		time.Sleep(50 * time.Millisecond) // the first copy has the token
		w.kill(first)
		_, _ = w.client.status(context.Background(), first.name) // it is seen that nobody listens
		time.Sleep(simQuick.Patience)
		w.lose(nil)
		must(t, <-appended)
	})
}

// Of copies on workers that leave, the last one stays, even if another one is lost meanwhile.
func TestFoundLastCopyLeaves(t *testing.T) {
	finding(t, 2, simQuick, func(w *world, s *simSequence) {
		p := s.far.parts[0]
		good := s.far.good(p)
		w.client.mu.Lock()
		for _, m := range w.client.members { // so there is no other one to go to
			m.status.Leaving = true
		}
		w.client.mu.Unlock()
		w.client.lose(good[1])
		s.far.addCopy(context.Background(), p, 1) // it was another one that was to stay
		if len(s.far.good(p)) == 0 {
			t.Errorf("the last copy was given up")
		}
	})
}

// An announcement of the past, or of a worker that has a copy already when it is first heard of, is
// no reason to count copies as lost.
func TestFoundOldAnnouncement(t *testing.T) {
	c := simQuick
	c.Copies = 1
	finding(t, 1, c, func(w *world, s *simSequence) {
		old := w.nodes[0].worker.Status()
		old.Instance++
		w.client.heard(old.encode())
		if n := s.far.Missing(); n > 0 {
			t.Errorf("%d copies are missing", n)
		}
	})
}

// A worker that hangs after it was not there for a moment is not one where nobody listens.
func TestFoundHangingIsNotDead(t *testing.T) {
	c := simQuick
	c.Copies = 1
	finding(t, 1, c, func(w *world, s *simSequence) {
		p := w.nodes[0].process
		p.goAway(100 * time.Millisecond)
		p.stalled = time.Now().Add(4500 * time.Millisecond)
		must(t, s.attend(w.soon(), 0, 1))
	})
}

// What copying needs is asked for again: by the client, and by the worker that copies.
func TestFoundLostAnswersOfCopies(t *testing.T) {
	finding(t, 3, simQuick, func(w *world, s *simSequence) {
		lost := map[string]int{}
		w.lose(func(x *parcel) bool {
			what := describe(x)
			if x.kind == "reply" {
				what = x.kind + " to " + x.to.name
			}
			for _, some := range []string{"copy", "read"} {
				if len(what) > 4 && what[:4] == some && lost[some] < 2 {
					lost[some]++
					return true
				}
			}
			return false
		})
		w.client.lose(s.far.good(s.far.parts[0])[1])
		begin := time.Now()
		w.eventually("copies are there again", func() bool { return s.far.Missing() == 0 })
		if took := time.Since(begin); took > 15*time.Second || lost["copy"] < 2 || lost["read"] < 2 {
			t.Errorf("it took %v with %v", took, lost)
		}
	})
}

// Who is refused because a worker has too much to do keeps what it has there.
func TestFoundBusyWorkersKeepLeases(t *testing.T) {
	c := simQuick
	c.Copies = 1
	finding(t, 1, c, func(w *world, s *simSequence) {
		worker := w.nodes[0].worker
		for range worker.config.Calls {
			worker.running <- struct{}{}
		}
		time.Sleep(4 * c.Lease)
		for range worker.config.Calls {
			<-worker.running
		}
		must(t, s.attend(w.soon(), 0, 1))
	})
}

// Of a part without tokens nothing is lost with its copies.
func TestFoundNothingLost(t *testing.T) {
	c := simQuick
	c.Copies = 1
	finding(t, 1, c, func(w *world, s *simSequence) {
		if err := s.far.lostError(new(sequencePart), errUnknown); !errors.Is(err, ErrLost) {
			t.Errorf("the error is %v, want ErrLost", err)
		}
		err := s.far.lostError(&sequencePart{index: 1}, errUnknown)
		if errors.Is(err, ErrLost) || !errors.Is(err, ErrUnavailable) {
			t.Errorf("the error is %v, want ErrUnavailable", err)
		}
	})
}

// A request to copy that arrives late removes nothing.
func TestFoundLateCopy(t *testing.T) {
	a := &arena{limit: 1 << 20, slabs: map[attn.StoreConfig][]*slab{}}
	h := shape{1, 1, 4, 4, attn.F32, attn.F32, false}
	create := createRequest{copy: 1, tokens: 1024, shape: h}
	source, copied := newPart(create, a), newPart(create, a)
	tokens := func(p *part, at, n int) {
		t.Helper()
		zeros := make([]byte, 16*n)
		_, err := p.append(&appendRequest{copy: 1, position: at, pieces: []tokenPiece{{tokens: n,
			k: zeros, v: zeros}}})
		must(t, err)
	}
	read := func() []byte {
		t.Helper()
		reply, err := source.read(&readRequest{copy: 1})
		must(t, err)
		return reply.saved
	}
	tokens(source, 0, 10)
	late := read()
	tokens(source, 10, 20)
	must(t, copied.load(0, 0, 0, read()))
	must(t, copied.load(0, 0, 0, late))
	if n := copied.lengths()[0]; n != 30 {
		t.Errorf("%d tokens are left, want 30", n)
	}
	tokens(copied, 30, 5)
	if err := copied.load(0, 0, 0, late); !errors.Is(err, errStale) {
		t.Errorf("the error is %v, want errStale: the layer was appended to", err)
	}
	if err := source.load(0, 0, 3, late); !errors.Is(err, errStale) {
		t.Errorf("the error is %v, want errStale: runs before it are missing", err)
	}
	if n := copied.lengths()[0]; n != 35 {
		t.Errorf("%d tokens are left, want 35", n)
	}
}

// late makes a sequence's second copy one that has an append and cannot say so, nor anything else.
func (w *world) late(s *simSequence) (first, second *node) {
	first, second = s.holders()[0], s.holders()[1]
	w.lose(func(x *parcel) bool { return x.from == second.process })
	must(w, s.append(w.soon(), s.all(), 1))
	return first, second
}

// A copy that has all and could not say so in time is there when the others are gone.
func TestFoundLateCopyHasAll(t *testing.T) {
	for what, ask := range map[string]func(w *world, s *simSequence) error{
		"attention": func(w *world, s *simSequence) error { return s.attend(w.soon(), 0, 1) },
		"an append at once": func(w *world, s *simSequence) error {
			w.client.lose(s.far.good(s.far.parts[0])[0])
			x := s.tokens([]int{0}, 1)[0]
			must(w, s.near[0].Append(x.k, x.v))
			return s.far.Append(context.Background(), 0, x.k, x.v)
		},
		"a step":    func(w *world, s *simSequence) error { return s.step(w.soon(), 0, 1) },
		"an append": func(w *world, s *simSequence) error { return s.append(w.soon(), s.all(), 1) },
		"a cut":     func(w *world, s *simSequence) error { return s.truncate(w.soon()) },
		"nothing": func(w *world, s *simSequence) error {
			w.eventually("copies are there again", func() bool { return s.far.Missing() == 0 })
			return nil
		},
	} {
		t.Run(what, func(t *testing.T) {
			finding(t, 2, simQuick, func(w *world, s *simSequence) {
				first, _ := w.late(s)
				w.kill(first)
				w.lose(nil)
				w.start(first)
				err := ask(w, s)
				if s.afterLoss(err); err != nil {
					t.Errorf("the error is %v", err)
				}
			})
		})
	}
}

// A copy that has not all is not taken for one that has, though no other is left.
func TestFoundLateCopyLacksSome(t *testing.T) {
	for what, more := range map[string]func(w *world, s *simSequence) error{
		"behind": func(w *world, s *simSequence) error { return s.append(w.soon(), s.all(), 1) },
		"of the past": func(w *world, s *simSequence) error {
			must(w, s.truncateTo(w.soon(), 50))
			return s.append(w.soon(), s.all(), 40)
		},
	} {
		t.Run(what, func(t *testing.T) {
			finding(t, 2, simQuick, func(w *world, s *simSequence) {
				w.safe = false
				first, second := w.late(s)
				w.lose(func(x *parcel) bool {
					return x.from == second.process || x.kind == "request" && x.worker == second.name
				})
				must(t, more(w, s))
				w.kill(first)
				w.lose(nil)
				w.start(first)
				err := s.attend(w.soon(), 0, 1)
				if s.afterLoss(err); !errors.Is(err, ErrLost) {
					t.Errorf("the error is %v, want ErrLost", err)
				}
			})
		})
	}
}

// A copy that lacks what is still on its way to it is not lost.
func TestFoundLateCopyCatchesUp(t *testing.T) {
	for what, ask := range map[string]func(w *world, s *simSequence) error{
		"attend": func(w *world, s *simSequence) error { return s.attend(w.soon(), 0, 1) },
		"append": func(w *world, s *simSequence) error { return s.append(w.soon(), s.all(), 1) },
		"step":   func(w *world, s *simSequence) error { return s.step(w.soon(), 0, 1) },
	} {
		t.Run(what, func(t *testing.T) {
			finding(t, 2, simQuick, func(w *world, s *simSequence) {
				first, second := s.holders()[0], s.holders()[1]
				var held []*parcel
				w.lose(func(x *parcel) bool {
					mine := x.kind == "request" && x.worker == second.name
					if mine {
						held = append(held, x)
					}
					return mine
				})
				must(t, s.append(w.soon(), s.all(), 1))
				w.kill(first)
				time.Sleep(2 * requestPatience * simQuick.Patience)
				w.lose(func(x *parcel) bool {
					if x.kind == "request" && x.worker == second.name && describe(x)[:5] != "renew" {
						w.in(simQuick.Patience/2, func() { // after it
							for _, x := range held {
								w.deliver(x)
							}
							held = nil
						})
					}
					return false
				})
				if err := ask(w, s); err != nil {
					t.Errorf("the error is %v", err)
				}
			})
		})
	}
}

// narrow lets the worker of a sequence's second copy start again with some pages for each layer.
func (w *world) narrow(s *simSequence, pages int) {
	second := s.holders()[1]
	w.kill(second)
	w.client.lose(s.far.good(s.far.parts[0])[1]) // which is seen after a while
	config := s.far.shape.storeConfig()
	second.config.Memory = int64(s.config.Layers*pages) * pageBytes(&config)
	w.eventually("a copy is missing", func() bool { return s.far.Missing() == 1 })
	w.start(second)
	w.eventually("copies are there again", func() bool { return s.far.Missing() == 0 })
}

// A copy that could not say in time what it has gives way to another one, though not before, if
// there is room for both.
func TestFoundLateCopyIsReplaced(t *testing.T) {
	for what, pages := range map[string]int{"room for both": 100, "room for one": 17} {
		t.Run(what, func(t *testing.T) {
			finding(t, 2, simQuick, func(w *world, s *simSequence) {
				w.narrow(s, pages)
				_, late := w.late(s)
				w.lose(nil)
				w.eventually("another copy is there", func() bool { return s.far.Missing() == 0 })
				w.eventually("the late one is not", func() bool { return late.worker.Status().Copies == 1 })
			})
		})
	}
}

// A copy that was late with a cut has what it is to have, also if it missed the cut, as long as
// nothing has come in the place of what was cut.
func TestFoundLateCopyIsCut(t *testing.T) {
	for what, missed := range map[string]bool{"it has it": false, "it missed it": true} {
		t.Run(what, func(t *testing.T) {
			finding(t, 2, simQuick, func(w *world, s *simSequence) {
				first, second := s.holders()[0], s.holders()[1]
				w.lose(func(x *parcel) bool {
					return x.from == second.process || missed && x.kind == "request" && x.worker == second.name
				})
				must(t, s.truncateTo(w.soon(), 80))
				must(t, s.truncateTo(w.soon(), 50))
				w.kill(first)
				w.lose(nil)
				w.start(first)
				must(t, s.attend(w.soon(), 0, 1))
			})
		})
	}
}

// A copy that could not say in time what it has is not given up when there is no room for another
// copy; it is used again when it says that it has all tokens.
func TestFoundLateCopyIsTakenBack(t *testing.T) {
	for what, gone := range map[string]bool{"the other is gone": true, "the other is there": false} {
		t.Run(what, func(t *testing.T) {
			finding(t, 2, simQuick, func(w *world, s *simSequence) {
				w.narrow(s, 17)           // which is room for one copy,
				time.Sleep(simQuick.Gone) // and is said so
				before := s.far.good(s.far.parts[0])
				first, _ := w.late(s)
				time.Sleep(3 * simQuick.Patience)
				if gone {
					w.kill(first)
				}
				w.lose(nil)
				if gone {
					w.start(first)
					must(t, s.attend(w.soon(), 0, 1))
					return
				}
				w.eventually("copies are there again", func() bool { return s.far.Missing() == 0 })
				for _, x := range s.far.good(s.far.parts[0]) {
					if !slices.Contains(before, x) {
						t.Errorf("copy %d was made in the place of one that has all", x.id)
					}
				}
			})
		})
	}
}

// A copy that could not say in time what it has is not given up for what it was not told to cut.
func TestFoundLateCopyWaitsForCut(t *testing.T) {
	finding(t, 2, simQuick, func(w *world, s *simSequence) {
		f, p := s.far, s.far.parts[0]
		_, second := w.late(s)
		w.lose(func(x *parcel) bool { return x.kind == "request" && x.worker == second.name })
		cut := func(broken bool, more uint32) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.broken, p.epoch = broken, p.epoch+more
		}
		must(t, f.mended.own(context.Background())) // a cut goes on, or has failed
		cut(true, 1)
		time.Sleep(2 * requestPatience * simQuick.Patience)
		w.lose(nil)
		for range 3 {
			if f.takeBack(context.Background(), p) {
				t.Errorf("a copy is taken back before it is cut")
			}
			time.Sleep(simQuick.Patience)
		}
		cut(false, math.MaxUint32)
		f.mended.disown()
		w.eventually("copies are there again", func() bool { return f.Missing() == 0 })
		if copies := f.good(p); copies[0].id > 2 || copies[1].id > 2 {
			t.Errorf("copies are %d and %d, want the first two", copies[0].id, copies[1].id)
		}
	})
}

// Of copies that are recalled those are not counted on that lack something, though nobody asks them
// for it, in parts that are full, too.
func TestFoundLateCopiesAreCut(t *testing.T) {
	for _, n := range []int{1, 1024 - 100} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			c := simQuick
			c.Copies = 3
			finding(t, 3, c, func(w *world, s *simSequence) {
				all := s.holders()
				w.lose(func(x *parcel) bool {
					return x.from == all[1].process || x.kind == "request" && x.worker == all[2].name
				})
				must(t, s.append(w.soon(), s.all(), n))
				w.kill(all[0])
				w.lose(nil)
				w.start(all[0])
				w.eventually("all is whole", func() bool {
					w.mu.Lock()
					defer w.mu.Unlock()
					return w.whole()
				})
			})
		})
	}
}

// While copies may lack something, none is given up because there are too many.
func TestFoundNoneIsTooManyUntilCut(t *testing.T) {
	finding(t, 2, simQuick, func(w *world, s *simSequence) {
		p, f := s.far.parts[0], s.far
		some := func(good []*partCopy) []*partCopy { return good[1:] }
		f.mu.Lock()
		f.broken = true
		f.mu.Unlock()
		if f.giveUp(context.Background(), p, some); len(f.good(p)) != 2 {
			t.Errorf("a copy was given up")
		}
	})
}

// An append without room uses the room of copies, of any sequence, that could not say in time what
// they have.
func TestFoundLateCopyYieldsToAppends(t *testing.T) {
	c := simQuick
	c.Copies = 1
	finding(t, 1, c, func(w *world, s *simSequence) {
		ctx := context.Background()
		other, err := w.client.NewSequence(s.config)
		must(t, err)
		defer other.Release()
		for _, x := range s.tokens([]int{0}, 1) {
			must(t, other.Append(ctx, x.layer, x.k, x.v))
		}
		p, full := s.far.parts[0], fail(attn.ErrCapacity, "full")
		w.client.noteFull(s.far.good(p))
		if err := s.far.makeRoom(ctx, p, full); !errors.Is(err, full) {
			t.Errorf("the error is %v, want that there is no room", err)
		}
		w.client.mu.Lock()
		for _, x := range other.parts[0].copies {
			x.behind = true
		}
		w.client.mu.Unlock()
		if err := s.far.makeRoom(ctx, p, full); err != nil {
			t.Errorf("the error is %v, though there was a copy to give up", err)
		}
		if n := w.nodes[0].worker.Status().Copies; n != 1 {
			t.Errorf("the worker has %d copies, want 1", n)
		}
	})
}

// What a slab of one shape has no use for is there for others: a run of a part goes to one slab.
func TestFoundShapesShareMemory(t *testing.T) {
	a := &arena{limit: 4 << 20, slabs: map[attn.StoreConfig][]*slab{}}
	for heads := 1; heads <= 4; heads++ {
		r, err := a.newRun(attn.StoreConfig{KVHeads: heads, HeadDim: 16, ValueDim: 16}, 20)
		must(t, err)
		defer a.free(r)
		if n := r.slab.store.FreePages(); n < 20 {
			t.Errorf("the slab of %d heads has %d pages, want 20 or more", heads, n)
		}
	}
}

// Where messages are lost and nothing else is to be, no worker is gone for as long as a lease.
func TestSimulationKnowsLeases(t *testing.T) {
	w := &world{safe: true, tight: true}
	for kind := 12; kind < 17; kind++ {
		if !w.endsLeases(kind) {
			t.Errorf("a fault of kind %d lasts", kind)
		}
	}
	if w.tight = false; w.endsLeases(12) {
		t.Errorf("a worker does not hang for long, though others have all copies")
	}
}

// A copy on a worker that leaves, given up when another one had all, is not one that is left,
// though the worker has not heard of it.
func TestSimulationKnowsWhatLeaves(t *testing.T) {
	finding(t, 2, simQuick, func(w *world, s *simSequence) {
		w.safe = false
		first, second := s.holders()[0], s.holders()[1]
		w.lose(func(x *parcel) bool { return x.kind == "request" && x.worker == second.name })
		ctx, cancel := context.WithDeadline(context.Background(), w.soon())
		defer cancel()
		beside(func() error { return second.worker.Drain(ctx) })
		w.eventually("one copy is given up", func() bool { return s.far.Missing() == 1 })
		time.Sleep(simQuick.Gone) // and is counted no more
		w.kill(first)
		w.start(first)
		err := s.attend(w.soon(), 0, 1)
		if s.afterLoss(err); !errors.Is(err, ErrLost) {
			t.Errorf("the error is %v, want ErrLost", err)
		}
		w.kill(second)
	})
}

// A play ends with its script, also if that ends by t.Fatal, or something that runs at the same
// time does.
func TestSimulationEnds(t *testing.T) {
	finding(t, 2, simQuick, func(w *world, s *simSequence) { runtime.Goexit() })
	finding(t, 2, simQuick, func(w *world, s *simSequence) {
		running := beside(func() error { return s.append(w.soon(), s.all(), 1) })
		<-beside(func() error {
			runtime.Goexit()
			return nil
		})
		must(t, <-running)
		beside(func() error { return w.client.Wait(context.Background(), 99) })
		w.kill(w.nodes[0])
		runtime.Goexit()
	})
}

// What the simulation says is lost without need, or whole, it knows from the workers: of each
// client, at the time of the error.
func TestSimulationKnowsWhatIsThere(t *testing.T) {
	finding(t, 2, simQuick, func(w *world, s *simSequence) {
		time.Sleep(10 * time.Millisecond) // what was made is counted
		now := time.Now()
		if s.holder(s.far, 0, now) == "" {
			t.Errorf("nobody has a copy now")
		}
		if name := s.holder(s.far, 0, w.begin); name != "" {
			t.Errorf("%s has a copy before it was made", name)
		}
		for part, copies := range w.counted {
			delete(w.counted, part)
			part.client[0]++
			w.counted[part] = copies
		}
		if name := s.holder(s.far, 0, now); name != "" {
			t.Errorf("%s has a copy of another client's number", name)
		}
		whole := func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.whole()
		}
		time.Sleep(3 * simQuick.Gone)
		if !whole() {
			t.Errorf("not all is whole")
		}
		n := s.holders()[0]
		w.kill(n)
		w.start(n)
		if whole() {
			t.Errorf("all is whole, though a worker has started without its copies")
		}
	})
}

// A copy that could not say in time what it has keeps no worker that leaves.
func TestFoundLateCopyLeaves(t *testing.T) {
	finding(t, 2, simQuick, func(w *world, s *simSequence) {
		_, second := w.late(s)
		ctx, cancel := context.WithDeadline(context.Background(), w.soon())
		defer cancel()
		drained := beside(func() error { return second.worker.Drain(ctx) })
		time.Sleep(10 * time.Millisecond)
		w.lose(nil)
		if err := <-drained; err != nil {
			t.Errorf("the error is %v", err)
		}
		w.kill(second)
	})
}

// fill lets layers of a sequence begin a page with the next token, and workers of its copies have
// one page left, until empty is called.
func (w *world) fill(s *simSequence, nodes ...*node) (empty func()) {
	must(w, s.append(w.soon(), s.all(), 2*attn.Block-100))
	config := s.far.shape.storeConfig()
	x := sameRow(1, attn.Block, config.HeadDim)
	var undo []func()
	for _, n := range nodes {
		a := &n.worker.arena
		a.mu.Lock()
		a.limit = a.used
		a.mu.Unlock()
		last := func() {}
		for r, err := a.newRun(config, 1); err == nil; r, err = a.newRun(config, 1) {
			must(w, r.Append(x, x))
			undo = append(undo, last)
			last = func() { a.free(r) }
		}
		last()
	}
	return func() {
		for _, free := range undo {
			free()
		}
	}
}

// brings reports whether a parcel brings tokens of a layer to a node.
func brings(x *parcel, n *node, layer int) bool {
	what := describe(x)
	return x.kind == "request" && x.worker == n.name && strings.Contains(what, "append") &&
		strings.Contains(what, fmt.Sprintf("layer %d at", layer))
}

// A copy that alone has what a step has brought to a layer is not given up for one that has what
// comes to another layer, and no room for the step's.
func TestFoundOneCopyHasAStep(t *testing.T) {
	for what, more := range map[string]func(w *world, s *simSequence) error{
		"a step":    func(w *world, s *simSequence) error { return s.step(w.soon(), 1, 1) },
		"an append": func(w *world, s *simSequence) error { return s.append(w.soon(), []int{1}, 1) },
	} {
		t.Run(what, func(t *testing.T) {
			finding(t, 3, simQuick, func(w *world, s *simSequence) {
				full, ample := s.holders()[0], s.holders()[1]
				defer w.fill(s, full)()
				w.lose(func(x *parcel) bool { return brings(x, full, 0) || brings(x, ample, 1) })
				step := beside(func() error { return s.step(w.soon(), 0, 1) })
				time.Sleep(simQuick.Patience / 2)
				other := beside(func() error { return more(w, s) })
				time.Sleep(simQuick.Patience)
				w.lose(func(x *parcel) bool { return brings(x, ample, 1) })
				time.Sleep(2 * simQuick.Patience)
				w.lose(nil)
				must(t, <-step)
				must(t, <-other)
			})
		})
	}
}

// Of steps of two layers one copy has both, before both have returned: where none has room for
// both, another one is made.
func TestFoundStepsOfOneCopyEach(t *testing.T) {
	finding(t, 3, simQuick, func(w *world, s *simSequence) {
		first, second := s.holders()[0], s.holders()[1]
		defer w.fill(s, first, second)()
		w.lose(func(x *parcel) bool { return brings(x, first, 0) || brings(x, second, 1) })
		must(t, s.step(w.soon(), 0, 1)) // the second has it
		done := beside(func() error { return s.step(w.soon(), 1, 1) })
		time.Sleep(simQuick.Patience / 2)
		if len(done) > 0 {
			t.Errorf("the step of layer 1 ends, where no copy has both layers'")
		}
		time.Sleep(2 * simQuick.Patience)
		w.lose(nil)
		must(t, <-done)
	})
}

// A copy that has no room for what a step has brought to another one is counted on no more, also
// where that one is away for a moment.
func TestFoundNoRoomToFollow(t *testing.T) {
	finding(t, 3, simQuick, func(w *world, s *simSequence) {
		full, ample := s.holders()[0], s.holders()[1]
		defer w.fill(s, full)()
		w.lose(func(x *parcel) bool { return brings(x, full, 0) || brings(x, ample, 1) })
		must(t, s.step(w.soon(), 0, 1)) // the ample one has it
		ample.process.goAway(700 * time.Millisecond)
		_, _ = w.client.status(context.Background(), ample.name) // it is seen that nobody listens
		done := beside(func() error { return s.append(w.soon(), []int{1}, 1) })
		time.Sleep(simQuick.Patience / 2)
		w.lose(func(x *parcel) bool { return brings(x, ample, 1) })
		time.Sleep(5 * simQuick.Patience)
		w.lose(nil)
		must(t, <-done)
	})
}

// A copy whose worker leaves stays where the other one's worker has just started without it, also
// if it has while something else kept the sequence.
func TestFoundWhoStaysHasNothing(t *testing.T) {
	for _, late := range []bool{false, true} {
		finding(t, 2, simQuick, func(w *world, s *simSequence) {
			p, all := s.far.parts[0], s.holders()
			again := func() {
				w.kill(all[1])
				w.start(all[1])
			}
			if !late {
				again()
			}
			w.client.mu.Lock()
			for name, m := range w.client.members { // so there is no other one to go to
				m.status.Leaving = name == all[0].name
			}
			w.client.mu.Unlock()
			if late {
				must(t, s.far.change.share(context.Background()))
				go func() {
					time.Sleep(simQuick.Patience / 2)
					again()
					s.far.change.unshare()
				}()
			}
			s.far.addCopy(context.Background(), p, 1)
			if len(s.far.good(p)) == 0 || s.far.good(p)[0].worker != all[0].name {
				t.Errorf("late %v: the last copy was given up", late)
			}
		})
	}
}
