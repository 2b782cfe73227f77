package main

import (
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/seed-1415985d/attn/cluster"
	"github.com/seed-1415985d/attn/cluster/internal/embedded"
)

// connection is how to reach NATS.
type connection struct {
	url, prefix, creds, nkey, ca, cert, key string
}

func (c *connection) flags(f *flag.FlagSet) {
	f.StringVar(&c.url, "url", "", "`URL` of a NATS server; none runs one in this process")
	f.StringVar(&c.prefix, "prefix", "attn", "of all subjects: one for each tenant")
	f.StringVar(&c.creds, "creds", "", "`file` with credentials: a JWT and its seed")
	f.StringVar(&c.nkey, "nkey", "", "`file` with the seed of an nkey")
	f.StringVar(&c.ca, "tls-ca", "", "`file` with the certificates to trust")
	f.StringVar(&c.cert, "tls-cert", "", "`file` with a certificate for the server to trust, and")
	f.StringVar(&c.key, "tls-key", "", "`file` with its key")
}

// config is what a transport takes.
func (c *connection) config() (cluster.NATSConfig, error) {
	o := []nats.Option{nats.Name("attn-cluster"), nats.RetryOnFailedConnect(true),
		nats.ReconnectWait(time.Second)}
	if c.creds != "" {
		o = append(o, nats.UserCredentials(c.creds))
	}
	if c.nkey != "" {
		nkey, err := nats.NkeyOptionFromSeed(c.nkey)
		if err != nil {
			return cluster.NATSConfig{}, err
		}
		o = append(o, nkey)
	}
	if c.ca != "" {
		o = append(o, nats.RootCAs(c.ca))
	}
	if c.cert != "" {
		o = append(o, nats.ClientCert(c.cert, c.key))
	}
	return cluster.NATSConfig{URL: c.url, Prefix: c.prefix, Options: o}, nil
}

// serve runs a worker until it is told to stop.
func serve(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var c connection
	w := cluster.WorkerConfig{Name: defaultName()}
	memory, listen, metrics := size(1<<30), "", ""
	f := flag.NewFlagSet("attn-cluster serve", flag.ContinueOnError)
	f.SetOutput(stderr)
	c.flags(f)
	f.StringVar(&listen, "listen", "127.0.0.1:4222", "`address` of the server in this process, if "+
		"there is no -url")
	f.StringVar(&w.Name, "name", w.Name, "of this worker; others have other names")
	f.Var(&memory, "memory", "`bytes` of keys and values: 512MiB, 64GiB")
	f.IntVar(&w.Threads, "threads", 0, "that compute; 0 is one for each CPU")
	f.IntVar(&w.Sequences, "sequences", 0, "that may have parts here; 0 is 4096")
	f.IntVar(&w.Calls, "calls", 0, "at the same time; 0 is 64")
	f.DurationVar(&w.Lease, "lease", 0, "the longest time without a word from a client before its "+
		"tokens are freed; 0 is a minute")
	f.StringVar(&metrics, "metrics", "", "`address` for /metrics and /healthz; none leaves them out")
	if err := parse(f, args); err != nil {
		return err
	}
	w.Memory = int64(memory)
	if c.url == "" {
		s, err := startServer(listen)
		if err != nil {
			return err
		}
		defer embedded.Stop(s)
		c.url = s.ClientURL()
	}
	config, err := c.config()
	if err != nil {
		return usageError{err}
	}
	link, err := cluster.DialNATS(config)
	if err != nil {
		return err
	}
	defer func() { _ = link.Close() }()
	worker, err := cluster.NewWorker(link, w)
	if err != nil {
		return err
	}
	defer worker.Close()
	if metrics != "" {
		stop, address, err := serveMetrics(metrics, worker, link.Conn())
		if err != nil {
			return err
		}
		defer stop()
		fmt.Fprintf(stdout, "metrics at http://%s/metrics\n", address)
	}
	fmt.Fprintf(stdout, "worker %s serves %s at %s\n", w.Name, c.prefix, c.url)
	<-ctx.Done()
	return nil
}

// startServer runs a NATS server at an address.
func startServer(address string) (*server.Server, error) {
	o := new(server.Options)
	host, port, ok := strings.Cut(address, ":")
	if _, err := fmt.Sscan(port, &o.Port); !ok || err != nil || o.Port < 0 || o.Port > 65535 {
		return nil, usageError{fmt.Errorf("-listen is %q, want host:port", address)}
	}
	o.Host = host
	return embedded.Start(o)
}

// defaultName is that of the machine, with something that no other process has.
func defaultName() string {
	host, _ := os.Hostname() // an empty one is as good
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '-'
	}, host)
	return name[:min(len(name), 48)] + "-" + strings.ToLower(rand.Text()[:8])
}
