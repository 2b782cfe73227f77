package cluster

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// A worker that goes on sending pieces after its reply is whole changes nothing of what the caller
// has: neither where the reply came in pieces nor where it was one.
func TestLateFrames(t *testing.T) {
	b := newBench(t, 0, quick)
	link := b.dial()
	reply := bytes.Repeat([]byte{1}, 16000)
	for _, size := range []int{4000, len(reply)} {
		s, err := link.conn.Subscribe("attn.worker.hostile", func(m *nats.Msg) {
			f, err := decodeFrame(m.Data, 1<<20)
			if err != nil || f.kind != kindRequest {
				return // it does not wait for acknowledgements either
			}
			sendPieces(link, m.Reply, f.id, reply, size)
			for range 20 {
				sendPieces(link, m.Reply, f.id, bytes.Repeat([]byte{2}, len(reply)), 4000)
			}
		})
		must(t, err)
		must(t, link.conn.Flush())
		for range 50 {
			got, err := b.client.transport.Call(context.Background(), "hostile", []byte{7})
			must(t, err)
			time.Sleep(2 * time.Millisecond) // for what comes late
			if !bytes.Equal(got, reply) {
				t.Fatalf("in pieces of %d bytes: the reply was changed after it was returned", size)
			}
		}
		must(t, s.Unsubscribe())
	}
}

// sendPieces sends a reply in pieces of a size.
func sendPieces(t *NATS, to string, id uint64, reply []byte, size int) {
	for at := 0; at < len(reply); at += size {
		f := frame{kind: kindReply, id: id, total: len(reply), offset: at,
			payload: reply[at:min(at+size, len(reply))]}
		_ = t.conn.Publish(to, f.append(nil))
	}
}

// A worker that is receiving as much as it may says that it is busy, not that it will never accept
// more.
func TestArriving(t *testing.T) {
	b := newBench(t, 1, quick)
	link := b.dial()
	for id := range uint64(assembling) {
		f := frame{kind: kindRequest, id: id, total: link.most, payload: make([]byte, 1000)}
		must(t, link.conn.PublishRequest("attn.worker.w0", link.inbox+"x", f.append(nil)))
	}
	must(t, link.conn.Flush())
	reply, err := link.Call(context.Background(), "w0", make([]byte, 10*pieceSize))
	must(t, err)
	_, err = decodeReply("w0", reply)
	refusal{ErrBusy, "4 requests of 268435456 bytes in all are arriving"}.check(t, "one more", err)
}

// So is their number: of small ones, what is noted about each is more than its bytes.
func TestArrivingAreFew(t *testing.T) {
	b := newBench(t, 1, quick)
	link := b.dial()
	for id := range uint64(mostArriving) {
		f := frame{kind: kindRequest, id: id, total: 2, payload: make([]byte, 1)}
		must(t, link.conn.PublishRequest("attn.worker.w0", link.inbox+"x", f.append(nil)))
	}
	must(t, link.conn.Flush())
	reply, err := link.Call(context.Background(), "w0", make([]byte, 10*pieceSize))
	must(t, err)
	_, err = decodeReply("w0", reply)
	refusal{ErrBusy, "1024 requests of 2048 bytes in all are arriving"}.check(t, "one more", err)
}
