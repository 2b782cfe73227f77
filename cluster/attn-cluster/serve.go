package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/cluster"
	"github.com/seed-1415985d/attn/internal/flags"
)

const serveAbout = `attn-cluster serve -memory 8GiB

Keeps tokens for clients of package cluster, and attends over them, until a signal. Then it leaves:
clients copy its tokens to other workers, and it ends when they have done so, or after -drain. A
second signal ends it at once.

Without -url the first worker of a machine also runs a NATS server, for that machine only unless
-listen says otherwise. It ends with the worker. Everybody who reaches it can read and change all
tokens, so a server for other machines requires -nkey, a key that all clients need, -nats with
users, or -insecure.

`

// serveOptions is the command line of serve.
type serveOptions struct {
	connection
	own    ownServer
	worker cluster.WorkerConfig
	http   string
	drain  time.Duration
	child  bool
}

func serveCommand(ctx context.Context, args []string, stdout, _ io.Writer) error {
	var o serveOptions
	fs := flags.New(serveAbout)
	o.register(fs)
	fs.Lookup("url").DefValue, o.url = "", ""
	o.own.register(fs)
	w, memory, reply := &o.worker, byteCount(0), byteCount(0)
	rate, flight := byteCount(0), byteCount(0)
	fs.StringVar(&w.Name, "name", "", "unique `name` of this worker (default "+hostName("")+
		", or that with -2, -3 and so on if another worker has it)")
	fs.Var(&memory, "memory", "`bytes` of memory for keys and values, such as 8GiB; required")
	fs.IntVar(&w.Threads, "threads", 0, "`number` of threads that compute, at most 65536 (default "+
		"GOMAXPROCS)")
	fs.IntVar(&w.Clients, "clients", 0, "most `clients` that may keep copies here (default 1024)")
	fs.IntVar(&w.Sequences, "sequences", 0, "most `sequences` that may have parts here (default 4096)")
	fs.IntVar(&w.Copies, "copies", 0, "most `copies` of parts that may be here (default 65536)")
	fs.IntVar(&w.Calls, "calls", 0, "most `calls` that may run at once (default 64)")
	fs.Var(&reply, "reply", "`bytes` of the largest reply (default 64 MiB)")
	fs.Var(&flight, "in-flight", "most `bytes` of requests, decoded requests and replies in memory "+
		"at the same time (default 512 MiB)")
	fs.Var(&rate, "copy-rate", "`bytes` a second for receiving copies from other workers, and again "+
		"for sending copies to them (default 256 MiB)")
	fs.DurationVar(&w.Lease, "lease", 0, "longest `time` without messages for which a client's "+
		"copies are kept (default 1m)")
	fs.DurationVar(&w.Outage, "outage", 0, "longest `time` for which leases are suspended while "+
		"there is no connection to a NATS server (default 10m)")
	fs.DurationVar(&w.Announce, "announce", 0, "`time` between announcements (default 1s)")
	fs.StringVar(&o.http, "http", "", "`address` to serve /metrics, /healthz and /readyz on, such as "+
		":9090 (default none)")
	fs.DurationVar(&o.drain, "drain", 25*time.Second, "longest `time` after a signal to hand copies "+
		"to other workers; 0 ends at once")
	fs.BoolVar(&o.child, "child", false, "end when standard input ends, for child processes")
	if err := flags.ParseAll(fs, args, stdout); err != nil {
		return err
	}
	if memory == 0 {
		return flags.Errorf("-memory is not set, want the bytes of memory for keys and values")
	}
	if most := machineMemory(); int64(memory) > most {
		return flags.Errorf("-memory is %s, want at most the memory of this process, %s, less what "+
			"it needs besides tokens", size(int64(memory)), size(most))
	}
	if memory < leastMemory {
		return flags.Errorf("-memory is %d bytes, want at least a page, %s, such as 8GiB", memory,
			size(int64(leastMemory)))
	}
	if o.drain < 0 {
		return flags.Errorf("-drain is %v, want 0 or more", o.drain)
	}
	if o.url != "" && o.own != (ownServer{}) {
		return flags.Errorf("-listen, -nats and -insecure are for a NATS server in this process, want " +
			"none with -url")
	}
	w.Memory, w.Reply = int64(memory), reply.int()
	w.InFlight, w.CopyRate = int64(flight), int64(rate)
	wanted, cancel := context.WithCancel(context.Background())
	defer cancel()
	if o.child {
		signal.Ignore(os.Interrupt) // of a terminal, which whoever has started it gets, too
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			cancel()
		}()
	}
	return o.serve(ctx, wanted, stdout)
}

// leastMemory is a page of one head of 64 in float32, keys and values. A smaller number probably
// lacks its unit.
const leastMemory = byteCount(attn.Block * 2 * 64 * 4)

// serve runs a worker until ctx ends, and then leaves until wanted ends.
func (o *serveOptions) serve(ctx, wanted context.Context, stdout io.Writer) error {
	if _, err := o.options(); err != nil {
		return err
	}
	var how []nats.Option
	if o.url == "" {
		var stop func()
		var err error
		if o.url, how, stop, err = o.own.start(stdout, o.nkey); err != nil {
			return err
		}
		defer stop()
	}
	closed := make(chan error, 1)
	link, err := o.reach(ctx, wanted, stdout, append(how, o.says(stdout, closed)...))
	if errors.Is(err, nats.ErrAuthorization) && o.own.config != "" {
		return fmt.Errorf("%w; -nkey or -creds say which user of -nats this worker is", err)
	}
	if link == nil || err != nil {
		return err
	}
	defer func() { _ = link.Close() }() // which never fails
	watched := newObserved(link)
	w, err := o.start(ctx, watched)
	if err != nil {
		return err
	}
	defer w.Close()
	if err := o.refusal(link); err != nil {
		return err
	}
	if o.http != "" {
		m, err := startMonitor(o.http, watched, w)
		if err != nil {
			return err
		}
		defer m.stop()
		fmt.Fprintf(stdout, "metrics and health at http://%s\n", m.address)
	}
	fmt.Fprintf(stdout, "worker %s serves %s of tokens with %s kernels\n", o.worker.Name,
		size(o.worker.Memory), attn.Implementation())
	select {
	case <-ctx.Done():
		err = o.leave(wanted, w, stdout)
	case err = <-w.Displaced():
	case err = <-closed:
	case <-wanted.Done():
	}
	w.Close()
	fmt.Fprintf(stdout, "worker %s has stopped\n", o.worker.Name)
	return err
}

// reach connects. While no server of -url answers, it waits for one, and says so; a refusal by a
// server is an error at once. It returns nothing if ctx ends before.
func (o *serveOptions) reach(ctx, wanted context.Context, stdout io.Writer,
	how []nats.Option) (*cluster.NATS, error) {
	for last := ""; ; {
		link, err := o.dial("attn-cluster worker "+o.shownName(), how...)
		if err == nil || !mayComeYet(err) {
			return link, err
		}
		if text := cluster.Redact(err.Error()); text != last {
			fmt.Fprintf(stdout, "worker %s waits for a NATS server: %s\n", o.shownName(), text)
			last = text
		}
		select {
		case <-ctx.Done():
			return nil, nil
		case <-wanted.Done():
			return nil, nil
		case <-time.After(time.Second):
		}
	}
}

// mayComeYet reports whether err means that no server answers, so that one may still start: an
// error of the network, and not a certificate that either side refused.
func mayComeYet(err error) bool {
	var network *net.OpError
	var name *net.DNSError
	asked := errors.As(err, &network) && !strings.HasSuffix(network.Op, " error")
	return !errors.Is(err, nats.ErrTLS) && (errors.Is(err, nats.ErrNoServers) ||
		errors.Is(err, nats.ErrTimeout) || asked || errors.As(err, &name))
}

// shownName returns the worker's name in messages before it has one.
func (o *serveOptions) shownName() string { return cmp.Or(o.worker.Name, hostName("")) }

// says returns options by which the worker reports changes of its connection. closed receives the
// reason if there will be none any more.
func (o *serveOptions) says(stdout io.Writer, closed chan<- error) []nats.Option {
	var since time.Time // of the goroutine that calls these
	return []nats.Option{
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err == nil { // it is closed here
				return
			}
			since = time.Now()
			fmt.Fprintf(stdout, "worker %s has lost its connection to a NATS server (%s), and tries again; "+
				"it keeps its tokens for %v and then as long as leases last\n", o.worker.Name,
				cluster.Redact(err.Error()), cmp.Or(o.worker.Outage, 10*time.Minute))
		}),
		nats.ReconnectHandler(func(c *nats.Conn) {
			fmt.Fprintf(stdout, "worker %s has a connection again, to %s, after %v\n", o.worker.Name,
				c.ConnectedUrlRedacted(), time.Since(since).Round(time.Millisecond))
		}),
		nats.ClosedHandler(func(c *nats.Conn) {
			if err := c.LastError(); err != nil {
				closed <- fmt.Errorf("the connection was closed: %w", err)
			}
		}),
	}
}

// start starts the worker. Without a name it gets the first free name of the machine.
func (o *serveOptions) start(ctx context.Context, t cluster.Transport) (*cluster.Worker, error) {
	if o.worker.Name != "" {
		return cluster.NewWorker(t, o.worker)
	}
	o.worker.Name = hostName("")
	for i := 2; ; i++ {
		w, err := cluster.NewWorker(t, o.worker)
		if !errors.Is(err, cluster.ErrTaken) || ctx.Err() != nil {
			return w, err
		}
		o.worker.Name = hostName(fmt.Sprint("-", i))
	}
}

// leave waits until clients have copied a worker's tokens elsewhere. It is an error if they have
// not.
func (o *serveOptions) leave(wanted context.Context, w *cluster.Worker, stdout io.Writer) error {
	if o.drain == 0 {
		return nil
	}
	if copies := w.Status().Copies; copies > 0 {
		fmt.Fprintf(stdout, "worker %s leaves within %v: it hands on %d copies; a second signal ends it "+
			"at once\n", o.worker.Name, o.drain, copies)
	}
	ctx, cancel := context.WithTimeout(wanted, o.drain)
	defer cancel()
	if err := w.Drain(ctx); err != nil && wanted.Err() == nil {
		return fmt.Errorf("worker %s has not handed on everything: %w", o.worker.Name, err)
	}
	return nil
}

// hostName returns the machine's name, in letters that subjects allow, with an ending.
func hostName(ending string) string {
	name, _ := os.Hostname() // none is a worker
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' {
			return r
		}
		return '-'
	}, cmp.Or(name, "worker"))
	return name[:min(len(name), 64-len(ending))] + ending
}
