package lmcache_test

import (
	"context"
	"fmt"
	"log"
	"slices"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/seed-1415985d/attn/cluster"
	"github.com/seed-1415985d/attn/cluster/embedded"
	"github.com/seed-1415985d/attn/cluster/lmcache"
	"github.com/seed-1415985d/attn/models/lm"
)

// Keep the keys and values of a model on a cluster: here a server and a worker in this process.
// Answers have the bits of one machine.
func ExampleNew() {
	s, err := embedded.Start(&server.Options{})
	check(err)
	defer embedded.Stop(s)
	dial := func() *cluster.NATS {
		link, err := cluster.DialNATS(cluster.NATSConfig{URL: s.ClientURL()})
		check(err)
		return link
	}
	w, err := cluster.NewWorker(dial(), cluster.WorkerConfig{Name: "one", Memory: 16 << 20,
		Announce: 50 * time.Millisecond})
	check(err)
	defer w.Close()
	c, err := cluster.NewClient(dial(), cluster.ClientConfig{Segments: lmcache.Segments(256)})
	check(err)
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	check(c.Wait(ctx, 1))

	there := answer(lm.Options{Context: 256, Cache: lmcache.New(ctx, c)})
	here := answer(lm.Options{Context: 256})
	fmt.Println(slices.Equal(there, here), len(there), "tokens")
	// Output: true 6 tokens
}

// answer is the tokens of one. lm.Open("model.gguf", o) opens a real model.
func answer(o lm.Options) (ids []int32) {
	m, err := lm.Random(lm.Sizes{Layers: 2, Hidden: 64, FFN: 96, Seed: 7}, o)
	check(err)
	defer m.Close()
	g := lm.Generation{MaxTokens: 6, Sampling: lm.Sampling{Temperature: 1, Seed: 2}}
	for token, err := range m.Complete(context.Background(), "Keys and values", g) {
		check(err)
		ids = append(ids, token.ID)
	}
	return ids
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
