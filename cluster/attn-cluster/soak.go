package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/cluster"
)

// soakConfig is short waits, so that much happens.
var soakConfig = cluster.ClientConfig{Segments: 2, Patience: 300 * time.Millisecond,
	Gone: 2 * time.Second}

// soak appends, attends, truncates and compares while one worker after the other is killed, stalled
// or sent garbage. The next fault waits until all copies are there again.
func soak(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f := flag.NewFlagSet("attn-cluster soak", flag.ContinueOnError)
	f.SetOutput(stderr)
	length := f.Duration("time", time.Minute, "how long")
	workers := f.Int("workers", 4, "processes")
	seed := f.Uint64("seed", 1, "of what happens")
	if err := parse(f, args); err != nil {
		return err
	}
	if *workers < 3 {
		return usageError{fmt.Errorf("-workers is %d, want at least 3: two copies, and one to rebuild on",
			*workers)}
	}
	l, err := newLocal(ctx, *workers, 512<<20, soakConfig, stderr)
	if err != nil {
		return err
	}
	defer l.close()
	s := &soaking{local: l, out: stdout, rand: rand.New(rand.NewPCG(*seed, 2)),
		count: map[string]int{}}
	end := time.Now().Add(*length)
	for run := 0; time.Now().Before(end); run++ {
		format := attn.Format(run % 4)
		if err := s.run(ctx, format, end); err != nil {
			return fmt.Errorf("run %d, %v: %w", run, format, err)
		}
		if err := s.leaks(ctx); err != nil {
			return fmt.Errorf("after run %d, %v: %w", run, format, err)
		}
	}
	fmt.Fprintf(stdout,
		"Checked: %d answers have the bits of one machine, no token was lost, nothing "+
			"leaked. Faults: %v.\n", s.answers, s.count)
	return nil
}

// soaking is a soak at work.
type soaking struct {
	*local
	out        io.Writer
	rand       *rand.Rand
	count      map[string]int
	answers    int
	goroutines int // after the first run
	heap       uint64
	stalled    string
	wake       time.Time
}

// runSteps is how long a sequence lives at most.
const runSteps, runTokens = 3000, 1 << 16

// run is the life of a sequence.
func (s *soaking) run(ctx context.Context, format attn.Format, end time.Time) error {
	t, err := s.newTrial(format, format == attn.I8 && s.rand.IntN(2) == 0, runTokens)
	if err != nil {
		return err
	}
	defer t.close()
	defer s.resume()
	next := time.Now()
	for step := 0; step < runSteps && time.Now().Before(end); step++ {
		call, cancel := context.WithTimeout(ctx, 30*time.Second)
		err := s.step(call, t)
		cancel()
		if err != nil {
			return fmt.Errorf("step %d, faults so far %v: %w", step, s.count, err)
		}
		if s.stalled != "" && time.Now().After(s.wake) {
			s.resume()
			next = time.Now().Add(time.Second)
		}
		if s.stalled == "" && time.Now().After(next) && t.far.Missing() == 0 {
			if err := s.fault(ctx); err != nil {
				return err
			}
			next = time.Now().Add(time.Duration(1+s.rand.IntN(2000)) * time.Millisecond)
		}
	}
	return nil
}

// step changes the sequence a little, and compares an answer.
func (s *soaking) step(ctx context.Context, t *trial) error {
	n := 1
	switch s.rand.IntN(20) {
	case 0:
		n = 1 + s.rand.IntN(3000)
	case 1:
		keep := t.near.Len() - s.rand.IntN(t.near.Len()/4+1)
		if err := errors.Join(t.near.Truncate(keep), t.far.Truncate(ctx, keep)); err != nil {
			return err
		}
	}
	if n = min(n, runTokens-t.near.Len()); n > 0 {
		if err := t.append(ctx, n); err != nil {
			return err
		}
	}
	if err := t.attend(ctx); err != nil {
		return err
	}
	s.answers++
	return t.compare()
}

// fault lets something happen to a worker.
func (s *soaking) fault(ctx context.Context) error {
	name := fmt.Sprint("w", s.rand.IntN(len(s.workers)))
	switch s.rand.IntN(3) {
	case 0:
		s.count["killed"]++
		s.kill(name)
		if err := s.start(name); err != nil {
			return err
		}
		return s.client.Wait(ctx, len(s.workers))
	case 1:
		if err := stall(s.workers[name].Process); err != nil {
			return nil // this system has no such thing
		}
		s.count["stalled"]++
		s.stalled = name
		s.wake = time.Now().Add(time.Duration(s.rand.IntN(4000)) * time.Millisecond)
	case 2:
		s.count["garbage"]++
		data := make([]byte, s.rand.IntN(1<<16))
		for i := range data {
			data[i] = byte(s.rand.Uint32())
		}
		for _, subject := range []string{"worker." + name, "status", "hello"} {
			if err := s.link.Conn().PublishRequest("attn."+subject, "attn.inbox.x", data); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *soaking) resume() {
	if s.stalled != "" {
		_ = resume(s.workers[s.stalled].Process) // it was stalled, so it can be
		s.stalled = ""
	}
}

// leaks is an error if workers keep what was released, or this process grows.
func (s *soaking) leaks(ctx context.Context) error {
	var used int64
	for range 200 {
		used = 0
		for _, w := range s.client.Workers() {
			used += w.Used + int64(w.Copies)
		}
		if used == 0 && len(s.client.Workers()) == len(s.workers) {
			break
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	n := runtime.NumGoroutine()
	if s.goroutines == 0 {
		s.goroutines, s.heap = n, m.HeapAlloc
	}
	fmt.Fprintf(s.out, "%d answers, faults %v, %d goroutines, heap %d KiB, workers keep %d bytes\n",
		s.answers, s.count, n, m.HeapAlloc>>10, used)
	switch {
	case used != 0:
		return fmt.Errorf("workers keep %d bytes of released sequences after 10 seconds", used)
	case n > s.goroutines+16:
		return fmt.Errorf("there are %d goroutines, want about %d", n, s.goroutines)
	case m.HeapAlloc > s.heap+64<<20:
		return fmt.Errorf("the heap has %d bytes, want about %d", m.HeapAlloc, s.heap)
	}
	return nil
}
