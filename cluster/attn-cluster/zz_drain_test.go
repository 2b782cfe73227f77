package main

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/cluster"
)

func TestZZDrain(t *testing.T) {
	if os.Getenv("ZZ") == "" {
		t.Skip()
	}
	ctx := context.Background()
	for _, f := range []attn.Format{attn.F32, attn.F16} {
		for _, moves := range []int{1, 4, 1, 4} {
			s := shape{layers: 1, heads: 8, kvHeads: 2, dim: 64, format: f}
			l, err := startLocal(ctx, localConfig{workers: 1, threads: 1, memory: 2*s.bytes(262144) + 64<<20,
				client: cluster.ClientConfig{Copies: 1, Moves: moves, Segments: 8}})
			must(t, err)
			x, err := newTwin(l, s, 0, 1)
			must(t, err)
			k, v := x.tensor(16384, 2), x.tensor(16384, 2)
			for range 16 {
				must(t, x.far.Append(ctx, 0, k, v))
			}
			must(t, l.start("w2"))
			must(t, l.client.Wait(ctx, 2))
			begin := time.Now()
			c, err := l.leave("w1")
			must(t, err)
			<-c.exited
			took := time.Since(begin)
			t.Logf("%v moves %d: %v, %.0f MiB/s", f, moves, took, float64(s.bytes(262144))/(1<<20)/took.Seconds())
			x.close()
			l.close()
		}
	}
}
