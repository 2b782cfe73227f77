package cluster

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/seed-1415985d/attn/cluster/embedded"
)

// cutOff is a transport without a network whose connection may be down.
type cutOff struct {
	loop
	since moment // none, if it is up
}

func (c *cutOff) outage() (away time.Duration, again time.Time) {
	if since := c.since.get(); !since.IsZero() {
		away = time.Since(since)
	}
	return away, again
}

// Leases stand still while a worker has no connection, up to a bound, and begin anew then.
func TestLeasesStandStill(t *testing.T) {
	const lease, most = 200 * time.Millisecond, 5 * time.Second
	for name, c := range map[string]struct {
		away time.Duration
		want int // copies after that, a lease later, and two
	}{"short": {most - lease, 1}, "long": {most + 2*lease, 0}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := new(cutOff)
				w, err := NewWorker(l, WorkerConfig{Name: "w", Threads: 1, Memory: 1 << 24, Lease: lease,
					Outage: most})
				must(t, err)
				defer w.Close()
				for _, request := range samples()[:2] {
					reply, _ := l.Call(context.Background(), "w", request)
					_, err := decodeReply("w", reply)
					must(t, err)
				}
				time.Sleep(lease - lease/leaseTicks)
				l.since.set(time.Now())
				time.Sleep(c.away)
				if got := w.Status().Copies; got != c.want {
					t.Fatalf("%d copies are there after %v, want %d", got, c.away, c.want)
				}
				l.since.nanoseconds.Store(0)
				time.Sleep(lease - lease/leaseTicks)
				if got := w.Status().Copies; got != c.want {
					t.Errorf("%d copies are there within a lease after it, want %d", got, c.want)
				}
				time.Sleep(lease)
				if got := w.Status().Copies; got != 0 {
					t.Errorf("%d copies are there a lease after it, want 0", got)
				}
			})
		})
	}
}

// TestBrokerIsDown ends the server for much longer than the lease. Clients and workers live, so
// nothing is lost: even if workers are back long after the client, which finds nobody.
func TestBrokerIsDown(t *testing.T) {
	for name, back := range map[string]time.Duration{"at once": 20 * time.Millisecond,
		"late": 3 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := embedded.Start(new(server.Options))
			must(t, err)
			stop := func() { embedded.Stop(s) }
			defer func() { stop() }()
			port := s.Addr().(*net.TCPAddr).Port
			waits := func(d time.Duration) NATSConfig {
				return NATSConfig{Options: []nats.Option{
					nats.CustomReconnectDelay(func(int) time.Duration { return d })}}
			}
			c := ClientConfig{Copies: 2, Segments: 1, Patience: 100 * time.Millisecond,
				Gone: 500 * time.Millisecond, Lease: 2 * time.Second, Timeout: time.Minute}
			b := &bench{TB: t, url: s.ClientURL(), memory: 1 << 24, workers: map[string]*Worker{},
				links: map[string]*NATS{}, rand: quickRand(), dials: waits(back),
				change: func(w *WorkerConfig) { w.Lease = c.Lease }}
			b.startAll([]string{"w0", "w1"})
			defer b.kill("w0")
			defer b.kill("w1")
			b.dials = waits(20 * time.Millisecond)
			b.client, err = NewClient(b.dial(), c)
			must(t, err)
			defer b.client.Close()
			must(t, b.client.Wait(t.Context(), 2))
			x := b.twin(small, 2)
			must(t, x.appendAtOnce(1500))
			x.attendAll()
			stop()
			stop = func() {}
			time.Sleep(2*c.Lease + c.Lease/2)
			again, err := embedded.Start(&server.Options{Port: port})
			must(t, err)
			stop = func() { embedded.Stop(again) }
			x.attendAll()
			must(t, x.appendAtOnce(100))
			x.attendAll()
		})
	}
}

// What cannot be asked because there is no connection says nothing about a worker.
func TestNoConnectionIsNoSign(t *testing.T) {
	c := &Client{config: quick, now: time.Now, members: map[string]*member{
		"w": {condition: condition{health: well, heard: time.Now()}}}}
	for range 3 {
		_, err := c.answered(context.Background(), "w", nil, fail(errNoLink, "for a while"))
		if got := c.member("w").health; got != well || !errors.Is(err, errNoLink) {
			t.Errorf("the worker is %v after %v, want as before", got, err)
		}
	}
}
