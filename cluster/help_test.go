package cluster

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/cluster/embedded"
)

// bench is a server, workers and a client in one process.
type bench struct {
	testing.TB
	url     string
	memory  int64 // of workers that start
	change  func(*WorkerConfig)
	dials   NATSConfig // but for the URL
	workers map[string]*Worker
	links   map[string]*NATS
	client  *Client
	rand    *rand.Rand
}

// quick are waits for tests, and patient those where nobody is to be asked twice, or given up, only
// because the machine has much to do.
var (
	quick = ClientConfig{Copies: 2, Segments: 1, Patience: 300 * time.Millisecond, Gone: time.Second,
		Lease: 5 * time.Second, Timeout: time.Minute}
	patient = ClientConfig{Copies: 2, Segments: 1, Patience: 20 * time.Second,
		Gone: 40 * time.Second, Lease: time.Minute, Timeout: time.Minute}
)

func newBench(t testing.TB, workers int, c ClientConfig) *bench {
	t.Helper()
	s, err := embedded.Start(&server.Options{})
	must(t, err)
	t.Cleanup(func() { embedded.Stop(s) })
	b := &bench{TB: t, url: s.ClientURL(), memory: 1 << 30, workers: map[string]*Worker{},
		links: map[string]*NATS{}, rand: quickRand()}
	var names []string
	for i := range workers {
		names = append(names, fmt.Sprint("w", i))
	}
	b.startAll(names)
	t.Cleanup(func() {
		for name := range b.workers {
			b.kill(name)
		}
	})
	b.client, err = NewClient(b.dial(), c)
	must(t, err)
	t.Cleanup(b.client.Close)
	must(t, b.client.Wait(context.Background(), workers))
	return b
}

// benchOf is a bench without workers and client, of a server with a configuration as NATS has it.
func benchOf(t testing.TB, config string) *bench {
	t.Helper()
	file := filepath.Join(t.TempDir(), "nats.conf")
	must(t, os.WriteFile(file, []byte("port: -1\nhost: 127.0.0.1\n"+config), 0o600))
	options, err := server.ProcessConfigFile(file)
	must(t, err)
	s, err := embedded.Start(options)
	must(t, err)
	t.Cleanup(func() { embedded.Stop(s) })
	return &bench{TB: t, url: s.ClientURL(), memory: 1 << 30, workers: map[string]*Worker{},
		links: map[string]*NATS{}, rand: quickRand()}
}

func quickRand() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (b *bench) dial() *NATS {
	b.Helper()
	c := b.dials
	c.URL = b.url
	t, err := DialNATS(c)
	must(b, err)
	b.Cleanup(func() { _ = t.Close() })
	return t
}

func (b *bench) start(name string) *Worker {
	b.Helper()
	b.startAll([]string{name})
	return b.workers[name]
}

// startAll starts workers at the same time: each waits for others that may want its name.
func (b *bench) startAll(names []string) {
	b.Helper()
	workers, errs := make([]*Worker, len(names)), make([]error, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		link := b.dial()
		b.links[name] = link
		wg.Go(func() {
			c := WorkerConfig{Name: name, Memory: b.memory, Threads: 1, Announce: 100 * time.Millisecond}
			if b.change != nil {
				b.change(&c)
			}
			workers[i], errs[i] = NewWorker(link, c)
		})
	}
	wg.Wait()
	must(b, errors.Join(errs...))
	for i, name := range names {
		b.workers[name] = workers[i]
	}
}

// kill ends a worker as a crash does: the connection goes first.
func (b *bench) kill(name string) {
	_ = b.links[name].Close()
	b.workers[name].Close()
	delete(b.workers, name)
	delete(b.links, name)
}

// restart starts a worker again, and waits until the client has heard of it.
func (b *bench) restart(name string) {
	b.Helper()
	instance := b.start(name).instance
	b.eventually("the client has heard of "+name, func() bool {
		return slices.ContainsFunc(b.client.Workers(), func(w Status) bool {
			return w.Instance == instance
		})
	})
	b.eventually("the client knows what "+name+" has no more", func() bool {
		b.client.renewAll(context.Background()) // which says it, unless it is late
		return b.keeps(name)
	})
}

// keeps reports whether a worker has all copies that the client counts on.
func (b *bench) keeps(name string) bool {
	c, w := b.client, b.workers[name]
	c.mu.Lock()
	defer c.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, x := range c.copies {
		if x.worker == name && x.made && !x.lost {
			if o := w.clients[c.id]; o == nil || o.copies[x.id] == nil {
				return false
			}
		}
	}
	return true
}

// eventually waits until something is so.
func (b *bench) eventually(what string, so func() bool) {
	b.Helper()
	for range 6000 {
		if so() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	b.Fatalf("after a minute it is not so that %s", what)
}

// stopwatch returns what says how long it has been, without the moments in which the machine lets
// this process do nothing.
func stopwatch() (stop func() time.Duration) {
	const tick = 5 * time.Millisecond
	ended, took := make(chan struct{}), make(chan time.Duration)
	go func() {
		sum := time.Duration(0)
		for last, over := time.Now(), false; !over; {
			select {
			case <-ended:
				over = true
			case <-time.After(tick):
			}
			now := time.Now()
			sum, last = sum+min(now.Sub(last), 2*tick), now
		}
		took <- sum
	}()
	return func() time.Duration {
		close(ended)
		return <-took
	}
}

// twin is a sequence on the cluster, and the same in one store.
type twin struct {
	*bench
	config SequenceConfig
	heads  int
	far    *Sequence
	near   []*attn.Sequence
}

func (b *bench) twin(c SequenceConfig, heads int) *twin {
	b.Helper()
	far, err := b.client.NewSequence(c)
	must(b, err)
	t := &twin{bench: b, config: c, heads: heads, far: far}
	for range c.Layers {
		store, err := attn.NewStore(attn.StoreConfig{KVHeads: c.KVHeads, HeadDim: c.HeadDim,
			ValueDim: c.ValueDim, Pages: 512, Format: c.Format, ValueFormat: c.ValueFormat,
			ValuesInKeys: c.ValuesInKeys})
		must(b, err)
		b.Cleanup(func() { _ = store.Close() })
		t.near = append(t.near, store.NewSequence())
	}
	return t
}

func (b *bench) tensor(heads, n, d int) attn.Tensor {
	x := make([]float32, heads*n*d)
	for i := range x {
		x[i] = float32(b.rand.NormFloat64())
	}
	return attn.BLHD(x, 1, n, heads, d)
}

// append adds tokens to all layers of both.
func (t *twin) append(n int) {
	t.Helper()
	for layer := range t.config.Layers {
		k, v := t.tensor(t.config.KVHeads, n, t.config.HeadDim), t.tensor(t.config.KVHeads, n,
			t.config.ValueDim)
		if t.config.ValuesInKeys {
			v = attn.Tensor{}
		}
		must(t, t.near[layer].Append(k, v))
		must(t, t.far.Append(context.Background(), layer, k, v))
	}
}

// attend compares rows of a layer.
func (t *twin) attend(layer, rows int, opt attn.Options) {
	t.Helper()
	q := t.tensor(t.heads, rows, t.config.HeadDim)
	out := func() attn.Tensor {
		return attn.BHLD(make([]float32, t.heads*rows*t.config.ValueDim), 1, t.heads, rows,
			t.config.ValueDim)
	}
	want, got := out(), out()
	lse := make([]float32, t.heads*rows)
	near := opt
	near.LSE, near.QueryLens = lse, []int{rows}
	must(t, attn.AttendSequences(want, q, t.near[layer:layer+1], &near))
	opt.LSE = make([]float32, t.heads*rows)
	must(t, t.far.Attend(context.Background(), layer, got, q, &opt))
	sameBits(t, "outputs", got.Data, want.Data)
	sameBits(t, "LSE", opt.LSE, lse)
}

func sameBits(t testing.TB, what string, got, want []float32) {
	t.Helper()
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("%s: element %d is %v, want %v", what, i, got[i], want[i])
		}
	}
}

// What a step asks for, if it is of one kind.
const (
	opAppend = ops + iota
	opAttend
	opTruncate
)

// stepOf is the step that a request asks for, and what it is called: opStep if it is of several
// kinds, and otherwise what else the request asks for.
func stepOf(request []byte) (r stepRequest, op uint8) {
	op, _, d := decodeRequest(request)
	if op != opStep || d.read(&r) != nil {
		return stepRequest{}, op
	}
	switch {
	case len(r.cuts)+len(r.attends) == 0:
		op = opAppend
	case len(r.cuts)+len(r.appends) == 0:
		op = opAttend
	case len(r.appends)+len(r.attends) == 0:
		op = opTruncate
	}
	return r, op
}

func (r *appendRequest) encode(id clientID) []byte {
	return (&stepRequest{appends: []appendRequest{*r}}).encode(id)
}

func (r *attendRequest) encode(id clientID) []byte {
	return (&stepRequest{attends: []attendRequest{*r}}).encode(id)
}

func (r *truncateRequest) encode(id clientID) []byte {
	return (&stepRequest{cuts: []truncateRequest{*r}}).encode(id)
}

// outcomes returns the outcomes of a step's request, or the first error.
func outcomes(request, answer []byte) (x stepReply, err error) {
	d, err := decodeReply("w", answer)
	if r, op := stepOf(request); err == nil && (op == opStep || op >= ops) {
		x = replyTo(&r)
		if err = d.read(&x); err == nil {
			err = x.error()
		}
	}
	return x, err
}

// apart are groups of a part each.
func apart(parts ...attendPart) (groups []attendGroup) {
	for i := range parts {
		groups = append(groups, attendGroup{parts: parts[i : i+1]})
	}
	return groups
}
