package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/cluster"
	"github.com/seed-1415985d/attn/internal/flags"
)

const soakAbout = `attn-cluster soak -for 30m

Appends, attends, steps and truncates on a cluster of processes on this machine, while workers are
killed, leave, restart, are stopped for a while, and receive garbage messages. Only one worker has
trouble at a time, and the next one only after all copies exist again, so no token may be lost. Each
output is compared with one machine, bit for bit. After each sequence no page may be in use, and no
memory or goroutine may be left.

`

// soak is the state of a run.
type soak struct {
	*table
	local  *local
	random *rand.Rand
	counts
	trouble *trouble   // of a worker at the moment
	first   *footprint // after the first round
}

// counts count events.
type counts struct {
	rounds, steps, appended                 int
	kills, leaves, stalls, garbage, rebuilt int
	slowest                                 time.Duration
}

func (c *counts) String() string {
	return fmt.Sprintf("round %d: %d outputs, %d tokens, %d kills, %d leaves, %d stalls, %d garbage "+
		"messages, copies there again %d times, slowest %v", c.rounds, c.steps, c.appended, c.kills,
		c.leaves, c.stalls, c.garbage, c.rebuilt, round(c.slowest))
}

func soakCommand(ctx context.Context, args []string, stdout, _ io.Writer) error {
	fs := flags.New(soakAbout)
	duration := fs.Duration("for", 30*time.Minute, "`time` to run")
	perRound := fs.Duration("round", 20*time.Second, "`time` for each sequence")
	workers := fs.Int("workers", 4, "`number` of worker processes")
	seed := fs.Uint64("seed", 0, "random seed of the events (default the current time)")
	if err := flags.ParseAll(fs, args, stdout); err != nil {
		return err
	}
	if *workers < 3 {
		return flags.Errorf("-workers is %d, want at least 3: one has trouble, and two keep copies",
			*workers)
	}
	if *workers > mostProcesses {
		return flags.Errorf("-workers is %d, want at most %d", *workers, mostProcesses)
	}
	if *duration <= 0 || *perRound <= 0 {
		return flags.Errorf("-for is %v and -round %v, want more than 0", *duration, *perRound)
	}
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	s := &soak{table: newTable(stdout), random: rand.New(rand.NewPCG(*seed, 0))}
	s.say("seed %d", *seed)
	return s.run(ctx, *workers, *duration, *perRound)
}

func (s *soak) run(ctx context.Context, workers int, duration, perRound time.Duration) (err error) {
	s.local, err = startLocal(ctx, localConfig{workers: workers, threads: 1, memory: soakMemory,
		monitor: true, env: []string{workerLimit}, client: cluster.ClientConfig{Segments: 1,
			Patience: 300 * time.Millisecond, Gone: 1500 * time.Millisecond, Lease: 10 * time.Second}})
	if err != nil {
		return err
	}
	defer s.local.close()
	defer s.release()
	start := time.Now()
	for err == nil && time.Since(start) < duration {
		if err = s.round(ctx, min(perRound, duration-time.Since(start))); err != nil {
			err = fmt.Errorf("round %d: %w", s.rounds+1, err)
			break
		}
		s.rounds++
		s.draw(true, fmt.Sprintf("%-7v %v", time.Since(start).Round(time.Second), &s.counts))
		err = s.checkLeaks(ctx)
	}
	if _, is := early(ctx, err); is {
		s.summary("Until then", time.Since(start))
	}
	if err != nil {
		return err
	}
	s.summary("Passed", time.Since(start))
	last, err := s.measure()
	if err != nil {
		return err
	}
	s.say("At first and at last, client: %d and %d goroutines, %s and %s of heap, %s and %s in all; "+
		"worker %s: %d and %d goroutines, %s and %s in all.", s.first.goroutines, last.goroutines,
		size(s.first.heap), size(last.heap), size(s.first.memory), size(last.memory), survivor,
		s.first.workerGoroutines, last.workerGoroutines, size(s.first.workerMemory),
		size(last.workerMemory))
	return nil
}

// summary prints the counts.
func (s *soak) summary(what string, in time.Duration) {
	s.say("%s: %d rounds in %v. %d outputs with the bits of one machine, over %d tokens that came; "+
		"the slowest took %v.", what, s.rounds, in.Round(time.Second), s.steps, s.appended,
		s.slowest.Round(time.Millisecond))
	s.say("%d kills, %d leaves, %d stalls, %d garbage messages; all copies were there again %d "+
		"times; no token was lost.", s.kills, s.leaves, s.stalls, s.garbage, s.rebuilt)
}

// release ends the worker that has trouble: a stopped worker receives no request to end, and a
// leaving one is not in the cluster's list any more.
func (s *soak) release() {
	switch x := s.trouble; {
	case x == nil || x.over || x.killed:
	case x.left != nil:
		x.left.end()
	default:
		_ = resume(s.local.workers[x.worker].Process) // it may have ended
	}
}

// soakMemory is the memory of each worker: F32 fills half of all of it, so parts have to move at
// times.
const soakMemory = 24 << 20

// round is the life of a sequence.
func (s *soak) round(ctx context.Context, duration time.Duration) error {
	formats := []attn.Format{attn.F32, attn.F16, attn.BF16, attn.I8, attn.I4}
	sh := shape{layers: 2, heads: 4, kvHeads: 2, dim: 32, format: formats[s.random.IntN(len(formats))]}
	sh.integers = sh.format >= attn.I8 && s.random.IntN(2) == 0
	const most = 24 * attn.Segment
	t, err := newTwin(s.local, sh, most, s.random.Uint64())
	if err != nil {
		return err
	}
	defer t.close()
	end := time.Now().Add(duration)
	for time.Now().Before(end) || s.trouble != nil {
		if err := s.disturb(ctx, t, time.Now().Before(end)); err != nil {
			return err
		}
		if err := s.use(ctx, t, most); err != nil {
			return fmt.Errorf("%v: %w", sh, err)
		}
	}
	t.far.Release()
	return s.local.empty(ctx)
}

// use appends, with or without steps, or truncates, and compares.
func (s *soak) use(ctx context.Context, t *twin, most int) error {
	n := 1 + s.random.IntN(1<<s.random.IntN(11))
	if have := t.near[0].Len(); have+n > most {
		keep := s.random.IntN(min(have, most-n+1))
		for _, x := range t.near {
			if err := x.Truncate(keep); err != nil {
				return err
			}
		}
		if err := t.far.Truncate(ctx, keep); err != nil {
			return err
		}
	}
	s.appended += n
	if s.random.IntN(2) == 0 {
		return s.output(t, func(layer int) (step, error) { return t.step(ctx, layer, n) })
	}
	for layer := range t.layers {
		if err := t.append(ctx, layer, n); err != nil {
			return err
		}
	}
	rows := 1 + s.random.IntN(min(n, 4))
	return s.output(t, func(layer int) (step, error) { return t.attend(ctx, layer, rows) })
}

// output makes a call for each layer, and compares.
func (s *soak) output(t *twin, call func(layer int) (step, error)) error {
	for layer := range t.layers {
		x, err := call(layer)
		if err != nil {
			return err
		}
		s.steps++
		s.slowest = max(s.slowest, x.far)
	}
	return nil
}

// trouble is a disturbance of a worker. After it, nothing else happens until all copies exist
// again.
type trouble struct {
	worker string
	killed bool
	left   *child // that was asked to leave
	until  time.Time
	over   bool
	limit  time.Time // for making the copies
}

// survivor is never killed, so that it shows leaks.
const survivor = "w1"

// disturb ends trouble or, if begin, begins some, and sends garbage.
func (s *soak) disturb(ctx context.Context, t *twin, begin bool) error {
	if s.random.IntN(4) == 0 {
		if err := s.sendGarbage(); err != nil {
			return err
		}
	}
	x := s.trouble
	switch {
	case x == nil && begin && t.far.Missing() == 0:
		return s.begin()
	case x == nil: // or a copy was given up since, because its worker was late
		return nil
	case !x.over && x.left != nil:
		return s.awaitLeft(ctx, x)
	case !x.over && time.Now().After(x.until):
		x.over, x.limit = true, time.Now().Add(time.Minute)
		if x.killed {
			return s.local.restart(ctx, x.worker)
		}
		return resume(s.local.workers[x.worker].Process)
	case x.over && t.far.Missing() == 0 && s.allThere():
		s.trouble = nil
		s.rebuilt++
	case x.over && time.Now().After(x.limit):
		return fmt.Errorf("%d copies are missing a minute after the trouble of worker %s",
			t.far.Missing(), x.worker)
	}
	return nil
}

// awaitLeft restarts a worker that has left. It must have handed on all its copies.
func (s *soak) awaitLeft(ctx context.Context, x *trouble) error {
	select {
	case <-x.left.exited:
	default:
		if time.Now().After(x.until) {
			return fmt.Errorf("worker %s has not left after %v", x.worker, leavePatience)
		}
		return nil
	}
	if !x.left.ProcessState.Success() {
		return fmt.Errorf("worker %s has left with %v: %s", x.worker, x.left.ProcessState,
			x.left.Stderr)
	}
	x.over, x.limit = true, time.Now().Add(time.Minute)
	return s.local.restart(ctx, x.worker)
}

// leavePatience is longer than a worker needs at most to leave.
const leavePatience = 40 * time.Second

// allThere reports whether all workers announce themselves.
func (s *soak) allThere() bool {
	return len(s.local.client.Workers()) == s.local.config.workers
}

// begin kills or stops a worker.
func (s *soak) begin() error {
	if s.random.IntN(8) > 0 {
		return nil // a quiet moment
	}
	worker := fmt.Sprintf("w%d", 1+s.random.IntN(s.local.config.workers))
	x := &trouble{worker: worker}
	x.until = time.Now().Add(time.Duration(s.random.IntN(3000)) * time.Millisecond)
	var err error
	kind := (s.kills + s.leaves + s.stalls) % 3 // each kind in turn
	switch {
	case worker != survivor && (kind == 0 || !canStall):
		x.killed = true
		s.local.kill(worker)
		s.kills++
	case !canStall:
		return nil
	case worker != survivor && kind == 1:
		x.left, err = s.local.leave(worker)
		x.until = time.Now().Add(leavePatience)
		s.leaves++
	default:
		err = stall(s.local.workers[worker].Process)
		s.stalls++
	}
	s.trouble = x
	return err
}

// sendGarbage sends invalid messages to subjects where messages are read.
func (s *soak) sendGarbage() error {
	conn := s.local.link.Conn()
	worker := fmt.Sprintf("attn.worker.w%d", 1+s.random.IntN(s.local.config.workers))
	for range 10 {
		data := make([]byte, s.random.IntN(200))
		for i := range data {
			data[i] = byte(s.random.Uint32())
		}
		if s.random.IntN(2) == 0 { // with the beginning of a request of version 8
			copy(data, "aCm\x08")
		}
		subject := []string{worker, "attn.status", "attn.hello"}[s.random.IntN(3)]
		reply := []string{"", "attn.inbox.nobody.1", "elsewhere"}[s.random.IntN(3)]
		m := nats.Msg{Subject: subject, Reply: reply, Data: data}
		if err := conn.PublishMsg(&m); err != nil {
			return err
		}
		s.garbage++
	}
	return nil
}

// footprint holds the numbers that leaks would increase.
type footprint struct {
	goroutines, workerGoroutines int
	heap, memory, workerMemory   uint64 // memory is the process's memory as the system reports it
}

// measure measures between rounds, when no tokens are kept.
func (s *soak) measure() (*footprint, error) {
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	own, err := ownMetrics()
	if err != nil {
		return nil, err
	}
	values, err := scrape(s.local.workers[survivor])
	if err != nil {
		return nil, err
	}
	if used, copies := values["attn_cluster_used_bytes"], values["attn_cluster_copies"]; used != 0 ||
		copies != 0 {
		return nil, fmt.Errorf("worker %s has %v copies in %v bytes, want none", survivor, copies, used)
	}
	const resident = "process_resident_memory_bytes" // 0 where the system does not report it
	return &footprint{runtime.NumGoroutine(), int(values["go_goroutines"]), m.HeapAlloc,
		uint64(own[resident]), uint64(values[resident])}, nil
}

// workerLimit makes workers collect garbage early, since garbage is not a leak. Live memory between
// rounds is far less.
const workerLimit = "GOMEMLIMIT=24MiB"

// The allowed growth since the first measurement: pools of the NATS client and server fill and
// empty, up to 16 idle goroutines wait for work, and the garbage collector releases memory with a
// delay.
const (
	spareGoroutines = 4 + 16
	spareHeap       = 8 << 20
	spareMemory     = 32 << 20
)

// checkLeaks compares with the measurement after the first round. Calls whose answers nobody
// awaited may still be ending.
func (s *soak) checkLeaks(ctx context.Context) error {
	return eventually(ctx, 15*time.Second, func() error {
		u, err := s.measure()
		if err != nil {
			return err
		}
		if s.first == nil {
			s.first = u
		}
		return s.first.check(u)
	})
}

func (u *footprint) check(now *footprint) error {
	var errs []error
	grown := func(what string, before, after, spare uint64) {
		if after > before+spare {
			errs = append(errs, fmt.Errorf("%s: %d after the first round, %d now", what, before, after))
		}
	}
	grown("goroutines", uint64(u.goroutines), uint64(now.goroutines), spareGoroutines)
	grown("bytes of the heap", u.heap, now.heap, spareHeap)
	grown("bytes of the client", u.memory, now.memory, spareMemory)
	grown("goroutines of worker "+survivor, uint64(u.workerGoroutines), uint64(now.workerGoroutines),
		spareGoroutines)
	grown("bytes of worker "+survivor, u.workerMemory, now.workerMemory, spareMemory)
	return errors.Join(errs...)
}

// monitorAddress returns the address of a worker's metrics, from its output.
func (c *child) monitorAddress() string {
	i := slices.IndexFunc(c.said, func(s string) bool { return strings.HasPrefix(s, "metrics") })
	if i < 0 {
		return ""
	}
	_, address, _ := strings.Cut(c.said[i], " at ")
	return address
}
