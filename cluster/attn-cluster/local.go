package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/cluster"
	"github.com/seed-1415985d/attn/cluster/internal/embedded"
)

// local is a server in this process, workers in processes of their own, and a client.
type local struct {
	server  *server.Server
	memory  size
	workers map[string]*exec.Cmd
	link    *cluster.NATS
	client  *cluster.Client
	stderr  io.Writer
}

func newLocal(ctx context.Context, workers int, memory size, c cluster.ClientConfig,
	stderr io.Writer) (l *local, err error) {
	l = &local{memory: memory, workers: map[string]*exec.Cmd{}, stderr: stderr}
	if l.server, err = embedded.Start(new(server.Options)); err != nil {
		return nil, err
	}
	for i := range workers {
		if err == nil {
			err = l.start(fmt.Sprint("w", i))
		}
	}
	if err == nil {
		l.link, err = cluster.DialNATS(cluster.NATSConfig{URL: l.server.ClientURL()})
	}
	if err == nil {
		l.client, err = cluster.NewClient(l.link, c)
	}
	if err == nil {
		err = l.client.Wait(ctx, workers)
	}
	if err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

// start runs a worker as a process.
func (l *local) start(name string) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	p := exec.Command(program, "serve", "-url", l.server.ClientURL(), "-name", name, "-memory",
		l.memory.String(), "-threads", "1")
	p.Stderr = l.stderr
	p.Env = append(os.Environ(), "GOMAXPROCS=2")
	if err := p.Start(); err != nil {
		return err
	}
	l.workers[name] = p
	return nil
}

// kill ends a worker at once.
func (l *local) kill(name string) {
	p := l.workers[name]
	delete(l.workers, name)
	_ = p.Process.Kill() // if it has ended already, so much the better
	_ = p.Wait()         // which says that it was killed
}

func (l *local) close() {
	if l.client != nil {
		l.client.Close()
	}
	if l.link != nil {
		_ = l.link.Close() // never fails
	}
	for name := range l.workers {
		l.kill(name)
	}
	embedded.Stop(l.server)
}

// trial is a sequence on the cluster, and the same tokens in a store of this process.
type trial struct {
	local *local
	far   *cluster.Sequence
	store *attn.Store
	near  *attn.Sequence
	rand  *rand.Rand
	int8  bool
	q     attn.Tensor
	want  attn.Tensor
	got   attn.Tensor
}

// The heads of what demo and soak compute.
const heads, kvHeads, headDim = 8, 2, 64

func (l *local) newTrial(format attn.Format, int8 bool, tokens int) (t *trial, err error) {
	t = &trial{local: l, int8: int8, rand: rand.New(rand.NewPCG(1, uint64(format)))}
	t.far, err = l.client.NewSequence(cluster.SequenceConfig{Layers: 1, KVHeads: kvHeads,
		HeadDim: headDim, ValueDim: headDim, Format: format})
	if err == nil {
		t.store, err = attn.NewStore(attn.StoreConfig{KVHeads: kvHeads, HeadDim: headDim,
			ValueDim: headDim,
			Pages:    (tokens + attn.Block - 1) / attn.Block, Format: format})
	}
	if err == nil {
		t.near = t.store.NewSequence()
		t.q, t.want, t.got = token(heads), token(heads), token(heads)
	}
	return t, err
}

func token(heads int) attn.Tensor {
	return attn.BLHD(make([]float32, heads*headDim), 1, 1, heads, headDim)
}

func (t *trial) close() {
	t.far.Release()
	_ = t.store.Close() // it is open
}

func (t *trial) fill(x []float32) {
	for i := range x {
		x[i] = float32(t.rand.NormFloat64())
	}
}

// append adds random tokens to both.
func (t *trial) append(ctx context.Context, n int) error {
	k := attn.BLHD(make([]float32, n*kvHeads*headDim), 1, n, kvHeads, headDim)
	v := attn.BLHD(make([]float32, n*kvHeads*headDim), 1, n, kvHeads, headDim)
	t.fill(k.Data)
	t.fill(v.Data)
	if err := t.near.Append(k, v); err != nil {
		return err
	}
	return t.far.Append(ctx, 0, k, v)
}

// attend asks a random query of the cluster.
func (t *trial) attend(ctx context.Context) error {
	t.fill(t.q.Data)
	clear(t.got.Data)
	return t.far.Attend(ctx, 0, t.got, t.q, &attn.Options{Causal: attn.BottomRight, Int8: t.int8})
}

// compare is an error if the cluster's answer has other bits than that of one machine.
func (t *trial) compare() error {
	err := attn.AttendSequences(t.want, t.q, []*attn.Sequence{t.near},
		&attn.Options{Causal: attn.BottomRight, Int8: t.int8})
	for i := range t.want.Data {
		if want, got := t.want.Data[i], t.got.Data[i]; err == nil &&
			math.Float32bits(want) != math.Float32bits(got) {
			err = fmt.Errorf("after %d tokens, element %d is %v on the cluster and %v on one machine",
				t.near.Len(), i, got, want)
		}
	}
	return err
}
