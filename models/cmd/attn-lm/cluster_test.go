package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/cluster"
	"github.com/seed-1415985d/attn/models/internal/weights"
)

// TestClusterSameBits runs all trials on a cluster, in float32 and in integers, and one for other
// types of caches.
func TestClusterSameBits(t *testing.T) {
	w := newSwarm(t, 3, 64<<20)
	l := w.dial(100)
	same := func(name string, want int, prove func(io.Writer) error) {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			err := prove(&out)
			if n := strings.Count(out.String(), "OK, same bits\n"); err != nil || n != want {
				t.Errorf("%d of %d trials have the same bits (%v):\n%s", n, want, err, &out)
			}
		})
	}
	same("F32", len(trials)+1, func(out io.Writer) error {
		return prove(out, tinyModel(t, attn.F32, 1), settings{cluster: l.Client})
	})
	same("integers", len(trials)+1, func(out io.Writer) error {
		m := tinyModelOf(t, &weights.Loader{Random: weights.Chance(1), Integers: true}, attn.I8)
		return prove(out, m, settings{kind: attn.I8, integers: true, cluster: l.Client})
	})
	for _, kind := range []attn.Format{attn.F16, attn.BF16, attn.I8} {
		same(kind.String(), 1, func(out io.Writer) error {
			return compareTrials(out, tinyModel(t, kind, 1), settings{kind: kind, cluster: l.Client},
				longPrompt, trials[:1])
		})
	}
	same("i8,i4", 1, func(out io.Writer) error {
		return compareTrials(out, tinyModel(t, attn.F32, 1), settings{kind: attn.I8, values: attn.I4,
			cluster: l.Client}, longPrompt, trials[:1])
	})
	for i := range w.workers {
		eventually(t, fmt.Sprintf("worker %d has no copies when all engines are closed", i), func() bool {
			return w.copiesOf(i) == 0
		})
	}
}

// TestClusterDifferencesAreSeen makes sure that a proof can fail where only the cluster computes
// something else: what it runs gets other weights.
func TestClusterDifferencesAreSeen(t *testing.T) {
	m, text := tinyModel(t, attn.F32, 1), ""
	err := compareTrials(writerFunc(func(more []byte) {
		if text += string(more); text == string(more) {
			m.norm[3] *= 2
		}
	}), m, settings{cluster: newSwarm(t, 2, 64<<20).dial(100).Client}, 20, trials[:1])
	if err == nil || !strings.Contains(text, " different\n") {
		t.Errorf("the error is %v:\n%s", err, text)
	}
}

// decodeWith returns the logits of some prompts whose answers have 30 tokens, and the bytes in use
// at most. It calls then after some steps.
func decodeWith(t *testing.T, m *model, s settings, then func(cache)) (logits []float32, peak int) {
	t.Helper()
	s.workers, s.places, s.chunk, s.context = 1, 3, 2000, 2000
	e, err := newEngine(m, s)
	must(t, err)
	defer e.close()
	for i := range 3 {
		must(t, e.submit(&job{prompt: countUp(5 + 600*i), most: 30, choose: func(x []float32) int {
			logits = append(logits, x...)
			return greedy(x)
		}}))
	}
	for i := 0; len(e.waiting)+len(e.active) > 0; i++ {
		if i == 10 {
			then(e.cache)
		}
		must(t, e.step())
	}
	if n := e.cache.inUse(); n != 0 {
		t.Errorf("%d bytes are in use at the end, want 0", n)
	}
	return logits, e.peak
}

// TestClusterLosesAWorker kills a worker while prompts are answered. Each part has a copy on
// another one, so that no logits change; and as many bytes are in use as without a cluster.
func TestClusterLosesAWorker(t *testing.T) {
	m, w, had := tinyModel(t, attn.F32, 1), newSwarm(t, 3, 64<<20), 0
	want, peak := decodeWith(t, m, settings{}, func(cache) {})
	got, n := decodeWith(t, m, settings{cluster: w.dial(100).Client}, func(c cache) {
		for s := range c.(*remote).open { // some may be late on a machine that has much to do
			eventually(t, "all copies are there", func() bool { return s.Missing() == 0 })
		}
		fullest := 0
		for i := range w.workers {
			if w.copiesOf(i) > w.copiesOf(fullest) {
				fullest = i
			}
		}
		had = w.copiesOf(fullest)
		w.kill(fullest)
	})
	if !slices.Equal(got, want) || n != peak || had < 3 {
		t.Errorf("a worker of %d copies was killed: the same logits %v, %d bytes in use, want %d", had,
			slices.Equal(got, want), n, peak)
	}
}

// TestClusterCommand runs what people type.
func TestClusterCommand(t *testing.T) {
	defer func(d time.Duration) { patience = d }(patience)
	patience = time.Minute
	w := newSwarm(t, 2, 64<<20)
	nowhere := filepath.Join(t.TempDir(), "none")
	for args, want := range map[string][]string{
		"-n 3 -cluster " + w.url + " -cache i8 -shared hello- world": {
			"keys and values on 2 workers by " + w.url + ", parts of 1024 tokens\n", "[1] world ",
			"prefill: 11 tokens",
			"keys and values: 36 KiB in use at most, in each copy on the cluster\n"},
		"-cluster " + w.url + " -nkey " + nowhere + " x":  {"-nkey", nowhere},
		"-cluster " + w.url + " -creds " + nowhere + " x": {"no such file"},
		"-cluster " + w.url + " -prefix a*b x":            {"Prefix", `"a*b"`},
		"-cluster nats://127.0.0.1:1 x":                   {"unavailable", "nats://127.0.0.1:1"},
	} {
		var out bytes.Buffer
		err := run(strings.Fields(args), &out, io.Discard)
		text := out.String()
		if err != nil {
			text += err.Error()
		}
		for _, part := range want {
			if !strings.Contains(text, part) {
				t.Errorf("decoder %s: want %q in:\n%s", args, part, text)
			}
		}
	}
}

// TestClusterSecrets makes sure that nothing printed has the token of an address: of a server with
// workers or without, that refuses it, that is not there, or that cannot be read.
func TestClusterSecrets(t *testing.T) {
	const token = "gEhEiM"
	url := newSwarmFor(t, token, 1, 64<<20).url
	_, host, _ := strings.Cut(url, "@")
	for args, want := range map[string]string{
		"-n 1 -cluster " + url + " x":                         "workers by nats://xxxxx@" + host,
		"-prefix other -cluster " + url + " x":                "at nats://xxxxx@" + host,
		"-cluster nats://me:" + token + "@" + host + " x":     "Authorization Violation",
		"-cluster nats://me:" + token + "@127.0.0.1:1 x":      "nats://xxxxx@127.0.0.1:1",
		"-cluster nats://me:" + token + "/x@127.0.0.1:1 x":    "cannot be read",
		"-n x -prefix a..b -cluster nats://" + token + "@h x": "-n",
	} {
		var out bytes.Buffer
		err := run(strings.Fields(args), &out, &out)
		fmt.Fprint(&out, err)
		if text := out.String(); strings.Contains(text, token) || !strings.Contains(text, want) {
			t.Errorf("decoder %s: want %q and no token in:\n%s", args, want, text)
		}
	}
}

// TestClusterErrors are those of calls: of a client that is closed, and of workers without memory.
func TestClusterErrors(t *testing.T) {
	m, w := tinyModel(t, attn.F32, 1), newSwarm(t, 2, 1<<10)
	s := settings{workers: 1, places: 2, chunk: 50, context: 100, cluster: w.dial(100).Client}
	e, err := newEngine(m, s)
	must(t, err)
	defer e.close()
	must(t, e.submit(&job{prompt: countUp(60), most: 2, choose: greedy}))
	if err := e.run(func() {}); !errors.Is(err, attn.ErrCapacity) {
		t.Errorf("workers of 1 KiB: the error is %v, want ErrCapacity", err)
	}
	s.cluster.Close()
	must(t, e.submit(&job{prompt: countUp(60), most: 2, choose: greedy}))
	if err := e.run(func() {}); !errors.Is(err, attn.ErrClosed) {
		t.Errorf("a closed client: the error is %v, want ErrClosed", err)
	}
	if _, err := newEngine(m, s); !errors.Is(err, attn.ErrClosed) {
		t.Errorf("an engine with a closed client: the error is %v, want ErrClosed", err)
	}
	if _, err := sampleLogits(m, s); !errors.Is(err, attn.ErrClosed) {
		t.Errorf("-accuracy with a closed client: the error is %v, want ErrClosed", err)
	}
}

// TestNoWorkers says what to do where a cluster has none.
func TestNoWorkers(t *testing.T) {
	url := newSwarm(t, 1, 64<<20).url
	_, err := (&access{url: url, prefix: "other"}).dial(100, 50*time.Millisecond)
	if !errors.Is(err, cluster.ErrUnavailable) || !strings.Contains(err.Error(), url) ||
		!strings.Contains(err.Error(), "attn-cluster serve") {
		t.Errorf("the error is %v, want it to name %s and attn-cluster serve", err, url)
	}
}

// TestSegments are powers of two, and few parts.
func TestSegments(t *testing.T) {
	for tokens, want := range map[int]int{1: 1, 16 << 10: 1, 16<<10 + 1: 2, 64 << 10: 4,
		256 << 10: 16, 1 << 30: 16} {
		if got := segments(tokens); got != want {
			t.Errorf("%d segments a part for %d tokens, want %d", got, tokens, want)
		}
	}
}
