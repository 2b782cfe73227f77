package main

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/seed-1415985d/attn/internal/flags"
)

// TestPings makes sure that servers that hang are given up before leases end, and that flags say
// when.
func TestPings(t *testing.T) {
	url := startServer(t, server.Options{})
	for _, x := range []struct {
		args string
		ping time.Duration
		most int
	}{{"", 3 * time.Second, 2}, {"-ping 1s -pings 4", time.Second, 4}} {
		var c connection
		fs := flags.New("")
		c.register(fs)
		must(t, flags.ParseAll(fs, append(strings.Fields(x.args), "-url", url), nil))
		link, err := c.dial("test")
		must(t, err)
		if o := link.Conn().Opts; o.PingInterval != x.ping || o.MaxPingsOut != x.most {
			t.Errorf("%q: a ping each %v, %d without an answer, want %v and %d", x.args, o.PingInterval,
				o.MaxPingsOut, x.ping, x.most)
		}
		must(t, link.Close())
	}
	refused(t, "Ping is -1s and Pings 2, want at least 1ms and 1", "status", "-url", url, "-ping",
		"-1s")
}
