package cluster

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/seed-1415985d/attn/cluster/embedded"
)

// permissions returns the permissions in docs/cluster.md for a prefix.
func permissions(prefix string, worker bool) *server.Permissions {
	p := &server.Permissions{
		Publish: &server.SubjectPermission{Allow: []string{prefix + ".worker.*", prefix + ".hello"}},
		Subscribe: &server.SubjectPermission{Allow: []string{prefix + ".inbox.>",
			prefix + ".status"}},
	}
	if worker {
		p.Publish.Allow = []string{prefix + ".inbox.>", prefix + ".status", prefix + ".worker.*"}
		p.Subscribe.Allow = []string{prefix + ".worker.*", prefix + ".hello", prefix + ".inbox.>"}
	}
	return p
}

// A client without permission, one of another prefix, and one of another account get nothing.
func TestTenants(t *testing.T) {
	t.Parallel()
	one, two := server.NewAccount("one"), server.NewAccount("two")
	s, err := embedded.Start(&server.Options{Accounts: []*server.Account{one, two},
		Users: []*server.User{
			{Username: "worker", Password: "w", Account: one, Permissions: permissions("a", true)},
			{Username: "client", Password: "c", Account: one, Permissions: permissions("a", false)},
			{Username: "other", Password: "o", Account: one, Permissions: permissions("b", false)},
			{Username: "account", Password: "x", Account: two},
		}})
	must(t, err)
	defer embedded.Stop(s)
	dial := func(user, password, prefix string) *NATS {
		link, err := DialNATS(NATSConfig{URL: s.ClientURL(), Prefix: prefix,
			Options: []nats.Option{nats.UserInfo(user, password),
				nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})}})
		must(t, err)
		t.Cleanup(func() { _ = link.Close() })
		return link
	}
	w, err := NewWorker(dial("worker", "w", "a"), WorkerConfig{Name: "w", Memory: 1 << 24, Threads: 1})
	must(t, err)
	defer w.Close()
	ask := func(link *NATS, patience time.Duration) error {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_, err := link.Call(ctx, "w", samples()[8])
		return err
	}
	must(t, ask(dial("client", "c", "a"), time.Minute))
	for _, x := range []struct{ user, password, prefix string }{
		{"other", "o", "b"}, {"other", "o", "a"}, {"account", "x", "a"}} {
		calls := w.Status().Calls
		link := dial(x.user, x.password, x.prefix)
		err := ask(link, 2*time.Second)
		if !errors.Is(err, errNobody) && !errors.Is(err, ErrUnavailable) {
			t.Errorf("%v: the error is %v", x, err)
		}
		c, err := NewClient(link, quick)
		if err == nil {
			ctx, cancel := context.WithTimeout(context.Background(), 1500*time.Millisecond)
			if c.Wait(ctx, 1) == nil {
				t.Errorf("%v: the client has found a worker", x)
			}
			cancel()
			c.Close()
		}
		if w.Status().Calls != calls {
			t.Errorf("%v: the worker was called", x)
		}
	}
	if _, err := DialNATS(NATSConfig{URL: s.ClientURL(), Prefix: "a"}); err == nil {
		t.Error("a client without a name may connect")
	}
	hostile(t, dial("client", "c", "a"), w)
	must(t, ask(dial("client", "c", "a"), time.Minute))
}

// hostile sends what is no message, and what is larger than it may be.
func hostile(t *testing.T, link *NATS, w *Worker) {
	before := w.Status().Malformed
	to, reply := "a.worker.w", link.inbox+"x"
	huge := frame{kind: kindRequest, id: 1, total: 1<<30 + 1, payload: []byte("x")}
	for _, data := range [][]byte{nil, []byte("garbage"), make([]byte, 1<<19), huge.append(nil),
		(&frame{kind: kindReply, id: 1}).append(nil), (&frame{kind: kindAckReply, id: 9}).append(nil)} {
		must(t, link.conn.PublishRequest(to, reply, data))
	}
	for i := range 64 { // only a few of these are waited for, and hold only what has come
		f := frame{kind: kindRequest, id: uint64(i), total: 60 << 20, payload: make([]byte, 1000)}
		must(t, link.conn.PublishRequest(to, reply, f.append(nil)))
	}
	must(t, link.conn.PublishRequest(to, "elsewhere", samples()[15]))
	must(t, link.conn.Flush())
	b := &bench{TB: t}
	b.eventually("6 malformed messages are counted", func() bool {
		return w.Status().Malformed >= before+6
	})
}
