package cluster

import (
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/cluster/embedded"
)

func TestRedact(t *testing.T) {
	for text, want := range map[string]string{
		"":                                  "",
		"nothing to hide":                   "nothing to hide",
		"nats://host:4222":                  "nats://host:4222",
		"nats://a,nats://b":                 "nats://a,nats://b",
		"nats://me:secret@host:4222/":       "nats://xxxxx@host:4222/",
		"nats://secret@host":                "nats://xxxxx@host",
		"me:secret@host":                    "xxxxx@host",
		"tls://:secret@a, nats://secret@b":  "tls://xxxxx@a, nats://xxxxx@b",
		"nats://h,nats://me:secret@b,ws://": "nats://h,nats://xxxxx@b,ws://",
		`parse "nats://me:sec ret@h": no`:   `parse "nats://xxxxx@h": no`,
		"nats://me:sec@ret/#?,secret@h":     "nats://xxxxx@h",
		"-u me:secret@h at (nats://t@h)":    "-u xxxxx@h at (nats://xxxxx@h)",
	} {
		if got := Redact(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

// Errors of connections do not say a password or a token, and keep their kind.
func TestDialHidesSecrets(t *testing.T) {
	s, err := embedded.Start(&server.Options{Username: "me", Password: "other"})
	must(t, err)
	t.Cleanup(func() { embedded.Stop(s) })
	host := strings.TrimPrefix(s.ClientURL(), "nats://")
	for _, x := range []struct {
		url  string
		want []error
	}{
		{"nats://me:geheim@" + host, []error{ErrUnavailable, nats.ErrAuthorization}},
		{"nats://geheim@" + host, []error{ErrUnavailable, nats.ErrAuthorization}},
		{"me:geheim@" + host, []error{ErrUnavailable, nats.ErrAuthorization}},
		{"nats://127.0.0.1:1,nats://me:geheim@127.0.0.1:1", []error{ErrUnavailable}},
		{"nats://me:geheim@geheim@127.0.0.1:1", []error{ErrUnavailable}},
		{"nats://me:gehe im@" + host, []error{attn.ErrOption}},
		{"nats://me:geheim/x@" + host, []error{attn.ErrOption}},
		{"nats://geheim/x@" + host, []error{attn.ErrOption}},
		{"nats://geheim#x@" + host, []error{attn.ErrOption}},
		{"nats://geheim?x@" + host, []error{attn.ErrOption}},
		{"nats://me:geheim,geheim@" + host, []error{attn.ErrOption}},
		{"nats://geheim,geheim@" + host, []error{attn.ErrOption}},
		{"nats://me:%geheim@" + host, []error{attn.ErrOption}},
		{"me:geheim", []error{attn.ErrOption}},
	} {
		_, err := DialNATS(NATSConfig{URL: x.url})
		if err == nil {
			t.Errorf("%s: no error", x.url)
			continue
		}
		for _, want := range x.want {
			if !errors.Is(err, want) {
				t.Errorf("%s: the error is %v, want %v", x.url, err, want)
			}
		}
		if strings.Contains(err.Error(), "gehe") {
			t.Errorf("%s: the error has the secret: %v", x.url, err)
		}
	}
}
