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

Keeps tokens for clients of package cluster, and attends over them, until a signal comes. Then it
leaves: clients make what it keeps again on other workers, and it ends when they have done so, or
after -drain. A second signal ends it at once.

Without -url a NATS server is part of the first worker of a machine, for that machine only unless
-listen says otherwise. It ends with the worker. Who reaches it reads and changes all tokens, so one
for other machines wants -nkey, a key that all have to show, -nats with users, or -insecure.

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
	fs.StringVar(&w.Name, "name", "", "of this worker, which no other has (default "+hostName("")+
		", with -2, -3 and so on where workers have that)")
	fs.Var(&memory, "memory", "`bytes` of keys and values, like 8GiB; there is no default")
	fs.IntVar(&w.Threads, "threads", 0, "that compute, at most 65536 (default GOMAXPROCS)")
	fs.IntVar(&w.Clients, "clients", 0, "that may have copies here (default 1024)")
	fs.IntVar(&w.Sequences, "sequences", 0, "that may have parts here (default 4096)")
	fs.IntVar(&w.Copies, "copies", 0, "of parts that may be here (default 65536)")
	fs.IntVar(&w.Calls, "calls", 0, "that run at once (default 64)")
	fs.Var(&reply, "reply", "`bytes` of the largest reply (default 64 MiB)")
	fs.Var(&flight, "in-flight", "`bytes` of requests, of what is made of them, and of replies at the "+
		"same time (default 512 MiB)")
	fs.Var(&rate, "copy-rate", "`bytes` a second that copies take from other workers, and as many "+
		"that they are given (default 256 MiB)")
	fs.DurationVar(&w.Lease, "lease", 0, "longest `time` for which nothing may be heard of a client "+
		"(default 1m)")
	fs.DurationVar(&w.Outage, "outage", 0, "longest `time` for which that stands still while there "+
		"is no connection to a NATS server (default 10m)")
	fs.DurationVar(&w.Announce, "announce", 0, "`time` between announcements (default 1s)")
	fs.StringVar(&o.http, "http", "", "`address` of /metrics, /healthz and /readyz, like :9090; none "+
		"without")
	fs.DurationVar(&o.drain, "drain", 25*time.Second, "longest `time` from a signal on to hand on "+
		"what is kept; 0 to end at once")
	fs.BoolVar(&o.child, "child", false, "end when standard input does, as children should")
	if err := flags.ParseAll(fs, args, stdout); err != nil {
		return err
	}
	if memory == 0 {
		return flags.Errorf("-memory is not set, want how many bytes of keys and values there may be")
	}
	if most := machineMemory(); int64(memory) > most {
		return flags.Errorf("-memory is %s, want at most what there is for this process, %s, less what "+
			"it takes beside tokens", size(int64(memory)), size(most))
	}
	if memory < leastMemory {
		return flags.Errorf("-memory is %d bytes, want at least a page, %s, like 8GiB", memory,
			size(int64(leastMemory)))
	}
	if o.drain < 0 {
		return flags.Errorf("-drain is %v, want 0 or more", o.drain)
	}
	if o.url != "" && o.own != (ownServer{}) {
		return flags.Errorf("-listen, -nats and -insecure are of a NATS server of this process, want " +
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

// leastMemory is a page of one head of 64 in float32, keys and values. Who wants less has left out
// the unit.
const leastMemory = byteCount(attn.Block * 2 * 64 * 4)

// serve is a worker until ctx ends, and then leaves for as long as it is wanted.
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

// reach connects. While no server of -url answers it waits for one, and says so; what a server
// refuses is an error at once. It returns nothing when ctx ends before.
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

// mayComeYet reports whether an error is that no server answers, which may start yet: of the
// network, and not of who refuses a certificate, here or there.
func mayComeYet(err error) bool {
	var network *net.OpError
	var name *net.DNSError
	asked := errors.As(err, &network) && !strings.HasSuffix(network.Op, " error")
	return !errors.Is(err, nats.ErrTLS) && (errors.Is(err, nats.ErrNoServers) ||
		errors.Is(err, nats.ErrTimeout) || asked || errors.As(err, &name))
}

// shownName is what the worker is called before it has a name.
func (o *serveOptions) shownName() string { return cmp.Or(o.worker.Name, hostName("")) }

// says lets the worker say what becomes of its connection. Closed gets why there will be none any
// more.
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

// start starts the worker. Without a name it has the first of the machine's that nobody has.
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

// leave lets clients make elsewhere what a worker keeps. It is an error if they have not.
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

// hostName is the machine's name as subjects can have it, with an ending.
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
