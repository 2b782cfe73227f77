package cluster

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/cluster/embedded"
)

// A worker's process keeps within what docs/cluster.md says, whatever it is sent: of messages that
// are well-formed and make much of little, one and eight at once.
func TestMemoryOfAProcess(t *testing.T) {
	if os.Getenv(workerVariable) != "" {
		beWorker(t)
		return
	}
	for _, x := range []workerLimits{
		{64 << 20, 64 << 20, 512 << 20}, // as they are unless told otherwise
		{16 << 20, 16 << 20, 64 << 20},
	} {
		t.Run(fmt.Sprint(x.Message>>20, " MiB"), func(t *testing.T) {
			s, err := embedded.Start(&server.Options{})
			must(t, err)
			defer embedded.Stop(s)
			process := x.start(t, s.ClientURL())
			link, err := DialNATS(NATSConfig{URL: s.ClientURL(), MaxMessage: x.Message})
			must(t, err)
			defer func() { _ = link.Close() }()
			id := clientID{1}
			ask := func(request []byte) error {
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				data, err := link.Call(ctx, "w", request)
				if err == nil {
					_, err = outcomes(request, data)
				}
				return err
			}
			must(t, ask((&createRequest{copy: 1, tokens: 1024, lease: 60000,
				shape: shape{1, 1, 1, 1, attn.F32, attn.F32, false}}).encode(id)))
			must(t, ask((&appendRequest{copy: 1, pieces: []tokenPiece{{tokens: 64, k: make([]byte, 256),
				v: make([]byte, 256)}}}).encode(id)))
			limit := memoryOfWorker + 4*x.Message + 2*x.InFlight + 100<<20
			for _, m := range hostileMessages(x.Message-x.Message/32, id) {
				var wg sync.WaitGroup
				for range 8 {
					wg.Go(func() {
						if err := ask(m.request); err == nil && m.refused {
							t.Errorf("%s: there is no error", m.name)
						}
					})
				}
				wg.Wait()
				peak := peakMemory(t, process.Process.Pid)
				t.Logf("after %s of %d MiB: %d MiB of %d", m.name, len(m.request)>>20, peak>>20, limit>>20)
				if peak > limit {
					t.Fatalf("%s: the process has had %d MiB, want at most %d", m.name, peak>>20, limit>>20)
				}
			}
			must(t, ask(encodeRequest(opStatus, id, nothing{}))) // it is still there
		})
	}
}

// hostileMessage is a message that makes much of little.
type hostileMessage struct {
	name    string
	request []byte
	refused bool
}

// hostileMessages have about so many bytes each.
func hostileMessages(size int, id clientID) []hostileMessage {
	const leastOfBoth = leastPart + leastGroup
	attend := func(n int, copy uint64) attendRequest {
		return attendRequest{heads: 1, rows: 1, q: []float32{1},
			groups: apart(slices.Repeat([]attendPart{{copy: copy, keys: 1}}, n)...)}
	}
	all, some := attend(size/leastOfBoth, 7), attend(min(size/leastOfBoth, mostParts), 7)
	known, few := attend(min(size/leastOfBoth, mostParts), 1), attend(1<<15, 1)
	joined := attend(1, 7)
	joined.groups[0].parts = slices.Repeat(joined.groups[0].parts, min(size/leastPart, mostParts))
	mask := attend(1, 1)
	mask.pairs.mask, mask.rows, mask.groups[0].parts[0].keys = 1, size/8, 64
	mask.rows = size / (8 + 4)
	mask.q = make([]float32, mask.rows)
	mask.groups[0].parts[0].mask = make([]bool, 64*mask.rows)
	rows := attend(1, 1)
	rows.rows, rows.q = size/4, make([]float32, size/4)
	var pieces, attends stepRequest
	for range size/leastPiece/mostPieces + 1 {
		pieces.appends = append(pieces.appends, appendRequest{copy: 7,
			pieces: make([]tokenPiece, min(mostPieces, size/leastPiece))})
	}
	for range mostSteps {
		attends.attends = append(attends.attends, attend(size/leastOfBoth/mostSteps, 7))
	}
	return []hostileMessage{
		{"parts", all.encode(id), true}, {"as many parts as may be", some.encode(id), false},
		{"parts of a copy", known.encode(id), false}, {"some parts of a copy", few.encode(id), false},
		{"parts that join", joined.encode(id), false},
		{"a mask", mask.encode(id), false}, {"rows", rows.encode(id), false},
		{"empty pieces", pieces.encode(id), true}, {"parts of steps", attends.encode(id), true},
		{"names", (&renewRequest{1000, 3, make([]uint64, size/8)}).encode(id), true},
		{"lengths", (&truncateRequest{7, 1, 0, make([]uint32, size/4)}).encode(id), true},
	}
}

// workerLimits are the limits of a worker in a process of its own.
type workerLimits struct{ Message, Reply, InFlight int }

// workerVariable has the limits of the worker that a process is to be, and where its server is.
const workerVariable = "ATTN_TEST_WORKER"

const memoryOfWorker = 64 << 20

// start starts a process that is a worker, which ends when its standard input does.
func (x *workerLimits) start(t *testing.T, url string) *exec.Cmd {
	t.Helper()
	program, err := os.Executable()
	must(t, err)
	c := exec.Command(program, "-test.run", "^TestMemoryOfAProcess$")
	c.Env = append(os.Environ(), fmt.Sprintf("%s=%d %d %d %s", workerVariable, x.Message, x.Reply,
		x.InFlight, url))
	in, err := c.StdinPipe()
	must(t, err)
	out, err := c.StdoutPipe()
	must(t, err)
	must(t, c.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_ = c.Wait() // whatever it says
	})
	if lines := bufio.NewScanner(out); !lines.Scan() || lines.Text() != "serves" {
		t.Fatalf("the worker says %q, want serves", lines.Text())
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	return c
}

// beWorker is a worker until standard input ends.
func beWorker(t *testing.T) {
	var x workerLimits
	var url string
	_, err := fmt.Sscan(os.Getenv(workerVariable), &x.Message, &x.Reply, &x.InFlight, &url)
	must(t, err)
	link, err := DialNATS(NATSConfig{URL: url, MaxMessage: x.Message})
	must(t, err)
	w, err := NewWorker(link, WorkerConfig{Name: "w", Memory: memoryOfWorker, Reply: x.Reply,
		InFlight: int64(x.InFlight), Lease: time.Hour})
	must(t, err)
	must(t, link.conn.Flush()) // the server knows of it
	fmt.Println("serves")
	_, _ = io.Copy(io.Discard, os.Stdin)
	w.Close()
	must(t, link.Close())
}

// peakMemory is the most that a process has had.
func peakMemory(t *testing.T, pid int) (bytes int) {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	must(t, err)
	_, rest, ok := strings.Cut(string(data), "VmHWM:")
	if _, err := fmt.Sscan(rest, &bytes); err != nil || !ok {
		t.Fatalf("%s has no VmHWM: %v", data, err)
	}
	return bytes << 10
}
