package cluster

import (
	"context"
	"time"
)

// Transport carries messages of any length up to its limit between clients and workers. It is safe
// for concurrent use.
type Transport interface {
	// Call sends a request to a worker and returns the reply. The reply to a received request may be
	// lost, and a request may be received twice; requests tolerate both. When Call returns, the caller
	// may reuse the request.
	Call(ctx context.Context, worker string, request []byte) (reply []byte, err error)
	// Serve answers the requests to a worker until stop is called, which waits for running ones. It
	// returns [ErrTaken] if another worker has the name.
	Serve(worker string, s Service) (stop func(), err error)
	// Watch calls each with the announcements of all workers until stop is called, one at a time.
	// It asks all workers to announce themselves at once.
	Watch(each func(status []byte)) (stop func(), err error)
}

// asker is a Transport whose calls need no goroutine.
type asker interface {
	// ask is Call that passes the result to ended: once, perhaps before ask returns, on a goroutine
	// that must not wait. The caller may reuse the request when ask returns. It reports whether it has
	// begun; if not, it has done nothing, and Call makes the call or returns the error.
	ask(ctx context.Context, worker string, request []byte,
		ended func(reply []byte, err error)) bool
}

// linked is a Transport that knows whether it has a connection.
type linked interface {
	// outage returns how long there has been no connection, 0 if there is one, and when the last
	// outage ended.
	outage() (away time.Duration, again time.Time)
}

// outageOf returns the outage of a transport: none, for one that does not know.
func outageOf(t Transport) (away time.Duration, again time.Time) {
	if l, ok := t.(linked); ok {
		return l.outage()
	}
	return 0, time.Time{}
}

// limited is a Transport with a limit of the length of messages.
type limited interface {
	// mostBytes returns the length of the largest message.
	mostBytes() int
}

// Service is the worker's side of a [Transport].
type Service struct {
	// Handle answers a request, on its own goroutine. It may call send once; send returns when the
	// reply may be reused.
	Handle func(request []byte, send func(reply []byte))
	// Status returns the announcement, and Every is the time between announcements.
	Status func() []byte
	Every  time.Duration
	// Malformed is called for each invalid message.
	Malformed func()
	// Displaced is called, once, if another worker turns out to have the name, as is possible after
	// servers could not reach each other: no more requests are answered.
	Displaced func(error)
}
