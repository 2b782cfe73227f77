package main

import (
	"bytes"
	"context"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// geheim begins all secrets of these tests, which no command may print.
const geheim = "gEhEiM"

// printed is all that a command writes until it ends, also past the writers that it is given.
func printed(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	program, err := os.Executable()
	must(t, err)
	c := exec.CommandContext(ctx, program, args...) // its standard input ends at once
	out, err := c.CombinedOutput()
	if ctx.Err() != nil {
		t.Errorf("%q has not ended (%v)", args, err)
	}
	return string(out)
}

// hides makes sure that a command prints something, but no secret.
func hides(t *testing.T, want string, args ...string) {
	t.Helper()
	got := printed(t, args...)
	if !strings.Contains(strings.ToLower(got), want) {
		t.Errorf("%q prints %q, want %q in it", args, got, want)
	}
	if strings.Contains(strings.ToLower(got), strings.ToLower(geheim)) {
		t.Errorf("%q prints the secret: %q", args, got)
	}
}

// TestSecrets runs each command with a password, and with a token, in the address: a right one, a
// wrong one, where nobody listens, where the address cannot be read, and in a place where none is
// expected.
func TestSecrets(t *testing.T) {
	user := startServer(t, server.Options{Username: "me", Password: geheim + "1"})[len("nats://"):]
	token := startServer(t, server.Options{Authorization: geheim + "2"})[len("nats://"):]
	denied := startServer(t, server.Options{Users: []*server.User{{Username: "me", Password: geheim,
		Permissions: &server.Permissions{Subscribe: &server.SubjectPermission{
			Allow: []string{"other.>"}}}}}})[len("nats://"):]
	good := []string{"nats://me:" + geheim + "1@" + user, "me:" + geheim + "1@" + user,
		"nats://" + geheim + "2@" + token}
	refused := []string{"nats://me:" + geheim + "@" + user, "nats://" + geheim + "@" + token,
		geheim + "@" + token, "nats://" + geheim + ":x@" + user}
	nobody := []string{"nats://me:" + geheim + "@127.0.0.1:1",
		"nats://127.0.0.1:1,tls://" + geheim + "@127.0.0.1:1"}
	unread := []string{"nats://me:" + geheim + "/x@" + user, "nats://me:" + geheim + " x@" + user,
		"nats://" + geheim + "#@" + token, "nats://me:x," + geheim + "@" + user, "me:" + geheim}
	for _, name := range append(slices.Sorted(maps.Keys(commands())), "help") {
		var connects []string // the arguments of those that do, and what they print
		works := "echo at"
		switch name {
		case "serve":
			works = "worker x serves"
			connects = []string{"-child", "-memory", "1MiB", "-name", "x", "-announce", "50ms"}
		case "status":
			works = "kernels"
			connects = []string{"-wait", "100ms"}
		case "echo":
			connects = []string{"-name", "x"}
		}
		address := func(url string) []string { return append([]string{name, "-url", url}, connects...) }
		if connects == nil {
			wrong := "not defined: -url"
			switch name {
			case "help":
				wrong = "unexpected argument"
			case "answer": // its arguments are texts
				wrong = "there is no text"
			}
			hides(t, wrong, name, "-url", good[0])
		} else {
			for _, url := range good {
				hides(t, works, address(url)...)
			}
			hides(t, "permissions violation", address("nats://me:"+geheim+"@"+denied)...)
			for _, url := range refused {
				hides(t, "authorization violation", address(url)...)
			}
			for _, url := range nobody {
				hides(t, "connecting to nats://", address(url)...)
			}
			for _, url := range unread {
				hides(t, "cannot be read", address(url)...)
			}
		}
		if name == "help" {
			hides(t, "unknown command", name, "-"+good[0])
			hides(t, "unknown command", name, good[0])
			hides(t, "unexpected argument", name, "demo", good[0])
			continue
		}
		hides(t, "not defined", name, "-"+good[0])
		if name != "answer" {
			hides(t, "unexpected argument", name, good[0])
		}
		if name == "echo" {
			continue // its flags belong to other programs
		}
		help := printed(t, name, "-h")
		for _, line := range strings.Split(help, "\n") {
			if flag, _, isFlag := strings.Cut(strings.TrimPrefix(line, "  -"), " "); isFlag &&
				strings.HasPrefix(line, "  -") && flag != "url" {
				hides(t, "", name, "-memory=1MiB", "-"+flag+"="+good[0])
			}
		}
	}
	hides(t, "unknown command", good[0])
	hides(t, "unknown command", good[1])
}

// TestSecretsOfPages looks at what a worker says while it serves.
func TestSecretsOfPages(t *testing.T) {
	url := startServer(t, server.Options{Authorization: geheim})
	url = "nats://" + geheim + "@" + url[len("nats://"):]
	out, stop := serve(t, "-url", url, "-memory", "1MiB", "-http", "127.0.0.1:0")
	for _, page := range []string{"/metrics", "/healthz", "/readyz", "/other"} {
		if _, text := get(t, out, page); strings.Contains(text, geheim) {
			t.Errorf("%s has the secret:\n%s", page, text)
		}
	}
	if status := stop(); status != 0 || strings.Contains(out.String(), geheim) {
		t.Errorf("the worker ended with %d and\n%s", status, out)
	}
}

// TestSecretsOfConfigurations has files for -nats with mistakes next to secrets.
func TestSecretsOfConfigurations(t *testing.T) {
	file := filepath.Join(t.TempDir(), "nats.conf")
	for text, want := range map[string]string{
		`authorization { user: a, password: $` + geheim + ` }`:                      "variable reference",
		`authorization { token: $` + geheim + `, x: 1 }`:                            "variable reference",
		`authorization { users: [ { user: a, password: "` + geheim + `" }`:          "parse error",
		`authorization { user: a, pasword: ` + geheim + ` }`:                        "unknown field",
		`cluster { port: -1, routes: ["nats-route://u:` + geheim + ` x@h:1"] }`:     "error parsing route",
		`leafnodes { remotes: [ {url: "nats://u:` + geheim + ` x@h"} ] }`:           "error parsing leafnode",
		`authorization { users: [ { user: a, password: ` + geheim + ` } ] }`:        "authorization violation",
		`authorization { token: ` + geheim + ` }`:                                   "authorization violation",
		`authorization { token: ` + geheim + `, users: [ {user: a, password: b} ]}`: "can not have a token",
	} {
		must(t, os.WriteFile(file, []byte(text), 0o600))
		start := time.Now()
		hides(t, want, "serve", "-child", "-memory", "1MiB", "-listen", "127.0.0.1:0", "-nats", file)
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("%s: it took %v", text, took)
		}
	}
}

// TestSecretFiles gives files of keys that are none.
func TestSecretFiles(t *testing.T) {
	url := startServer(t, server.Options{})
	file := filepath.Join(t.TempDir(), "key")
	must(t, os.WriteFile(file, bytes.Repeat([]byte(geheim), 3), 0o600))
	for _, flag := range []string{"-nkey", "-creds", "-tls-ca"} {
		hides(t, "", "status", "-url", url, "-wait", "10ms", flag, file)
	}
}
