package main

import (
	"flag"
	"fmt"
	"math"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/nats-io/nats.go"

	"github.com/seed-1415985d/attn/cluster"
	"github.com/seed-1415985d/attn/internal/flags"
)

// connection holds the flags for the connection to NATS.
type connection struct {
	url, prefix       string
	creds, nkey       string
	ca, cert, certKey string
	message           byteCount
	ping              time.Duration
	pings             int
}

func (c *connection) register(fs *flag.FlagSet) {
	fs.StringVar(&c.url, "url", nats.DefaultURL, "`addresses` of NATS servers, separated by commas; "+
		"with user:password@ if they require it, tls:// for TLS")
	fs.StringVar(&c.prefix, "prefix", "attn", "first `tokens` of all subjects, one for each tenant")
	fs.StringVar(&c.creds, "creds", "", "`file` with credentials: a JWT and its seed")
	fs.StringVar(&c.nkey, "nkey", "", "`file` with the seed of an nkey")
	fs.StringVar(&c.ca, "tls-ca", "", "`file` with the certificates of trusted authorities")
	fs.StringVar(&c.cert, "tls-cert", "", "`file` with the client certificate, with -tls-key")
	fs.StringVar(&c.certKey, "tls-key", "", "`file` with the key of -tls-cert")
	fs.Var(&c.message, "message", "`bytes` of the largest request or reply (default 64 MiB)")
	fs.DurationVar(&c.ping, "ping", 0, "`time` between pings of the NATS server "+
		"(default 3s)")
	fs.IntVar(&c.pings, "pings", 0, "`number` of unanswered pings after which another server is "+
		"tried, when the next ping is due (default 2)")
}

// dial connects. The server's monitoring shows the name.
func (c *connection) dial(name string, more ...nats.Option) (*cluster.NATS, error) {
	options, err := c.options()
	if err != nil {
		return nil, err
	}
	link, err := cluster.DialNATS(cluster.NATSConfig{URL: c.url, Prefix: c.prefix,
		Options: append(append(options, nats.Name(name)), more...), MaxMessage: c.message.int(),
		Ping: c.ping, Pings: c.pings})
	if err != nil {
		return nil, err
	}
	if err := c.refusal(link); err != nil {
		_ = link.Close() // which never fails
		return nil, err
	}
	return link, nil
}

// options returns the options with the identity of the client.
func (c *connection) options() (options []nats.Option, err error) {
	if c.creds != "" {
		options = append(options, nats.UserCredentials(c.creds))
	}
	if c.nkey != "" {
		key, err := nats.NkeyOptionFromSeed(c.nkey)
		if err != nil {
			return nil, fmt.Errorf("-nkey %s: %w", c.nkey, err)
		}
		options = append(options, key)
	}
	if c.ca != "" {
		options = append(options, nats.RootCAs(c.ca))
	}
	if (c.cert == "") != (c.certKey == "") {
		return nil, flags.Errorf("-tls-cert is %q and -tls-key %q, want both or none", c.cert, c.certKey)
	}
	if c.cert != "" {
		options = append(options, nats.ClientCert(c.cert, c.certKey))
	}
	return options, nil
}

// refusal returns what the server has refused so far, such as a subscription to the prefix.
func (c *connection) refusal(link *cluster.NATS) error {
	err := link.Conn().Flush()
	if last := link.Conn().LastError(); last != nil {
		err = last
	}
	if err != nil {
		return fmt.Errorf("prefix %s at %s: %w", c.prefix, cluster.Redact(c.url), err)
	}
	return nil
}

// byteCount is a flag such as 8GiB, 500MB or 4096.
type byteCount int64

func (b *byteCount) Set(s string) error {
	n, err := humanize.ParseBytes(s)
	if err != nil || n >= 1<<62 {
		return fmt.Errorf("want a number of bytes like 8GiB, 500MB or 4096")
	}
	*b = byteCount(n)
	return nil
}

// int returns the number, or the largest int, which its user refuses.
func (b byteCount) int() int { return int(min(b, math.MaxInt)) }

// String is empty for zero, which stands for a default.
func (b *byteCount) String() string {
	if *b == 0 {
		return ""
	}
	return humanize.IBytes(uint64(*b))
}

// size formats bytes for people.
func size[T int | int64 | uint64](n T) string { return humanize.IBytes(uint64(max(0, n))) }
