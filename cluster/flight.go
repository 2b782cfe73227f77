package cluster

import "sync"

// flight is how many bytes a worker has at the same time of requests, of what is made of them, of
// states and of replies.
type flight struct {
	limit int64

	mu    sync.Mutex
	bytes int64
}

// load is what one call has of a flight. Who has none, as clients, counts nothing.
type load struct {
	flight *flight
	bytes  int64 // in all,
	made   int64 // of what is made of the request,
	reply  int64 // and of the reply
}

// take counts some bytes before they are there, or says that there are too many. The request of
// who is alone, its states and its reply are always taken, so nothing is refused for ever.
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

// leastMade is how much may be made of any request.
const leastMade = 16 << 20

// takeMade is take for what is made of a request, which is larger than that and bounded for who is
// alone, too.
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

// add counts bytes that are there already.
func (l *load) add(bytes int64) {
	l.flight.mu.Lock()
	defer l.flight.mu.Unlock()
	l.flight.bytes += bytes
	l.bytes += bytes
}

// end is called when nothing of the call is left.
func (l *load) end() { l.add(-l.bytes) }
