package cluster

import "sync"

// flight counts the bytes that a worker has in memory for requests, decoded requests, states and
// replies.
type flight struct {
	limit int64

	mu    sync.Mutex
	bytes int64
}

// load is the share of one call in a flight. Without one, as on clients, nothing is counted.
type load struct {
	flight *flight
	bytes  int64 // bytes in all,
	made   int64 // of the decoded request,
	reply  int64 // and of the reply
}

// take counts some bytes before they are allocated, or returns an error if they are too many. A
// call that is alone may always have its request, states and reply, so that nothing is refused for
// ever.
func (l *load) take(bytes int64) error {
	if l == nil {
		return nil
	}
	f := l.flight
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.bytes > l.bytes && bytes > f.limit-f.bytes {
		return fail(ErrBusy, "requests, states and replies of %d bytes are here, and %d more are "+
			"wanted, want at most %d", f.bytes, bytes, f.limit)
	}
	f.bytes += bytes
	l.bytes += bytes
	return nil
}

// leastMade is the memory that any decoded request may have.
const leastMade = 16 << 20

// takeMade is take for a decoded request, which is larger than the request and also bounded for a
// call that is alone.
func (l *load) takeMade(bytes int64) error {
	if l == nil {
		return nil
	}
	if most := max(l.flight.limit, leastMade); bytes > most-l.made {
		return fail(ErrLimit, "a request of which %d bytes were made is %d more, want at most %d in all",
			l.made, bytes, most)
	}
	if err := l.take(bytes); err != nil {
		return err
	}
	l.made += bytes
	return nil
}

// takeReply is take for a reply.
func (l *load) takeReply(bytes int64) error {
	err := l.take(bytes)
	if err == nil {
		l.reply += bytes
	}
	return err
}

// add counts bytes that are allocated already.
func (l *load) add(bytes int64) {
	l.flight.mu.Lock()
	defer l.flight.mu.Unlock()
	l.flight.bytes += bytes
	l.bytes += bytes
}

// end is called when the call has freed its memory.
func (l *load) end() { l.add(-l.bytes) }
