package main

import (
	"bytes"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/cluster/embedded"
)

// asCommand makes the test program the command itself: that is what it starts as its children.
const asCommand = "ATTN_CLUSTER_TEST_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		os.Exit(untilSignal(os.Args[1:], os.Stdout, os.Stderr))
	}
	if err := os.Setenv(asCommand, "1"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// output is a writer that may be read meanwhile.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// await waits until the output has a text.
func (o *output) await(t *testing.T, text string) {
	t.Helper()
	for range 6000 {
		if strings.Contains(o.String(), text) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("no %q after a minute in\n%s", text, o)
}

// call runs the command to its end.
func call(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs output
	status = realMain(t.Context(), args, &out, &errs)
	return status, out.String(), errs.String()
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// startServer returns the address of a NATS server.
func startServer(t *testing.T, o server.Options) string {
	t.Helper()
	s, err := embedded.Start(&o)
	must(t, err)
	t.Cleanup(func() { embedded.Stop(s) })
	return s.ClientURL()
}

// TestUsage says what each mistake on the command line is.
func TestUsage(t *testing.T) {
	for args, want := range map[string]string{
		"":           "attn-cluster keeps the keys",
		"nonsense":   `unknown command "nonsense"; attn-cluster help lists them`,
		"serve more": `attn-cluster serve: unexpected argument "more"`,
		"serve":      "serve: -memory is not set, want the bytes of memory",
		"serve -memory 64": "-memory is 64 bytes, " +
			"want at least a page, 32 KiB, such as 8GiB",
		"serve -memory 31KiB":            "-memory is 31744 bytes, want at least a page",
		"serve -memory 100TiB":           "-memory is 100 TiB, want at most the memory of",
		"serve -memory much":             "want a number of bytes like 8GiB, 500MB or 4096",
		"serve -memory 1MiB -tls-cert x": `-tls-cert is "x" and -tls-key "", want both or none`,
		"serve -memory 1MiB -drain -1s":  "-drain is -1s, want 0 or more",
		"status -wait soon":              "-wait",
		"demo -tokens 100":               "-tokens is 100 and -steps 50, want at least 16384 and 3",
		"demo -steps 2":                  "-steps 2",
		"demo more":                      "unexpected argument",
		"soak -workers 2":                "-workers is 2, want at least 3: one has trouble, and two keep",
		"soak -workers 257":              "-workers is 257, want at most 256",
		"bench -workers 1,257":           "want at most 256",
		"soak -for 0s":                   "-for is 0s and -round 20s, want more than 0",
		"soak more":                      "unexpected argument",
		"bench -tokens 1,x":              "want numbers above 0, with commas between them",
		"bench -workers 0":               "want numbers above 0",
		"bench -n 0":                     "-n is 0, want at least 1",
		"echo more":                      "unexpected argument",
		"version more":                   "unexpected argument",
		"help more":                      `attn-cluster help: unknown command "more"; attn-cluster help`,
		"help demo more":                 `attn-cluster help: unexpected argument "more"`,
	} {
		status, stdout, stderr := call(t, strings.Fields(args)...)
		if status != 2 || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%q: status %d, stdout %q, stderr %q, want 2 and %q", args, status, stdout,
				stderr, want)
		}
	}
}

func TestHelp(t *testing.T) {
	for _, args := range []string{"help", "-h", "help help", "version -h", "serve -h", "status -h",
		"demo -h", "bench -h", "soak -h"} {
		words := strings.Fields(args)
		status, stdout, stderr := call(t, words...)
		if status != 0 || stderr != "" || !strings.HasPrefix(stdout, "attn-cluster ") {
			t.Errorf("%s: status %d, stdout %q, stderr %q", args, status, stdout, stderr)
		}
		if len(words) > 1 && words[0] != "version" && words[0] != "help" &&
			!strings.Contains(stdout, "\n  -") {
			t.Errorf("%s: no flags in %q", args, stdout)
		}
		if len(words) < 2 || words[0] == "help" {
			continue
		}
		if _, again, _ := call(t, "help", words[0]); again != stdout { // at another time
			t.Errorf("help %s is %q, want that of -h, %q", words[0], again, stdout)
		}
	}
}

// TestVersion says what the program was built from.
func TestVersion(t *testing.T) {
	for _, name := range []string{"version", "-version", "--version"} {
		status, stdout, stderr := call(t, name)
		for _, want := range []string{"command ", "package ", "NATS server ", "NATS client ", "revision ",
			runtime.Version(), attn.Implementation()} {
			if status != 0 || stderr != "" || !strings.Contains(stdout, want) {
				t.Errorf("%s: status %d, stderr %q, no %q in\n%s", name, status, stderr, want, stdout)
			}
		}
	}
}

// TestFailures has failures of the environment, not mistakes on the command line.
func TestFailures(t *testing.T) {
	url := startServer(t, server.Options{})
	for args, want := range map[string]string{
		"status -url nats://127.0.0.1:1":                        "connecting to",
		"echo -url nats://127.0.0.1:1":                          "connecting to",
		"serve -memory 1GiB -name a.b -url " + url:              `WorkerConfig.Name is "a.b"`,
		"serve -memory 1GiB -nkey none -url " + url:             "-nkey none: ",
		"serve -memory 1GiB -creds none -url " + url:            "none",
		"serve -memory 1GiB -tls-ca none -url " + url:           "none",
		"serve -memory 1MiB -http nowhere:x:1 -url " + url:      "-http nowhere:x:1: ",
		"serve -memory 1MiB -prefix a..b -url " + url:           "NATSConfig.Prefix",
		"serve -memory 1MiB -calls -1 -url " + url:              "want Memory and other sizes above 0",
		"serve -memory 1MiB -tls-cert a -tls-key b -url " + url: "a",
	} {
		status, _, stderr := call(t, strings.Fields(args)...)
		if status != 1 || !strings.Contains(stderr, want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: status %d, stderr %q, want 1 and one line with %q", args, status, stderr, want)
		}
	}
}

func TestByteCount(t *testing.T) {
	var b byteCount
	for text, want := range map[string]byteCount{"4096": 4096, "8GiB": 8 << 30, "500MB": 500e6} {
		if err := b.Set(text); err != nil || b != want {
			t.Errorf("%s is %d (%v), want %d", text, b, err, want)
		}
	}
	b = 3 << 20
	if got := b.String(); got != "3.0 MiB" {
		t.Errorf("3 MiB is %q", got)
	}
	if b = 0; b.String() != "" {
		t.Errorf("zero is %q, want nothing", b.String())
	}
}
