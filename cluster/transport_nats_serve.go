package cluster

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// natsServer answers the requests to a worker.
type natsServer struct {
	Service
	link   *NATS
	worker string
	inbox  string // prefix of the subjects of replies
	name   *natsName
	stop   chan struct{}
	asked  chan struct{}  // somebody asks for announcements
	wg     sync.WaitGroup // of everything that runs, callbacks of the connection included
	staff  staff          // goroutines that answer

	mu       sync.Mutex
	stopped  bool                     // nothing new begins
	requests map[natsKey]*natsRequest // requests that arrive in pieces,
	bytes    int64                    // and all their bytes
	replies  map[natsKey]*flow        // replies that are sent in pieces
}

// natsKey identifies a call.
type natsKey struct {
	reply string
	id    uint64
}

type natsRequest struct {
	incoming
	last time.Time // when the last piece arrived
}

// assembling is the number of messages of the largest size that may arrive at the same time, and
// mostArriving the number of any size.
const (
	assembling   = 4
	mostArriving = 1024
)

// Serve implements [Transport].
func (t *NATS) Serve(worker string, service Service) (stop func(), err error) {
	if err := checkName("worker", worker); err != nil {
		return nil, err
	}
	s := &natsServer{Service: service, link: t, worker: worker, inbox: t.prefix + ".inbox.",
		stop: make(chan struct{}), asked: make(chan struct{}, 1),
		requests: map[natsKey]*natsRequest{}, replies: map[natsKey]*flow{}}
	s.staff = newStaff(s.stop)
	if s.name, err = t.takeName(worker, service.Every); err != nil {
		return nil, err
	}
	requests, err := t.subscribe(t.prefix+".worker."+worker, pendingBytes, func(m *nats.Msg) {
		s.unlessStopped(func() { s.receive(m) })
	})
	if err != nil {
		s.name.release()
		return nil, err
	}
	hello, err := t.subscribe(t.prefix+".hello", fewBytes, func(*nats.Msg) { wake(s.asked) })
	if err != nil {
		t.link.unsubscribe(requests)
		s.name.release()
		return nil, err
	}
	forget := t.link.whenBack(func() { wake(s.asked) })
	silence := sync.OnceFunc(func() {
		locked(&s.mu, func() { s.stopped = true })
		forget()
		t.link.unsubscribe(requests, hello)
	})
	s.wg.Go(s.announceAlways)
	s.wg.Go(func() {
		select {
		case <-s.stop:
		case <-s.name.lost:
			silence()
			s.Displaced(s.name.err)
		}
	})
	return func() {
		silence()
		close(s.stop)
		s.wg.Wait()
		s.name.release()
	}, nil
}

// unlessStopped runs a callback, for which stopping waits, unless stopping has begun.
func (s *natsServer) unlessStopped(f func()) {
	s.mu.Lock()
	if s.stopped {
		s.mu.Unlock()
		return
	}
	s.wg.Add(1)
	s.mu.Unlock()
	defer s.wg.Done()
	f()
}

func (s *natsServer) announce() { _ = s.link.publish(s.link.prefix+".status", "", s.Status()) }

// helloPause is the least time between announcements, however often they are requested.
const helloPause = 20 * time.Millisecond

// announceAlways announces the worker periodically, and on request.
func (s *natsServer) announceAlways() {
	tick := time.NewTicker(s.Every)
	defer tick.Stop()
	s.name.say()
	for {
		s.unlessStopped(s.announce) // clients would confuse a worker without its name
		select {
		case <-s.stop:
			return
		case <-time.After(min(s.Every, helloPause)):
		}
		select {
		case <-s.stop:
			return
		case <-s.name.lost:
			return
		case <-s.asked:
		case now := <-tick.C:
			s.name.say()
			s.forgetLate(now)
		}
	}
}

// forgetLate drops requests whose pieces have stopped arriving.
func (s *natsServer) forgetLate(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, r := range s.requests {
		if now.Sub(r.last) > ackPatience {
			s.forget(key)
		}
	}
}

// forget drops an incomplete request. The lock is held.
func (s *natsServer) forget(key natsKey) {
	if r := s.requests[key]; r != nil {
		s.bytes -= int64(r.total)
		delete(s.requests, key)
	}
}

// receive handles a frame that was sent to the worker.
func (s *natsServer) receive(m *nats.Msg) {
	f, err := decodeFrame(m.Data, s.link.most)
	if !strings.HasPrefix(m.Reply, s.inbox) { // so that nobody can make a worker write elsewhere
		err = fail(ErrProtocol, "no place for the reply")
		f.kind = 0
	}
	key := natsKey{m.Reply, f.id}
	switch {
	case err != nil:
		s.Malformed()
		if f.kind == kindRequest { // everything else was valid
			s.refuse(key, err)
		}
	case f.kind == kindAckReply:
		s.mu.Lock()
		if acks := s.replies[key]; acks != nil {
			acks.acknowledge(f.offset)
		}
		s.mu.Unlock()
	case f.kind != kindRequest:
		s.Malformed()
	case len(f.payload) == f.total:
		s.answer(key, f.payload)
	default:
		s.receivePiece(key, &f)
	}
}

func (s *natsServer) refuse(key natsKey, err error) {
	f := frame{kind: kindRefusal, id: key.id, payload: []byte(err.Error())}
	_ = s.link.publishFrame(key.reply, "", &f)
}

// receivePiece handles a piece of a request with several.
func (s *natsServer) receivePiece(key natsKey, f *frame) {
	s.mu.Lock()
	limit := assembling * int64(s.link.most)
	if f.offset == 0 && s.requests[key] == nil && s.bytes+int64(f.total) <= limit &&
		len(s.requests) < mostArriving {
		s.requests[key] = &natsRequest{incoming: incoming{total: f.total}}
		s.bytes += int64(f.total)
	}
	r, arriving, count := s.requests[key], s.bytes, len(s.requests)
	if r == nil || f.total != r.total {
		s.mu.Unlock()
		if f.offset == 0 {
			s.reply(key, errorReply(fail(ErrBusy, "%d requests of %d bytes in all are arriving, and one "+
				"of %d, want at most %d of %d bytes", count, arriving, f.total, mostArriving, limit)))
		}
		return
	}
	complete, err := r.add(f)
	arrived := len(r.data)
	r.last = time.Now()
	if complete || err != nil {
		s.forget(key)
	}
	s.mu.Unlock()
	if err != nil {
		s.Malformed()
		return
	}
	ack := frame{kind: kindAckRequest, id: f.id, total: f.total, offset: arrived}
	_ = s.link.publishFrame(key.reply, "", &ack)
	if complete {
		s.answer(key, r.data)
	}
}

// answer lets the worker handle a request, and sends the reply. Stopping waits for the callback
// that calls it.
func (s *natsServer) answer(key natsKey, request []byte) {
	s.wg.Add(1)
	s.staff.run(func() {
		defer s.wg.Done()
		s.Handle(request, func(reply []byte) { s.reply(key, reply) })
	})
}

// reply sends a reply. If that fails, the client asks again, or asks another worker.
func (s *natsServer) reply(key natsKey, message []byte) {
	if len(message) > s.link.most {
		s.refuse(key, fail(ErrLimit, "the reply has %d bytes, want at most %d, the limit of messages",
			len(message), s.link.most))
		return
	}
	acks := newFlow()
	if len(message) > s.link.piece() {
		locked(&s.mu, func() { s.replies[key] = &acks })
		defer func() {
			locked(&s.mu, func() { delete(s.replies, key) })
		}()
	}
	_ = s.link.send(context.Background(), s.stop, key.reply, "",
		frame{kind: kindReply, id: key.id}, message, &acks)
}
