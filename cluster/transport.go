package cluster

import (
	"context"
	"time"
)

// Transport carries messages between clients and workers, which may be of any length up to a limit
// of the transport. It is safe for concurrent use.
type Transport interface {
	// Call sends a request to a worker and returns what it answers. The worker may get the request
	// and the answer be lost, and it may get it twice: requests are made so that this is no harm. When
	// it returns, the transport has no more need of the request.
	Call(ctx context.Context, worker string, request []byte) (reply []byte, err error)
	// Serve answers the requests to a worker until stop is called, which waits for those that are
	// being answered. It returns [ErrTaken] if another worker has the name.
	Serve(worker string, s Service) (stop func(), err error)
	// Watch calls each with the announcements of all workers until stop is called, one at a time.
	// It asks all workers to announce themselves at once.
	Watch(each func(status []byte)) (stop func(), err error)
}

// asker is a Transport that needs no goroutine for a call.
type asker interface {
	// ask is Call, but calls ended with what that returns: once, perhaps before it returns, and on a
	// goroutine that is not to wait. It has no more need of the request when it returns. It reports
	// whether it has begun, and has done nothing if not: Call does then, or says what is wrong.
	ask(ctx context.Context, worker string, request []byte,
		ended func(reply []byte, err error)) bool
}

// linked is a Transport that knows when it reaches nobody.
type linked interface {
	// outage is how long there has been no connection, 0 if there is one, and when there was one again
	// after the last time that there was none.
	outage() (away time.Duration, again time.Time)
}

// outageOf is the outage of a transport: never, of one that does not know.
func outageOf(t Transport) (away time.Duration, again time.Time) {
	if l, ok := t.(linked); ok {
		return l.outage()
	}
	return 0, time.Time{}
}

// limited is a Transport that does not take messages of any length.
type limited interface {
	// mostBytes is the length of the largest message.
	mostBytes() int
}

// Service is what a worker gives a [Transport].
type Service struct {
	// Handle answers a request, on a goroutine of its own. Send may be called once; it returns when
	// the transport has no more need of the reply.
	Handle func(request []byte, send func(reply []byte))
	// Status is what to announce, and Every how often.
	Status func() []byte
	Every  time.Duration
	// Malformed is called for each message that is none.
	Malformed func()
	// Displaced is called, once, if another worker turns out to have the name, as it may after servers
	// could not reach each other: no more requests are answered.
	Displaced func(error)
}
