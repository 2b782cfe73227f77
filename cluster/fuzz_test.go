package cluster

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/seed-1415985d/attn"
)

// samples are messages of each kind.
func samples() [][]byte {
	id := clientID{1, 2, 3}
	o := &attn.Options{Scale: 1, Causal: attn.TopLeft, Window: attn.Window{Left: 4, Right: 0},
		Slopes: []float32{1}, Sinks: []float32{2}}
	part := attendPart{copy: 1, epoch: 0, keys: 2, mask: []bool{true, false},
		blocks: []bool{true}}
	next := attendPart{copy: 2, keys: 1, before: 3,
		mask: []bool{true}, blocks: []bool{true}}
	status := Status{Worker: "w", Memory: 5, Kernels: "generic"}
	append := appendRequest{copy: 1, pieces: []tokenPiece{{tokens: 2, k: make([]byte, 16),
		v: make([]byte, 16)}}}
	attend := attendRequest{heads: 1, rows: 1, q: []float32{1, 2}, options: o,
		pairs:  pairHeads{mask: 1, blocks: 1},
		groups: []attendGroup{{offset: 1, parts: []attendPart{part, next}, after: 5}}}
	whole := attend
	whole.whole = true
	reply := attendReply{nil, []groupReply{{[]byte{1, 2}, []error{nil}}, {nil, []error{nil, ErrBusy}}}}
	cut := truncateRequest{1, 1, 0, []uint32{1, 0}}
	return [][]byte{
		(&createRequest{copy: 1, tokens: 1024, lease: 1000, shape: shape{2, 1, 2, 2, attn.F32, attn.F32,
			false}}).encode(id),
		append.encode(id), attend.encode(id),
		cut.encode(id),
		(&releaseRequest{[]uint64{1, 2}}).encode(id),
		(&renewRequest{1000, 3, []uint64{1}}).encode(id),
		(&readRequest{1, 0, 0, 0}).encode(id),
		(&copyRequest{1, 0, "w", 1}).encode(id),
		encodeRequest(opStatus, id, nothing{}),
		(&stepRequest{[]truncateRequest{cut}, []appendRequest{append, append},
			[]attendRequest{attend, attend}}).encode(id),
		encodeReply(&stepReply{[]changeReply{{3, nil}, {0, ErrBusy}}, []attendReply{reply,
			{err: ErrLimit}}}),
		whole.encode(id), status.encode(), encodeReply(&reply), errorReply(ErrBusy),
		encodeReply(&copyReply{[]uint32{1}}), encodeReply(&renewReply{[]uint64{1}}),
		encodeReply(&readReply{0, 1, []byte{1}}),
		(&frame{kind: kindRequest, id: 3, total: 5, payload: []byte("hello")}).append(nil),
		(&frame{kind: kindReply, id: 3, total: 5, offset: 2, payload: []byte("llo")}).append(nil),
	}
}

func seeds(f *testing.F) {
	f.Add((&nameClaim{true, 1, 2}).encode())
	for _, x := range samples() {
		f.Add(x)
	}
	f.Add([]byte{})
}

// FuzzReadFrame reads what may be a frame. One that is read is written again as it was.
func FuzzReadFrame(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		x, err := decodeFrame(data, 1<<16)
		if err != nil {
			return
		}
		if string(x.append(nil)) != string(data) {
			t.Fatal("the frame is written in another way")
		}
		var in incoming
		if complete, err := in.add(&x); err == nil && complete != (len(in.data) == x.total) {
			t.Fatalf("%d bytes of %d, complete: %v", len(in.data), x.total, complete)
		}
	})
}

// FuzzReadReply reads what may be an answer of each kind.
func FuzzReadReply(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		if s, err := decodeStatus(data); err == nil {
			if again, err := decodeStatus(s.encode()); err != nil || again != s {
				t.Fatalf("%+v is %+v when it is read again: %v", s, again, err)
			}
		}
		if c, err := decodeNameClaim(data); err == nil && string(c.encode()) != string(data) {
			t.Fatalf("%+v is written in another way", c)
		}
		step := replyTo(&stepRequest{appends: make([]appendRequest, 2),
			attends: []attendRequest{{groups: apart(attendPart{}, attendPart{})},
				{groups: []attendGroup{{parts: make([]attendPart, 2)}}}}})
		for _, x := range []body{&step, new(readReply), new(copyReply), new(renewReply)} {
			if d, err := decodeReply("w", data); err == nil {
				_ = d.read(x) // whatever it is, it ends
			}
		}
	})
}

// loop is a transport to one worker in this process.
type loop struct{ Service }

func (l *loop) Call(_ context.Context, _ string, request []byte) (reply []byte, err error) {
	l.Handle(request, func(x []byte) { reply = bytes.Clone(x) })
	return reply, nil
}

func (l *loop) Serve(_ string, s Service) (func(), error) {
	l.Service = s
	return func() {}, nil
}

func (l *loop) Watch(each func([]byte)) (func(), error) {
	each(l.Status())
	return func() {}, nil
}

// FuzzReadRequest sends a worker messages that may be requests, after some valid ones. The worker
// answers each, within its bounds of memory.
func FuzzReadRequest(f *testing.F) {
	seeds(f)
	l := new(loop)
	w, err := NewWorker(l, WorkerConfig{Name: "w", Memory: 1 << 20, Threads: 1, Lease: time.Hour})
	must(f, err)
	f.Cleanup(w.Close)
	begin := samples()[:2]
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, request := range append(begin, data) {
			reply, err := l.Call(context.Background(), "w", request)
			if err != nil || len(reply) < 5 {
				t.Fatalf("the answer is %x, %v", reply, err)
			}
			if used := w.Status().Used; used > 1<<20 {
				t.Fatalf("%d bytes are used", used)
			}
		}
		w.mu.Lock()
		var all []clientID
		for id := range w.clients {
			all = append(all, id)
		}
		w.mu.Unlock()
		for _, id := range all {
			w.drop(id)
		}
		if s := w.Status(); s.Used != 0 || s.Copies != 0 || w.kept.layers != 0 {
			t.Fatalf("%+v is left, and %d layers", s, w.kept.layers)
		}
	})
}
