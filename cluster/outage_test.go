//go:build unix

package cluster

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/seed-1415985d/attn/cluster/embedded"
)

// brokerVariable says, in the environment, that this program is a broker, and which.
const brokerVariable = "ATTN_TEST_BROKER"

// TestMain runs the tests, or is a NATS server for them until its standard input ends.
func TestMain(m *testing.M) {
	if os.Getenv(brokerVariable) == "" {
		os.Exit(m.Run())
	}
	if err := beBroker(os.Getenv(brokerVariable)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// brokerPlan is where a broker listens, and which others it knows.
type brokerPlan struct {
	Port, RoutePort int
	Routes          []int
}

func beBroker(plan string) error {
	var p brokerPlan
	if err := json.Unmarshal([]byte(plan), &p); err != nil {
		return err
	}
	o := &server.Options{Port: p.Port}
	if p.RoutePort > 0 {
		o.Cluster = server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: p.RoutePort}
		for _, port := range p.Routes {
			o.Routes = append(o.Routes, &url.URL{Scheme: "nats", Host: fmt.Sprint("127.0.0.1:", port)})
		}
	}
	s, err := embedded.Start(o)
	if err != nil {
		return err
	}
	fmt.Println(s.ClientURL())
	_, err = io.Copy(io.Discard, os.Stdin)
	embedded.Stop(s)
	return err
}

// broker is a NATS server that is a process, so that it can hang.
type broker struct {
	t       testing.TB
	process *os.Process
	url     string
}

func startBroker(t testing.TB, p brokerPlan) *broker {
	t.Helper()
	plan, err := json.Marshal(p)
	must(t, err)
	program := exec.Command(os.Args[0])
	program.Env = append(program.Environ(), brokerVariable+"="+string(plan))
	stdin, err := program.StdinPipe()
	must(t, err)
	stdout, err := program.StdoutPipe()
	must(t, err)
	must(t, program.Start())
	b := &broker{t: t, process: program.Process}
	t.Cleanup(func() {
		b.kill() // one that hangs, too
		_ = stdin.Close()
		_ = program.Wait() // with the error that it was killed
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	must(t, err)
	b.url = strings.TrimSpace(line)
	return b
}

// hang stops the process.
func (b *broker) hang() { must(b.t, b.process.Signal(syscall.SIGSTOP)) }
func (b *broker) kill() { _ = b.process.Kill() } // it may have ended

// freePorts are some on which nobody listens.
func freePorts(t testing.TB, n int) (ports []int) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		defer func() { _ = l.Close() }()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}

// overBroker is workers and a client that reach each other by some servers.
func overBroker(t testing.TB, dials NATSConfig, workers int, c ClientConfig) *bench {
	t.Helper()
	dials.Options = append(dials.Options, nats.DontRandomize(),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	b := &bench{TB: t, url: dials.URL, dials: dials, memory: 1 << 30, workers: map[string]*Worker{},
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
	var err error
	b.client, err = NewClient(b.dial(), c)
	must(t, err)
	t.Cleanup(b.client.Close)
	must(t, b.client.Wait(context.Background(), workers))
	return b
}

// TestHungBroker stops the server that all are connected to, as the first one of a list. All go on
// by the other one before a lease ends, and nothing is lost.
func TestHungBroker(t *testing.T) {
	t.Parallel()
	ports := freePorts(t, 4)
	first := startBroker(t, brokerPlan{ports[0], ports[1], ports[3:]})
	second := startBroker(t, brokerPlan{ports[2], ports[3], ports[1:2]})
	b := overBroker(t, NATSConfig{URL: first.url + "," + second.url}, 2, ClientConfig{Segments: 1})
	x := b.twin(SequenceConfig{Layers: 1, KVHeads: 1, HeadDim: 8, ValueDim: 8}, 1)
	x.append(1500)
	x.attend(0, 1, bottomRight)
	first.hang()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	q := b.tensor(1, 1, 8)
	if err := x.far.Attend(ctx, 0, b.tensor(1, 1, 8), q, &bottomRight); err != nil {
		t.Fatalf("with another server in the list: %v", err)
	}
	x.append(10)
	x.attend(0, 1, bottomRight)
}

// TestHungBrokerAndDeadlines stops the only server while much is appended. Nothing waits longer
// than its context, and the client closes in a second: neither while the connection seems to be
// there, nor while another one is tried again and again.
func TestHungBrokerAndDeadlines(t *testing.T) {
	t.Parallel()
	for name, ping := range map[string]time.Duration{"silent": 0, "given up": 50 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startBroker(t, brokerPlan{})
			b := overBroker(t, NATSConfig{URL: s.url, Ping: ping}, 2,
				ClientConfig{Copies: 1, Segments: 1})
			testDeadlines(b, s)
		})
	}
}

func testDeadlines(b *bench, s *broker) {
	x := b.twin(SequenceConfig{Layers: 1, KVHeads: 1, HeadDim: 8, ValueDim: 8}, 1)
	x.append(1500)
	x.attend(0, 1, bottomRight)
	const sequences, tokens = 12, 8192 // of 4 KiB
	k := b.tensor(8, tokens, 64)
	inTime := func(what string, limit time.Duration, f func()) {
		ran, begun := stopwatch(), time.Now()
		f()
		took, all := ran(), time.Since(begun)
		if took > limit+limit/2+500*time.Millisecond {
			b.Errorf("%s took %v of this process, and %v in all, want %v", what, took, all, limit)
		}
	}
	var wg sync.WaitGroup
	for range sequences {
		far, err := b.client.NewSequence(SequenceConfig{Layers: 1, KVHeads: 8, HeadDim: 64,
			ValueDim: 64})
		must(b, err)
		wg.Go(func() {
			const limit = 5 * time.Second
			ctx, cancel := context.WithTimeout(context.Background(), limit)
			defer cancel()
			inTime("an append", limit, func() {
				if err := far.Append(ctx, 0, k, k); !errors.Is(err, ErrUnavailable) {
					b.Errorf("an append ends with %v, want ErrUnavailable", err)
				}
			})
		})
	}
	time.Sleep(50 * time.Millisecond)
	s.hang()
	for range 40 {
		const limit = 100 * time.Millisecond
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		inTime("an attend", limit, func() {
			err := x.far.Attend(ctx, 0, b.tensor(1, 1, 8), b.tensor(1, 1, 8), nil)
			if !errors.Is(err, ErrUnavailable) {
				b.Errorf("an attend ends with %v, want ErrUnavailable", err)
			}
		})
		cancel()
	}
	wg.Wait()
	inTime("Client.Close", time.Second, b.client.Close)
	inTime("NATS.Close", time.Second, func() { must(b, b.client.transport.(*NATS).Close()) })
}
