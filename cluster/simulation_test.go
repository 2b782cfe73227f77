package cluster

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"
)

var (
	simSeed  = flag.Uint64("seed", 0, "run the simulation of this seed only, and print all")
	simRuns  = flag.Uint64("runs", 500, "how many simulations to run,")
	simFirst = flag.Uint64("first", 1, "and the seed of the first one")
)

// TestSimulation lets clients and workers live through random trouble: what is answered has the
// bits of one machine or is an error that the documentation names, nothing is lost while a copy
// lives, and nothing stays behind.
func TestSimulation(t *testing.T) {
	first, runs := *simFirst, *simRuns
	if *simSeed > 0 {
		first, runs = *simSeed, 1
	}
	stats := map[string]int{}
	for seed := first; seed < first+runs; seed++ {
		simulate(t, seed, stats)
	}
	t.Logf("%d runs: %v", runs, stats)
}

// TestSimulationRepeats: a seed gives the same run again. In one run of a thousand two goroutines
// are due at the same instant, and run in either order.
func TestSimulationRepeats(t *testing.T) {
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings,
		debug.BuildSetting{Key: "-race", Value: "true"}) {
		t.Skip("the race detector lets goroutines run in random order")
	}
	const first, last = 110, 139
	var others []uint64
	for seed := uint64(first); seed <= last; seed++ {
		if once := simulate(t, seed, nil); simulate(t, seed, nil) != once {
			others = append(others, seed)
		}
	}
	if len(others) > 1 {
		t.Errorf("of seeds %d to %d these gave another run: %d", first, last, others)
	}
}

// simulate runs the simulation of a seed, and returns the sum of its trace.
func simulate(t *testing.T, seed uint64, stats map[string]int) (sum uint32) {
	ok := t.Run(fmt.Sprint(seed), func(t *testing.T) {
		inBubble(t, seed, func(t *testing.T) {
			w := newWorld(t, seed)
			w.play(w.script)
			sum = w.trace.sum
			for what, n := range w.stats {
				if stats != nil {
					stats[what] += n
				}
			}
		})
	})
	if !ok {
		t.Errorf("go test -run 'TestSimulation$' -v -seed %d repeats it", seed)
	}
	return sum
}

// inBubble runs a test on a clock of its own and with random numbers of a seed, one goroutine after
// another, which the garbage collector would put in another order.
func inBubble(t *testing.T, seed uint64, f func(t *testing.T)) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	cryptotest.SetGlobalRandom(t, seed)
	synctest.Test(t, f)
}

// play plays a script. One that ends by t.Fatal leaves clients and workers, which would go on for
// ever.
func (w *world) play(script func()) {
	defer w.endAll()
	if *simSeed > 0 {
		w.trace.lines = func(line string) { w.Log(line) }
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		script()
	}()
	w.conduct(done)
}

// endAll ends clients and workers that there still are.
func (w *world) endAll() {
	if c := w.theClient(); c != nil {
		c.Close()
	}
	w.leaving.Wait()
	for _, n := range w.running() {
		n.worker.Close()
	}
}

// beside runs f at the same time as a script, and returns a channel for its error: it stays empty
// if f ends by t.Fatal.
func beside(f func() error) <-chan error {
	done := make(chan error, 1)
	go func() {
		defer close(done)
		done <- f()
	}()
	return done
}

// newWorld draws what a run is like.
func newWorld(t *testing.T, seed uint64) *world {
	r := rand.New(rand.NewPCG(seed, 0))
	w := &world{T: t, seed: seed, dice: r, begin: time.Now(), sent: make(chan struct{}, 1),
		serving: map[string]*process{}, stats: map[string]int{},
		counted: map[simPart]map[uint64]simCopy{}}
	some := func(most float64) float64 { return most * r.Float64() * float64(r.IntN(2)) }
	w.weather = weather{loss: some(0.05), twice: some(0.5), slow: some(0.3), garbage: some(0.02),
		lag: time.Duration(1 + r.ExpFloat64()*float64(2*time.Millisecond))}
	w.weather.pause = between(r, 0, time.Second)
	if r.IntN(5) > 0 {
		w.weather.faults = between(r, 300*time.Millisecond, 5*time.Second)
	}
	if w.safe = r.IntN(2) == 0; w.safe { // one trouble at a time
		if c := &w.weather; r.IntN(3) == 0 {
			c.faults = 0
		} else {
			c.loss, c.slow, c.garbage = 0, 0, 0
		}
	}
	if w.calm = r.IntN(10) == 0; w.calm {
		w.weather, w.safe = weather{lag: w.weather.lag, pause: w.weather.pause}, true
	}
	for i := range 2 + r.IntN(4) {
		c := WorkerConfig{Name: fmt.Sprint("w", i), Memory: 4 << 20, Threads: 1 + r.IntN(2),
			Announce: odd(r, 300*time.Millisecond), Lease: odd(r, 10*time.Second)}
		if !w.safe && r.IntN(3) == 0 {
			c.Memory = int64(1+r.IntN(16)) << 14
		}
		if r.IntN(4) == 0 && !w.calm {
			c.Calls = 1 + r.IntN(6)
		}
		w.nodes = append(w.nodes, &node{name: c.Name, config: c})
	}
	// Of some other random numbers, so that what else is drawn stays as it is.
	more := rand.New(rand.NewPCG(seed, 1<<32))
	if w.tight = w.safe && !w.calm && len(w.nodes) > 2 && more.IntN(2) == 0; w.tight {
		w.weather.loss, w.weather.slow = 0.1*more.Float64(), 0.3*more.Float64()
		w.nodes[more.IntN(len(w.nodes))].config.Memory = int64(1+more.IntN(16)) << 14
	}
	return w
}

// odd returns a duration near d, no multiple of which is a multiple of another: events that are due
// at the same instant happen in any order.
func odd(r *rand.Rand, d time.Duration) time.Duration {
	return between(r, d, d+d/100) | 1
}

// connect starts the client, and waits for all workers.
func (w *world) connect(c ClientConfig) {
	caller := &process{world: w, name: "client"}
	client, err := newClient(caller, c, caller.now)
	must(w, err)
	w.mu.Lock()
	w.caller, w.client = caller, client
	w.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	must(w, client.Wait(ctx, len(w.nodes)))
}

// script is what happens in a run: users do this and that while things fail, and in the end all
// must come to be in order.
func (w *world) script() {
	for _, n := range w.nodes {
		w.start(n)
		time.Sleep(between(w.dice, 0, time.Millisecond))
	}
	c := ClientConfig{Copies: 1 + w.dice.IntN(3), Segments: 1 + w.dice.IntN(2),
		Patience: odd(w.dice, 300*time.Millisecond), Gone: odd(w.dice, time.Second),
		Lease: odd(w.dice, 3900*time.Millisecond), Timeout: odd(w.dice, 20*time.Second)}
	if w.safe {
		c.Copies = 2
	}
	if w.dice.IntN(2) == 0 {
		c.Chunk = 1 << (10 + w.dice.IntN(8))
	}
	w.connect(c)
	var users []*simUser
	for i := range 1 + w.dice.IntN(2) {
		users = append(users, w.user(fmt.Sprint("user", i), uint64(i+1)))
	}
	w.faultLater()
	var wg sync.WaitGroup
	for _, u := range users {
		wg.Go(func() {
			for range 20 {
				u.act()
				time.Sleep(time.Duration(u.rand.ExpFloat64() * float64(w.weather.pause)))
			}
		})
	}
	wg.Wait()
	w.heal()
	for _, u := range users {
		for _, s := range u.sequences {
			if s.closed() {
				s.fresh()
			}
		}
	}
	w.end(users)
}

// end makes sure that all is in order in the end, and that nothing is left of it.
func (w *world) end(users []*simUser) {
	w.eventually("all workers run", w.allUp)
	var all []*simSequence
	for _, u := range users {
		all = append(all, u.sequences...)
	}
	for _, s := range all {
		for layer := range s.config.Layers {
			err := s.attend(time.Now().Add(time.Minute), layer, 2)
			if s.afterLoss(err); err != nil && !errors.Is(err, ErrLost) {
				w.Errorf("%s: Attend over what is in order: %v", s.name, err)
			}
		}
		if w.safe {
			w.eventually("no copies are missing", func() bool { return s.far.Missing() == 0 })
		}
	}
	for _, s := range all {
		s.far.Release()
	}
	for _, n := range w.nodes {
		w.eventually(n.name+" has nothing", func() bool {
			s := n.worker.Status()
			return s.Copies == 0 && s.Used == 0
		})
	}
	w.client.Close()
	for _, s := range all {
		for _, layer := range s.near {
			layer.Release()
		}
	}
	for _, u := range users {
		must(w, u.store.Close())
	}
	for _, n := range w.nodes {
		n.worker.Close()
		if s := n.worker.Status(); s.Clients != 0 || s.Copies != 0 || s.Used != 0 || s.Running != 0 {
			w.Errorf("%+v is left of a worker", s)
		}
	}
}

// eventually waits until something is so.
func (w *world) eventually(what string, so func() bool) {
	for range 600 {
		if so() {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	w.Errorf("after a minute it is not so that %s", what)
}
