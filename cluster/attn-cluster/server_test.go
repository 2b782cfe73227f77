package main

import (
	"cmp"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/cluster/embedded"
)

// address is where a worker's own server says that it is.
func address(t *testing.T, out *output) string {
	t.Helper()
	_, url, _ := strings.Cut(out.String(), "NATS is part of this process, at ")
	url, _, found := strings.Cut(url, "\n")
	if !found {
		t.Fatalf("there is no address of a server:\n%s", out)
	}
	return url
}

// The first worker of a machine brings a NATS server, and the next ones use it.
func TestOwnServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	before := defaultListen
	t.Cleanup(func() { defaultListen = before })
	defaultListen = l.Addr().String()
	must(t, l.Close())

	first, stopFirst := serve(t, "-name", "one", "-memory", "1MiB")
	if got, want := address(t, first), "nats://"+defaultListen; got != want {
		t.Errorf("the server is at %s, want %s", got, want)
	}
	second, stopSecond := serve(t, "-name", "two", "-memory", "1MiB")
	if strings.Contains(second.String(), "part of this process") {
		t.Errorf("there is a second server:\n%s", second)
	}
	lists(t, "one", true, "-url", "nats://"+defaultListen)
	lists(t, "two", true, "-url", "nats://"+defaultListen)
	if a, b := stopSecond(), stopFirst(); a != 0 || b != 0 {
		t.Errorf("the workers ended with %d and %d", a, b)
	}
	if answers(defaultListen) {
		t.Error("the server is still there")
	}
}

// Its configuration is NATS's: here who may connect, and over TLS.
func TestOwnServerWithConfiguration(t *testing.T) {
	pair, public := newKey(t, nkeys.PrefixByteUser)
	seed, err := pair.Seed()
	must(t, err)
	folder, ca := t.TempDir(), newAuthority(t, "ours")
	cert, key := ca.issueFor(x509.ExtKeyUsageServerAuth)
	config, nkey := filepath.Join(folder, "nats.conf"), filepath.Join(folder, "seed")
	must(t, os.WriteFile(nkey, seed, 0o600))
	must(t, os.WriteFile(config, fmt.Appendf(nil, `
tls { cert_file: %q, key_file: %q }
authorization { users: [ { nkey: %s } ] }
`, cert, key, public), 0o600))
	out, stop := serve(t, "-listen", "127.0.0.1:0", "-nats", config, "-nkey", nkey, "-name", "own",
		"-memory", "1MiB")
	url := address(t, out)
	lists(t, "own", true, "-url", url, "-tls-ca", ca.file, "-nkey", nkey)
	refused(t, "authorization", "status", "-url", url, "-tls-ca", ca.file)
	refused(t, "unknown authority", "status", "-url", url, "-nkey", nkey)
	refused(t, "address already in use", "serve", "-memory", "1MiB", "-listen", url[len("tls://"):])
	if status := stop(); status != 0 {
		t.Errorf("the worker ended with %d", status)
	}
}

// TestOwnServerWantsAKey makes sure that a worker whose own server refuses it says so at once.
func TestOwnServerWantsAKey(t *testing.T) {
	_, public := newKey(t, nkeys.PrefixByteUser)
	other, _ := newKey(t, nkeys.PrefixByteUser)
	seed, err := other.Seed()
	must(t, err)
	config, nkey := filepath.Join(t.TempDir(), "nats.conf"), filepath.Join(t.TempDir(), "seed")
	must(t, os.WriteFile(nkey, seed, 0o600))
	const refusal = "Authorization Violation; -nkey or -creds say which user of -nats this worker is"
	for _, x := range []struct{ users, key, want string }{
		{"{ user: a, password: b }", "", refusal},
		{"{ user: a, password: b }", nkey, "nkeys not supported by the server"},
		{"{ nkey: " + public + " }", "", refusal},
		{"{ nkey: " + public + " }", nkey, refusal},
	} {
		must(t, os.WriteFile(config, []byte("authorization { users: [ "+x.users+" ] }"), 0o600))
		start := time.Now()
		status, _, stderr := call(t, "serve", "-listen", "127.0.0.1:0", "-nats", config, "-memory",
			"1MiB", "-nkey", x.key)
		if took := time.Since(start); status != 1 || took > 5*time.Second ||
			!strings.Contains(stderr, x.want) {
			t.Errorf("%+v: status %d after %v, stderr %q", x, status, took, stderr)
		}
	}
}

func TestOwnServerRefuses(t *testing.T) {
	refused(t, "-nats .*no such file", "serve", "-memory", "1MiB", "-nats",
		filepath.Join(t.TempDir(), "none"))
	for _, args := range []string{"-listen here", "-listen 127.0.0.1:x",
		"-listen :4222 -url nats://a"} {
		args := append([]string{"serve", "-memory", "1MiB"}, strings.Fields(args)...)
		status, _, stderr := call(t, args...)
		if status != 2 || !strings.Contains(stderr, "-listen") {
			t.Errorf("%s: status %d, stderr %q, want 2 and -listen", args, status, stderr)
		}
	}
}

// TestDocumentedConfiguration runs the configuration of docs/cluster.md, three servers, of which
// one is part of a worker: that and a client of the tenant can do all that they have to, and the
// client can be no worker. They are at different servers, and when the client's ends it goes to
// another.
func TestDocumentedConfiguration(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "cluster.md"))
	if os.IsNotExist(err) {
		t.Skip("the module is here without the repository that its documents are in")
	}
	must(t, err)
	_, config, _ := strings.Cut(string(page), "`nats-server -c nats.conf`:\n\n```\n")
	config, _, found := strings.Cut(config, "```")
	if !found {
		t.Fatal("docs/cluster.md has no configuration")
	}
	folder, ca := t.TempDir(), newAuthority(t, "ours")
	cert, key := ca.issueFor(x509.ExtKeyUsageServerAuth)
	replacements := []string{"port: 4222", "port: -1\nhost: 127.0.0.1", "/etc/nats/server.pem", cert,
		"/etc/nats/server.key", key, `password: "…"`, "password: secret",
		"server:…@", "server:secret@"}
	nkey := map[string]string{}
	for _, user := range []string{"UA…", "UB…"} {
		pair, public := newKey(t, nkeys.PrefixByteUser)
		seed, err := pair.Seed()
		must(t, err)
		nkey[user] = filepath.Join(folder, public)
		must(t, os.WriteFile(nkey[user], seed, 0o600))
		replacements = append(replacements, user, public)
	}
	var routes []string
	for i := range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		routes = append(routes, l.Addr().String())
		replacements = append(replacements, fmt.Sprintf("nats-%d.nats:6222", i), routes[i])
		must(t, l.Close())
	}
	for i := 0; i < len(replacements); i += 2 {
		if !strings.Contains(config, replacements[i]) {
			t.Errorf("the configuration has no %s", replacements[i])
		}
	}
	var first *server.Server
	var out *output
	var stop func() int
	var urls []string
	for i, route := range routes {
		_, port, _ := net.SplitHostPort(route)
		file := filepath.Join(folder, fmt.Sprint(i, ".conf"))
		text := strings.NewReplacer(append(replacements, "port: 6222", "host: 127.0.0.1, port: "+
			port)...).Replace(config)
		must(t, os.WriteFile(file, []byte(text), 0o600))
		if i == 2 {
			out, stop = serve(t, "-nats", file, "-prefix", "a", "-nkey", nkey["UB…"], "-name", "b",
				"-memory", "64MiB")
			urls = append(urls, address(t, out))
			break
		}
		o, err := server.ProcessConfigFile(file)
		must(t, err)
		s, err := embedded.Start(o)
		must(t, err)
		defer embedded.Stop(s)
		first = cmp.Or(first, s)
		urls = append(urls, s.ClientURL())
	}
	list := strings.Join(urls, ",")
	c := connection{url: list, prefix: "a", nkey: nkey["UA…"], ca: ca.file}
	link, err := c.dial("client", nats.DontRandomize())
	must(t, err)
	defer func() { _ = link.Close() }()
	client, s := newSequence(t, link)
	defer client.Close()
	x := attn.BHLD(make([]float32, 8*10), 1, 1, 10, 8)
	must(t, s.Append(t.Context(), 0, x, x))
	must(t, s.Attend(t.Context(), 0, x, x, nil))
	embedded.Stop(first)
	must(t, s.Append(t.Context(), 0, x, x))
	must(t, s.Attend(t.Context(), 0, x, x, nil))
	s.Release()
	refused(t, "permissions violation", "serve", "-url", list, "-prefix", "a", "-nkey", nkey["UA…"],
		"-tls-ca", ca.file, "-memory", "1MiB")
	if status := stop(); status != 0 {
		t.Errorf("the worker ended with %d and %s", status, out)
	}
}
