package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/cluster"
)

// access says how to reach a cluster, and as whom.
type access struct{ url, prefix, creds, nkey string }

func (a *access) register(f *flag.FlagSet) {
	f.StringVar(&a.url, "cluster", "", "`addresses` of NATS servers, separated by commas: workers of "+
		"attn-cluster there keep the keys and values. Texts that prompts share are computed for each")
	f.StringVar(&a.prefix, "prefix", "attn", "first `tokens` of the cluster's subjects")
	f.StringVar(&a.creds, "creds", "", "`file` with credentials for the cluster: a JWT and its seed")
	f.StringVar(&a.nkey, "nkey", "", "`file` with the seed of an nkey for the cluster")
}

// link is a connection to a cluster.
type link struct {
	*cluster.Client
	nats *cluster.NATS
	part int // tokens
}

// patience is for the first worker to answer; another one, for second copies, has a fifth of it.
var patience = 5 * time.Second

// dial connects, and waits for workers. Contexts of a number of tokens are spread over them.
func (a *access) dial(context int, patience time.Duration) (*link, error) {
	options, err := a.options()
	if err != nil {
		return nil, err
	}
	l := &link{part: segments(context) * attn.Segment}
	l.nats, err = cluster.DialNATS(cluster.NATSConfig{URL: a.url, Prefix: a.prefix, Options: options})
	if err != nil {
		return nil, err
	}
	l.Client, err = cluster.NewClient(l.nats, cluster.ClientConfig{Segments: l.part / attn.Segment})
	if err == nil {
		err = l.wait(patience)
	}
	if err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func (a *access) options() ([]nats.Option, error) {
	options := []nats.Option{nats.Name("decoder")}
	if a.creds != "" {
		options = append(options, nats.UserCredentials(a.creds))
	}
	if a.nkey != "" {
		key, err := nats.NkeyOptionFromSeed(a.nkey)
		if err != nil {
			return nil, fmt.Errorf("-nkey %s: %w", a.nkey, err)
		}
		options = append(options, key)
	}
	return options, nil
}

// segments is how many a part of a sequence has, so that a context is up to 16 parts.
func segments(context int) int {
	n := 1
	for n < 16 && n*16*attn.Segment < context {
		n *= 2
	}
	return n
}

// wait returns when there are workers for two copies, or after a while with one.
func (l *link) wait(patience time.Duration) error {
	first, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := l.Wait(first, 1); err != nil {
		return fmt.Errorf("the cluster at %s: %w; attn-cluster serve starts one",
			l.address(), err)
	}
	second, cancel := context.WithTimeout(context.Background(), patience/5)
	defer cancel()
	_ = l.Wait(second, 2) // one is enough
	return nil
}

func (l *link) describe(out io.Writer) {
	fmt.Fprintf(out, "keys and values on %d workers by %s, parts of %d tokens\n", len(l.Workers()),
		l.address(), l.part)
}

// address is the server's, without a password or a token.
func (l *link) address() string { return cluster.Redact(l.nats.Conn().ConnectedUrl()) }

func (l *link) close() {
	if l.Client != nil {
		l.Client.Close()
	}
	_ = l.nats.Close() // which never fails
}
