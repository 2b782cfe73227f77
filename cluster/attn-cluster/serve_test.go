package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/cluster"
	"github.com/seed-1415985d/attn/cluster/embedded"
)

// serve runs a worker until stop, which returns what it printed.
func serve(t *testing.T, args ...string) (out *output, stop func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out, errs, status := new(output), new(output), make(chan int, 1)
	go func() { status <- realMain(ctx, append([]string{"serve"}, args...), out, errs) }()
	stop = func() int {
		cancel()
		if s := errs.String(); s != "" {
			t.Error(s)
		}
		return <-status
	}
	out.await(t, " kernels\n")
	return out, stop
}

// get reads a page of a worker.
func get(t *testing.T, out *output, page string) (status int, text string) {
	t.Helper()
	_, address, _ := strings.Cut(out.String(), "health at ")
	address, _, _ = strings.Cut(address, "\n")
	r, err := http.Get(address + page)
	must(t, err)
	defer func() { _ = r.Body.Close() }()
	body, err := io.ReadAll(r.Body)
	must(t, err)
	return r.StatusCode, string(body)
}

// newSequence is one of a new client, when there is a worker.
func newSequence(t *testing.T, link cluster.Transport) (*cluster.Client, *cluster.Sequence) {
	t.Helper()
	client, err := cluster.NewClient(link, cluster.ClientConfig{})
	must(t, err)
	must(t, client.Wait(t.Context(), 1))
	s, err := client.NewSequence(cluster.SequenceConfig{Layers: 1, KVHeads: 1, HeadDim: 8,
		ValueDim: 8})
	must(t, err)
	return client, s
}

// TestServe lets a client use a worker, looks at its metrics, and ends it.
func TestServe(t *testing.T) {
	url := startServer(t, server.Options{})
	out, stop := serve(t, "-url", url, "-name", "one", "-memory", "64MiB", "-http", "127.0.0.1:0",
		"-announce", "50ms", "-prefix", "tenant.a", "-drain", "0")
	link, err := cluster.DialNATS(cluster.NATSConfig{URL: url, Prefix: "tenant.a"})
	must(t, err)
	defer func() { _ = link.Close() }()
	client, s := newSequence(t, link)
	defer client.Close()
	x := attn.BHLD(make([]float32, 8*100), 1, 1, 100, 8)
	must(t, s.Append(t.Context(), 0, x, x))
	status, metrics := get(t, out, "/metrics")
	for _, want := range []string{`attn_cluster_worker_info{kernels="`, `worker="one"} 1`,
		"attn_cluster_memory_bytes 6.7108864e+07\n", "attn_cluster_tokens 100\n",
		"attn_cluster_copies 1\n", "attn_cluster_sequences 1\n", "attn_cluster_clients 1\n",
		"attn_cluster_malformed_total 0\n", "attn_cluster_leaving 0\n", "attn_cluster_spare_bytes ",
		"attn_cluster_call_seconds_count", "go_goroutines",
		"attn_cluster_nats_in_bytes_total", "attn_cluster_nats_reconnects_total 0\n",
		"attn_cluster_nats_outage_seconds 0\n"} {
		if status != 200 || !strings.Contains(metrics, want) {
			t.Errorf("/metrics has status %d and no %q:\n%s", status, want, metrics)
		}
	}
	for _, page := range []string{"/healthz", "/readyz"} {
		if status, text := get(t, out, page); status != 200 || !strings.Contains(text, `"status":"up"`) {
			t.Errorf("%s has status %d and %q", page, status, text)
		}
	}
	if status, _ := get(t, out, "/other"); status != 404 {
		t.Errorf("/other has status %d, want 404", status)
	}
	list := listing(t, " one ", "-url", url, "-prefix", "tenant.a")
	if !strings.Contains(list, "64 MiB") || !strings.Contains(list, " serving\n") {
		t.Errorf("status lists\n%s", list)
	}
	if status := stop(); status != 0 || !strings.Contains(out.String(), "worker one has stopped\n") {
		t.Errorf("the worker ended with %d and\n%s", status, out)
	}
}

// keeper is a client with a sequence of one part, with one copy.
type keeper struct {
	t      *testing.T
	client *cluster.Client
	*cluster.Sequence
}

func newKeeper(t *testing.T, url string, workers int) *keeper {
	t.Helper()
	link, err := cluster.DialNATS(cluster.NATSConfig{URL: url})
	must(t, err)
	t.Cleanup(func() { _ = link.Close() })
	client, err := cluster.NewClient(link, cluster.ClientConfig{Copies: 1})
	must(t, err)
	t.Cleanup(client.Close)
	must(t, client.Wait(t.Context(), workers))
	s, err := client.NewSequence(cluster.SequenceConfig{Layers: 1, KVHeads: 1, HeadDim: 8,
		ValueDim: 8})
	must(t, err)
	k := &keeper{t, client, s}
	k.append()
	return k
}

func (k *keeper) append() {
	k.t.Helper()
	x := attn.BHLD(make([]float32, 8), 1, 1, 1, 8)
	must(k.t, k.Append(k.t.Context(), 0, x, x))
	must(k.t, k.Attend(k.t.Context(), 0, x, x, nil))
}

// TestLeave ends the worker that has the only copy: the other one takes it over.
func TestLeave(t *testing.T) {
	url := startServer(t, server.Options{})
	workers := map[string]*output{}
	stops := map[string]func() int{}
	for _, name := range []string{"one", "two"} {
		workers[name], stops[name] = serve(t, "-url", url, "-name", name, "-memory", "1MiB",
			"-announce", "50ms")
	}
	k := newKeeper(t, url, 2)
	var has string
	must(t, eventually(t.Context(), time.Minute, func() error {
		for _, w := range k.client.Workers() {
			if w.Copies == 1 {
				has = w.Worker
				return nil
			}
		}
		return fmt.Errorf("no worker says that it has the copy")
	}))
	if status := stops[has](); status != 0 || !strings.Contains(workers[has].String(), "worker "+has+
		" leaves within 25s: it hands on 1 copies; a second signal ends it at once\nworker "+has+
		" has stopped\n") {
		t.Errorf("the worker ended with %d and\n%s", status, workers[has])
	}
	k.append()
	delete(stops, has)
	k.Release()
	for name, stop := range stops {
		if status := stop(); status != 0 || strings.Contains(workers[name].String(), "leaves") {
			t.Errorf("the last worker ended with %d and\n%s", status, workers[name])
		}
	}
}

// leaveAlone lets the only worker leave, and returns what it prints, and its status when it has
// ended.
func leaveAlone(t *testing.T, url, drain string) (k *keeper, out, errs *output, status chan int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out, errs, status = new(output), new(output), make(chan int, 1)
	go func() {
		status <- realMain(ctx, strings.Fields("serve -name last -memory 1MiB -announce 50ms "+
			"-http 127.0.0.1:0 -drain "+drain+" -url "+url), out, errs)
	}()
	out.await(t, " kernels\n")
	k = newKeeper(t, url, 1)
	cancel()
	out.await(t, "worker last leaves within "+drain+":")
	return k, out, errs, status
}

// notReady waits until a worker says that it accepts no calls.
func notReady(t *testing.T, out *output) {
	t.Helper()
	must(t, eventually(t.Context(), time.Minute, func() error {
		if status, text := get(t, out, "/readyz"); status != 503 {
			return fmt.Errorf("/readyz has status %d and %q, want 503", status, text)
		}
		return nil
	}))
}

// TestLeaveInVain ends the last worker: no other worker takes over its tokens.
func TestLeaveInVain(t *testing.T) {
	url := startServer(t, server.Options{})
	_, _, errs, status := leaveAlone(t, url, "100ms")
	if got := <-status; got != 1 || !strings.Contains(errs.String(),
		"worker last has not handed on everything: ") {
		t.Errorf("the worker ended with %d and %q, want 1 and an error", got, errs)
	}
}

// TestLeaving is what a worker says that is leaving. It ends when what it has is given up.
func TestLeaving(t *testing.T) {
	url := startServer(t, server.Options{})
	k, out, errs, status := leaveAlone(t, url, "1h0m0s")
	notReady(t, out)
	if _, metrics := get(t, out, "/metrics"); !strings.Contains(metrics, "attn_cluster_leaving 1\n") {
		t.Error("/metrics does not say that the worker is leaving")
	}
	listing(t, " leaving\n", "-url", url)
	k.append()
	k.Release()
	if got := <-status; got != 0 || errs.String() != "" {
		t.Errorf("the worker ended with %d and %q, want 0 and no error", got, errs)
	}
}

// TestNames starts workers of one machine without names: they have different ones. A name that was
// asked for is refused if another worker has it.
func TestNames(t *testing.T) {
	url := startServer(t, server.Options{})
	args := []string{"-url", url, "-memory", "1MiB", "-announce", "50ms"}
	var stops []func() int
	for _, ending := range []string{"", "-2", "-3"} {
		out, stop := serve(t, args...)
		stops = append(stops, stop)
		if want := "worker " + hostName(ending) + " serves "; !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	refused(t, "the name is taken: another worker "+hostName("-2")+" has been there since 2",
		append([]string{"serve", "-name", hostName("-2")}, args...)...)
	if status := stops[1](); status != 0 {
		t.Errorf("the worker ended with %d", status)
	}
	_, stops[1] = serve(t, append([]string{"-name", hostName("-2")}, args...)...)
	for _, ending := range []string{"", "-2", "-3"} {
		lists(t, hostName(ending), true, "-url", url)
	}
	for _, stop := range stops {
		if status := stop(); status != 0 {
			t.Errorf("the worker ended with %d", status)
		}
	}
	if got := hostName(strings.Repeat("x", 64)); len(got) != 64 {
		t.Errorf("%s has %d characters, want 64", got, len(got))
	}
}

// TestDisplaced lets a server come back while a worker waits to connect again: another one has
// taken its name meanwhile, and ends when it hears of the earlier one.
func TestDisplaced(t *testing.T) {
	s, err := embedded.Start(&server.Options{})
	must(t, err)
	args := []string{"-url", s.ClientURL(), "-name", "x", "-memory", "1MiB", "-announce", "50ms"}
	_, stop := serve(t, args...)
	port := s.Addr().(*net.TCPAddr).Port
	embedded.Stop(s)
	startServer(t, server.Options{Port: port})
	const want = "the name is taken: another worker x has been there since 2"
	status, _, stderr := call(t, append([]string{"serve"}, args...)...)
	if status != 1 || !strings.Contains(stderr, want) {
		t.Errorf("the later worker ended with %d and %q, want 1 and %q", status, stderr, want)
	}
	lists(t, "x", true, "-url", s.ClientURL())
	if status := stop(); status != 0 {
		t.Errorf("the earlier worker ended with %d", status)
	}
}

// TestSignals ends a worker by two signals: the first lets it leave, the second does not wait.
func TestSignals(t *testing.T) {
	if !canStall {
		t.Skip("processes take no signals here")
	}
	url := startServer(t, server.Options{})
	c, err := startChild("worker x serves", "serve", "-url", url, "-name", "x", "-memory", "1MiB",
		"-announce", "50ms", "-drain", "1h")
	must(t, err)
	k := newKeeper(t, url, 1)
	must(t, terminate(c.Process))
	must(t, eventually(t.Context(), time.Minute, func() error {
		if w := k.client.Workers(); len(w) == 0 || !w[0].Leaving {
			return fmt.Errorf("the worker is %+v, want that it is leaving", w)
		}
		return nil
	}))
	k.append()
	must(t, terminate(c.Process))
	select {
	case <-c.exited:
	case <-time.After(time.Minute):
		t.Error("the worker is there after a second signal")
		c.kill()
	}
	if c.ProcessState.Exited() {
		t.Errorf("the worker ended with %v, want by the signal", c.ProcessState)
	}
}

// TestNotReady ends the server: the worker lives and waits for it, but accepts no calls.
func TestNotReady(t *testing.T) {
	s, err := embedded.Start(&server.Options{})
	must(t, err)
	out, stop := serve(t, "-url", s.ClientURL(), "-memory", "1MiB", "-http", "127.0.0.1:0")
	embedded.Stop(s)
	notReady(t, out)
	if status, _ := get(t, out, "/healthz"); status != 200 {
		t.Errorf("/healthz has status %d, want 200", status)
	}
	stop()
}

// TestServeWaits starts a worker before its server: it says so, and serves when that is there. A
// signal ends it before.
func TestServeWaits(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	port := l.Addr().(*net.TCPAddr).Port
	must(t, l.Close())
	args := []string{"serve", "-url", "nats://me:secret@" + l.Addr().String(), "-memory", "1MiB",
		"-name", "x", "-announce", "50ms"}
	begin := func() (out, errs *output, stop func(), status chan int) {
		ctx, cancel := context.WithCancel(t.Context())
		out, errs, status = new(output), new(output), make(chan int, 1)
		go func() { status <- realMain(ctx, args, out, errs) }()
		out.await(t, "worker x waits for a NATS server: ")
		return out, errs, cancel, status
	}
	out, errs, stop, status := begin()
	stop()
	if got := <-status; got != 0 || errs.String() != "" {
		t.Errorf("a signal before there is a server ends it with %d and %q, want 0 and no error", got,
			errs)
	}
	if strings.Contains(out.String(), "secret") {
		t.Errorf("a password is shown:\n%s", out)
	}
	out, errs, stop, status = begin()
	startServer(t, server.Options{Port: port, Username: "me", Password: "secret"})
	out.await(t, "worker x serves ")
	stop()
	if got := <-status; got != 0 || errs.String() != "" {
		t.Errorf("the worker ended with %d and %q, want 0 and no error", got, errs)
	}
}

// TestServeSaysThatItsServerGoes ends the server of a worker. The worker says so, what becomes of
// its tokens, and when it is connected again. If the server refuses it then, it ends with an error.
func TestServeSaysThatItsServerGoes(t *testing.T) {
	o := server.Options{Username: "me", Password: "secret"}
	s, err := embedded.Start(&o)
	must(t, err)
	port := s.Addr().(*net.TCPAddr).Port
	url := fmt.Sprintf("nats://me:secret@127.0.0.1:%d", port)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, errs, status := new(output), new(output), make(chan int, 1)
	go func() {
		status <- realMain(ctx, []string{"serve", "-url", url, "-memory", "1MiB", "-name", "x",
			"-outage", "7m"}, out, errs)
	}()
	out.await(t, "worker x serves ")
	embedded.Stop(s)
	out.await(t, "worker x has lost its connection to a NATS server (EOF), and tries again; it keeps "+
		"its tokens for 7m0s and then as long as leases last\n")
	s, err = embedded.Start(&server.Options{Port: port, Username: "me", Password: "secret"})
	must(t, err)
	out.await(t, "worker x has a connection again, to nats://me:xxxxx@127.0.0.1:"+fmt.Sprint(port)+
		", after ")
	embedded.Stop(s)
	s, err = embedded.Start(&server.Options{Port: port, Username: "me", Password: "other"})
	must(t, err)
	defer embedded.Stop(s)
	if got := <-status; got != 1 || !strings.Contains(errs.String(), "the connection was closed: ") ||
		!strings.Contains(errs.String(), "uthorization") {
		t.Errorf("the worker ended with %d and %q, want 1 and that it is not taken any more", got, errs)
	}
	if strings.Contains(out.String()+errs.String(), "secret") {
		t.Errorf("a password is shown:\n%s%s", out, errs)
	}
}

// TestIdle makes sure that connections that ask nothing, or not all of something, end.
func TestIdle(t *testing.T) {
	before := idleLimit
	defer func() { idleLimit = before }()
	idleLimit = 100 * time.Millisecond
	url := startServer(t, server.Options{})
	out, stop := serve(t, "-url", url, "-name", "one", "-memory", "1MiB", "-http", "127.0.0.1:0")
	_, address, _ := strings.Cut(out.String(), "health at http://")
	address, _, _ = strings.Cut(address, "\n")
	for _, asks := range []string{"", "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", "GET /he",
		"POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"} {
		c, err := net.Dial("tcp", address)
		must(t, err)
		_, err = c.Write([]byte(asks))
		must(t, err)
		must(t, c.SetReadDeadline(time.Now().Add(time.Minute)))
		if _, err := io.Copy(io.Discard, c); err != nil {
			t.Errorf("after %q: %v, want the end of the connection", asks, err)
		}
		must(t, c.Close())
	}
	if status := stop(); status != 0 {
		t.Errorf("the worker ended with %d", status)
	}
}

// TestNkey is of a server that wants to know who comes.
func TestNkey(t *testing.T) {
	user, err := nkeys.CreatePair(nkeys.PrefixByteUser)
	must(t, err)
	public, err := user.PublicKey()
	must(t, err)
	seed, err := user.Seed()
	must(t, err)
	file := filepath.Join(t.TempDir(), "seed")
	must(t, os.WriteFile(file, seed, 0o600))
	url := startServer(t, server.Options{Nkeys: []*server.NkeyUser{{Nkey: public}}})
	_, stop := serve(t, "-url", url, "-nkey", file, "-memory", "1MiB")
	if status := stop(); status != 0 {
		t.Errorf("with the key the worker ended with %d", status)
	}
	if status, _, stderr := call(t, "serve", "-url", url, "-memory", "1MiB"); status != 1 ||
		!strings.Contains(strings.ToLower(stderr), "authorization") {
		t.Errorf("without the key status is %d and stderr %q", status, stderr)
	}
}

// TestChild makes sure that a worker does not outlive who started it.
func TestChild(t *testing.T) {
	url := startServer(t, server.Options{})
	c, err := startChild("worker x serves", "serve", "-child", "-url", url, "-name", "x",
		"-memory", "1MiB")
	must(t, err)
	c.end()
	if !c.ProcessState.Success() {
		t.Errorf("the child ended with %v", c.ProcessState)
	}
	if _, err := startChild("worker", "serve", "-memory", "none"); err == nil ||
		!strings.Contains(err.Error(), "want a number of bytes") {
		t.Errorf("the error is %v, want that of the child", err)
	}
}

// A server that is not there may come yet, one that refuses will refuse again.
func TestMayComeYet(t *testing.T) {
	for _, x := range []struct {
		err  error
		want bool
	}{
		{nats.ErrNoServers, true}, {nats.ErrTimeout, true},
		{&net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}, true},
		{&net.OpError{Op: "read", Err: io.EOF}, true}, {&net.DNSError{IsNotFound: true}, true},
		{&net.OpError{Op: "remote error", Err: errors.New("tls: bad certificate")}, false},
		{&net.OpError{Op: "local error", Err: errors.New("tls: no certificate")}, false},
		{fmt.Errorf("%w: %w", nats.ErrTLS, &net.OpError{Op: "write", Err: io.EOF}), false},
		{nats.ErrAuthorization, false}, {nats.ErrPermissionViolation, false},
		{cluster.ErrLimit, false},
	} {
		if got := mayComeYet(fmt.Errorf("connecting: %w", x.err)); got != x.want {
			t.Errorf("%v may come yet: %t, want %t", x.err, got, x.want)
		}
	}
}
