package lmcache

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/seed-1415985d/attn/cluster"
	"github.com/seed-1415985d/attn/cluster/embedded"
	"github.com/seed-1415985d/attn/models/lm"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// workers starts a NATS server with workers in this process, and returns a client of them and what
// ends a worker as a crash does.
func workers(t *testing.T, n int) (c *cluster.Client, all []*cluster.Worker, kill func(i int)) {
	t.Helper()
	s, err := embedded.Start(&server.Options{})
	must(t, err)
	t.Cleanup(func() { embedded.Stop(s) })
	var links []*cluster.NATS
	for i := range n {
		link, err := cluster.DialNATS(cluster.NATSConfig{URL: s.ClientURL()})
		must(t, err)
		w, err := cluster.NewWorker(link, cluster.WorkerConfig{Name: fmt.Sprint("w", i),
			Memory: 64 << 20, Threads: 1, Announce: 100 * time.Millisecond})
		must(t, err)
		all, links = append(all, w), append(links, link)
	}
	kill = func(i int) {
		_ = links[i].Close()
		all[i].Close()
	}
	link, err := cluster.DialNATS(cluster.NATSConfig{URL: s.ClientURL()})
	must(t, err)
	c, err = cluster.NewClient(link, cluster.ClientConfig{Segments: 1})
	must(t, err)
	t.Cleanup(func() {
		c.Close()
		_ = link.Close()
		for i := range all {
			kill(i)
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	must(t, c.Wait(ctx, n))
	return c, all, kill
}

// answers are the tokens and logits of some answers that are made at the same time.
func answers(t *testing.T, o lm.Options, then func(step int)) []string {
	t.Helper()
	o.Context, o.Chunk = 1200, 1200
	m, err := lm.Random(lm.Sizes{Layers: 2, Hidden: 64, Heads: 4, KVHeads: 2, FFN: 96, Vocab: 300,
		Seed: 1}, o)
	must(t, err)
	defer m.Close()
	all, done := make([]string, 3), make(chan error, 3)
	for i := range all {
		prompt := make([]int32, 5+500*i)
		for j := range prompt {
			prompt[j] = int32(j * 7 % 256)
		}
		go func() {
			step := 0
			g := lm.Generation{MaxTokens: 30, Logits: func(_ []int32, logits []float32) error {
				if step++; i == 2 {
					then(step)
				}
				all[i] += fmt.Sprint(logits[:4])
				return nil
			}}
			for token, err := range m.Generate(context.Background(), prompt, g) {
				if err != nil {
					done <- err
					return
				}
				all[i] += fmt.Sprintln(token.ID)
			}
			done <- nil
		}()
	}
	for range all {
		must(t, <-done)
	}
	return all
}

// TestSameBits compares answers with keys and values on a cluster with answers without one, where a
// worker dies in the middle, too: each part of a sequence has a copy on another one.
func TestSameBits(t *testing.T) {
	for _, o := range []lm.Options{{}, {Keys: lm.F16}, {Keys: lm.I8, Values: lm.I4},
		{Products: lm.Integers, Keys: lm.I8}} {
		c, all, kill := workers(t, 3)
		want := answers(t, o, func(int) {})
		o.Cache = New(context.Background(), c)
		got := answers(t, o, func(step int) {
			if step == 10 {
				kill(0)
			}
		})
		if !slices.Equal(got, want) {
			t.Errorf("%v, %v: answers differ from those without a cluster", o.Keys, o.Products)
		}
		for range 600 {
			if all[1].Status().Copies+all[2].Status().Copies == 0 {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if n := all[1].Status().Copies + all[2].Status().Copies; n != 0 {
			t.Errorf("workers have %d copies when the model is closed, want none", n)
		}
	}
}

func TestSegments(t *testing.T) {
	for context, want := range map[int]int{0: 1, 8192: 1, 16385: 2, 1 << 20: 16} {
		if got := Segments(context); got != want {
			t.Errorf("a context of %d has parts of %d segments, want %d", context, got, want)
		}
	}
}
