package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/seed-1415985d/attn/cluster"
	"github.com/seed-1415985d/attn/cluster/embedded"
)

// local is a cluster on this machine: a NATS server and a client in this process, and workers in
// other processes.
type local struct {
	config  localConfig
	server  *server.Server
	link    *cluster.NATS
	client  *cluster.Client
	workers map[string]*child
}

// localConfig describes a local cluster.
type localConfig struct {
	workers int
	memory  int64    // of each
	threads int      // of each
	monitor bool     // workers have metrics
	env     []string // of workers, in addition to this process's
	client  cluster.ClientConfig
}

// announce is the interval of announcements of local workers, which are shown.
const announce = 200 * time.Millisecond

func startLocal(ctx context.Context, c localConfig) (_ *local, err error) {
	l := &local{config: c, workers: map[string]*child{}}
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	if l.server, err = embedded.Start(&server.Options{}); err != nil {
		return nil, err
	}
	if l.link, err = l.dial(); err != nil {
		return nil, err
	}
	if l.client, err = cluster.NewClient(l.link, c.client); err != nil {
		return nil, err
	}
	for i := range c.workers {
		if err := l.start(fmt.Sprintf("w%d", i+1)); err != nil {
			return nil, err
		}
	}
	return l, l.client.Wait(ctx, c.workers)
}

func (l *local) dial() (*cluster.NATS, error) {
	return cluster.DialNATS(cluster.NATSConfig{URL: l.server.ClientURL()})
}

// start starts a worker.
func (l *local) start(name string) error {
	args := []string{"serve", "-child", "-url", l.server.ClientURL(), "-name", name,
		"-memory", fmt.Sprint(l.config.memory), "-threads", fmt.Sprint(l.config.threads),
		"-announce", announce.String()}
	if l.config.monitor {
		args = append(args, "-http", "127.0.0.1:0")
	}
	c, err := startChildWith(l.config.env, "worker "+name+" serves", args...)
	if err != nil {
		return err
	}
	l.workers[name] = c
	return nil
}

// leave asks a worker to hand on its copies and then to end. It has ended when its exited is
// closed.
func (l *local) leave(name string) (*child, error) {
	c := l.workers[name]
	delete(l.workers, name)
	return c, terminate(c.Process)
}

// kill ends a worker as a crash does.
func (l *local) kill(name string) {
	l.workers[name].kill()
	delete(l.workers, name)
}

// restart starts a worker that was killed, and waits until the client has heard of it.
func (l *local) restart(ctx context.Context, name string) error {
	before := l.instance(name)
	if err := l.start(name); err != nil {
		return err
	}
	return eventually(ctx, 20*time.Second, func() error {
		if after := l.instance(name); after == 0 || after == before {
			return fmt.Errorf("the client has not heard of %s", name)
		}
		return nil
	})
}

// instance returns the instance of a worker that the client has heard of, 0 for none recently.
func (l *local) instance(name string) uint64 {
	for _, w := range l.client.Workers() {
		if w.Worker == name {
			return w.Instance
		}
	}
	return 0
}

// empty waits until no worker keeps anything.
func (l *local) empty(ctx context.Context) error {
	return eventually(ctx, 20*time.Second, func() error {
		for _, w := range l.client.Workers() {
			if w.Used > 0 || w.Copies > 0 {
				return fmt.Errorf("worker %s keeps %d copies in %s, want none", w.Worker, w.Copies,
					size(w.Used))
			}
		}
		return nil
	})
}

func (l *local) close() {
	if l.client != nil {
		l.client.Close()
	}
	var wg sync.WaitGroup
	for _, w := range l.workers {
		wg.Go(w.end)
	}
	wg.Wait()
	if l.link != nil {
		_ = l.link.Close() // never fails
	}
	if l.server != nil {
		embedded.Stop(l.server)
	}
}

// eventually waits until f returns no error, and returns f's last error if that takes too long.
func eventually(ctx context.Context, patience time.Duration, f func() error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := f()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", err, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// child is another process of this program.
type child struct {
	*exec.Cmd
	stdin  io.Closer
	said   []string // before it was ready
	exited chan struct{}
}

// startChild starts a child and waits until it says that it is ready.
func startChild(ready string, args ...string) (*child, error) {
	return startChildWith(nil, ready, args...)
}

// startChildWith is startChild with additions to the environment.
func startChildWith(env []string, ready string, args ...string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{Cmd: exec.Command(self, args...), exited: make(chan struct{})}
	c.Env = append(c.Environ(), env...)
	var errs strings.Builder
	c.Stderr = &errs
	stdin, err := c.StdinPipe()
	if err != nil {
		return nil, err
	}
	c.stdin = stdin
	stdout, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if c.said = append(c.said, lines.Text()); strings.HasPrefix(lines.Text(), ready) {
			go func() {
				_, _ = io.Copy(io.Discard, stdout)
				_ = c.Wait() // it was killed, or has reported why it ended
				close(c.exited)
			}()
			return c, nil
		}
	}
	err = c.Wait()
	return nil, fmt.Errorf("%s ended before it was ready: %w: %s", args[0], err, errs.String())
}

// kill ends a child at once.
func (c *child) kill() {
	_ = c.Process.Kill() // it may have ended
	<-c.exited
	_ = c.stdin.Close()
}

// end asks a child to end, and kills it if it does not.
func (c *child) end() {
	_ = c.stdin.Close()
	select {
	case <-c.exited:
	case <-time.After(5 * time.Second):
		c.kill()
	}
}
