package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/seed-1415985d/attn/cluster"
	"github.com/seed-1415985d/attn/cluster/embedded"
)

// swarm is a NATS server and workers in this process.
type swarm struct {
	testing.TB
	url     string
	workers []*cluster.Worker
	links   []*cluster.NATS
}

// newSwarm starts workers with room for some bytes each.
func newSwarm(t testing.TB, workers int, memory int64) *swarm {
	t.Helper()
	return newSwarmFor(t, "", workers, memory)
}

// newSwarmFor is one for users with a token, or for all without.
func newSwarmFor(t testing.TB, token string, workers int, memory int64) *swarm {
	t.Helper()
	s, err := embedded.Start(&server.Options{Authorization: token})
	must(t, err)
	t.Cleanup(func() { embedded.Stop(s) })
	w := &swarm{TB: t, url: s.ClientURL()}
	if token != "" {
		w.url = strings.Replace(w.url, "//", "//"+token+"@", 1)
	}
	for i := range workers {
		link, err := cluster.DialNATS(cluster.NATSConfig{URL: w.url})
		must(t, err)
		worker, err := cluster.NewWorker(link, cluster.WorkerConfig{Name: fmt.Sprint("w", i),
			Memory: memory, Threads: 1, Announce: 100 * time.Millisecond})
		must(t, err)
		w.workers, w.links = append(w.workers, worker), append(w.links, link)
		t.Cleanup(func() { w.kill(i) })
	}
	return w
}

// kill ends a worker as a crash does: the connection goes first.
func (w *swarm) kill(i int) {
	_ = w.links[i].Close()
	w.workers[i].Close()
}

// dial is what -cluster does.
func (w *swarm) dial(context int) *link {
	w.Helper()
	l, err := (&access{url: w.url}).dial(context, time.Minute)
	must(w, err)
	w.Cleanup(l.close)
	return l
}

// eventually waits until something is so.
func eventually(t testing.TB, what string, so func() bool) {
	t.Helper()
	for range 6000 {
		if so() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("after a minute it is not so that %s", what)
}

// copiesOf is how many parts of sequences a worker has.
func (w *swarm) copiesOf(i int) int { return w.workers[i].Status().Copies }
