package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nkeys"
)

// A server that other machines reach wants to know who comes, or to be told that everybody may.
func TestOpenServer(t *testing.T) {
	config := filepath.Join(t.TempDir(), "nats.conf")
	must(t, os.WriteFile(config, []byte("port: -1"), 0o600)) // 0.0.0.0, as NATS means it
	for _, args := range []string{"-listen 0.0.0.0:0", "-listen :0", "-listen [::]:0",
		"-nats " + config} {
		args := append([]string{"serve", "-memory", "1MiB"}, strings.Fields(args)...)
		status, stdout, stderr := call(t, args...)
		if status != 2 || stdout != "" || !strings.Contains(stderr, "could read and change all tokens") ||
			!strings.Contains(stderr, "want -nkey") || !strings.Contains(stderr, "-insecure") {
			t.Errorf("%q: status %d, stdout %q, stderr %q, want 2 and what to do", args, status, stdout,
				stderr)
		}
	}
	refusedUsage(t, "-insecure", "-insecure", "-url", "nats://127.0.0.1:1")
}

// refusedUsage makes sure that a worker does not start for what stands on its command line.
func refusedUsage(t *testing.T, want string, args ...string) {
	t.Helper()
	args = append([]string{"serve", "-memory", "1MiB"}, args...)
	if status, _, stderr := call(t, args...); status != 2 || !strings.Contains(stderr, want) {
		t.Errorf("%q: status %d, stderr %q, want 2 and %q", args, status, stderr, want)
	}
}

// Each kind of server says who may read what is here. This one listens for this machine only: the
// tests open nothing to others.
func TestWhoMayRead(t *testing.T) {
	pair, public := newKey(t, nkeys.PrefixByteUser)
	seed, err := pair.Seed()
	must(t, err)
	folder := t.TempDir()
	config, nkey := filepath.Join(folder, "nats.conf"), filepath.Join(folder, "seed")
	must(t, os.WriteFile(nkey, seed, 0o600))
	must(t, os.WriteFile(config, fmt.Appendf(nil, "host: 127.0.0.1, port: -1, authorization { users: "+
		"[ { nkey: %s } ] }", public), 0o600))
	for _, c := range []struct {
		says string
		key  bool // that clients need
		args []string
	}{
		{"everybody on this machine may read and change all tokens", false,
			[]string{"-listen", "127.0.0.1:0"}},
		{"who has the key of -nkey may read and change all tokens", true,
			[]string{"-listen", "127.0.0.1:0", "-nkey", nkey}},
		{"who may read and change what is up to -nats " + config, true,
			[]string{"-nats", config, "-nkey", nkey}},
	} {
		out, stop := serve(t, append(c.args, "-name", "own", "-memory", "1MiB")...)
		if !strings.Contains(out.String(), c.says+"\n") {
			t.Errorf("no %q in\n%s", c.says, out)
		}
		url := address(t, out)
		if c.key {
			refused(t, "authorization", "status", "-url", url)
			lists(t, "own", true, "-url", url, "-nkey", nkey)
		} else {
			lists(t, "own", true, "-url", url)
		}
		if status := stop(); status != 0 {
			t.Errorf("%q: the worker ended with %d", c.args, status)
		}
	}
}

// What is open to all is known without opening it.
func TestOpenTo(t *testing.T) {
	for host, want := range map[string]bool{"127.0.0.1": false, "127.1.2.3": false, "::1": false,
		"localhost": false, "": true, "0.0.0.0": true, "::": true, "10.0.0.1": true, "192.0.2.1": true,
		"no such host": true} {
		if got := reachable(host); got != want {
			t.Errorf("%q is reachable from other machines: %t, want %t", host, got, want)
		}
	}
}
