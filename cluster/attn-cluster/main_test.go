package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/seed-1415985d/attn/cluster"
	"github.com/seed-1415985d/attn/cluster/internal/embedded"
)

// The workers of demo and soak are this program, and so this test.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		main()
	}
	os.Exit(m.Run())
}

func call(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var out, errs bytes.Buffer
	status = realMain(ctx, args, &out, &errs)
	return status, out.String(), errs.String()
}

func TestDemo(t *testing.T) {
	status, stdout, stderr := call(t, "demo", "-quick")
	if status != 0 || !strings.Contains(stdout, "Checked: 32 of 32") {
		t.Fatalf("status %d\n%s\n%s", status, stdout, stderr)
	}
}

func TestSoak(t *testing.T) {
	status, stdout, stderr := call(t, "soak", "-time", "5s")
	if status != 0 || !strings.Contains(stdout, "Checked:") {
		t.Fatalf("status %d\n%s\n%s", status, stdout, stderr)
	}
}

func TestMistakes(t *testing.T) {
	for _, args := range [][]string{{}, {"no"}, {"serve", "-memory", "0"}, {"serve", "x"},
		{"serve", "-listen", "x"}, {"soak", "-workers", "2"}, {"demo", "-x"}} {
		if status, _, stderr := call(t, args...); status != 2 || stderr == "" {
			t.Errorf("%q: status %d, %q", args, status, stderr)
		}
	}
	if status, _, stderr := call(t, "serve", "-h"); status != 0 || !strings.Contains(stderr,
		"-memory") {
		t.Errorf("help: status %d, %q", status, stderr)
	}
}

// A worker tells Prometheus about itself, and is well while it is connected.
func TestMetrics(t *testing.T) {
	s, err := embedded.Start(new(server.Options))
	if err != nil {
		t.Fatal(err)
	}
	defer embedded.Stop(s)
	link, err := cluster.DialNATS(cluster.NATSConfig{URL: s.ClientURL()})
	if err != nil {
		t.Fatal(err)
	}
	w, err := cluster.NewWorker(link, cluster.WorkerConfig{Name: "w", Memory: 12345, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	stop, at, err := serveMetrics("127.0.0.1:0", w, link.Conn())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	get := func(path string) (int, string) {
		r, err := http.Get("http://" + at + path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return r.StatusCode, string(text)
	}
	if status, text := get("/metrics"); status != 200 || !strings.Contains(text,
		"attn_cluster_memory_bytes 12345") {
		t.Errorf("status %d\n%s", status, text)
	}
	if status, _ := get("/healthz"); status != 200 {
		t.Errorf("status %d", status)
	}
	w.Close()
	_ = link.Close()
	if status, _ := get("/healthz"); status != 503 {
		t.Errorf("status %d without a connection, want 503", status)
	}
}
