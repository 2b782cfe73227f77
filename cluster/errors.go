package cluster

import (
	"errors"
	"fmt"
	"strings"

	"github.com/seed-1415985d/attn"
)

// Errors of this package wrap one of these, or an error of package attn: [attn.ErrShape],
// [attn.ErrLength], [attn.ErrOption], [attn.ErrUnsupported] for arguments, [attn.ErrCapacity] for
// workers without memory, [attn.ErrClosed] after Release and Close.
var (
	// ErrLost: tokens are gone, because no copy of them is left. It is a [*LostError].
	ErrLost = errors.New("cluster: tokens are lost")
	// ErrUnavailable: no worker could do it in time.
	ErrUnavailable = errors.New("cluster: unavailable")
	// ErrBusy: a worker has as many calls as it allows.
	ErrBusy = errors.New("cluster: busy")
	// ErrLimit: a request is larger, or asks for more, than a worker or a transport allows.
	ErrLimit = errors.New("cluster: over a limit")
	// ErrProtocol: a message is not one of this version of the protocol.
	ErrProtocol = errors.New("cluster: malformed message")
	// ErrTaken: another worker has the name.
	ErrTaken = errors.New("cluster: the name is taken")
	// ErrInternal: a worker failed for another reason.
	ErrInternal = errors.New("cluster: internal error")

	// errUnknown: a worker has no such copy. It restarted without its memory, or the lease ended.
	errUnknown = errors.New("cluster: unknown copy")
	// errStale: a copy has other tokens than the client expects.
	errStale = errors.New("cluster: stale copy")
	// errNobody: nobody listens at a worker's name.
	errNobody = fmt.Errorf("%w: the worker is not there", ErrUnavailable)
	// errDenied: the transport may not send there.
	errDenied = errors.New("cluster: not permitted")
)

// fail returns an error of a kind.
func fail(kind error, format string, args ...any) error {
	return fmt.Errorf("%w: %s", kind, fmt.Sprintf(format, args...))
}

// LostError says which tokens of a sequence are lost: no copy of them is left.
type LostError struct {
	Sequence uint64 // as Sequence.ID returns it
	From, To int    // positions [From, To)
	Cause    error  // what happened to the last copy
}

func (e *LostError) Error() string {
	return fmt.Sprintf("%v: positions %d to %d of sequence %x have no copy left: %v", ErrLost,
		e.From, e.To-1, e.Sequence, e.Cause)
}

// Unwrap returns [ErrLost] and the cause.
func (e *LostError) Unwrap() []error { return []error{ErrLost, e.Cause} }

// codes are the kinds of errors in messages: the code is the index. Append new ones at the end.
var codes = []error{
	nil, ErrProtocol, errUnknown, errStale, attn.ErrCapacity, ErrBusy, attn.ErrShape, attn.ErrLength,
	attn.ErrOption, attn.ErrUnsupported, attn.ErrMemory, attn.ErrClosed, ErrInternal, ErrLimit,
	ErrUnavailable,
}

const (
	codeOK       = 0
	codeInternal = 12
	maxErrorText = 1024
)

// codeOf returns the code of an error's kind.
func codeOf(err error) uint8 {
	if err == nil {
		return codeOK
	}
	for i, kind := range codes[1:] {
		if errors.Is(err, kind) {
			return uint8(i + 1)
		}
	}
	return codeInternal
}

// remoteError is an error of a worker.
type remoteError struct {
	worker, text string
	kind         error
}

// newRemoteError returns an error for a worker's code and text, which may be anything.
func newRemoteError(worker string, code uint8, text string) error {
	kind := ErrInternal
	if code > 0 && int(code) < len(codes) {
		kind = codes[code]
	}
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	return &remoteError{worker, text, kind}
}

func (e *remoteError) Error() string { return "worker " + e.worker + ": " + e.text }
func (e *remoteError) Unwrap() error { return e.kind }

// refuses reports whether a worker will never accept a request: it finds it malformed, as it would
// each time, or it must not be sent. A reply that the client cannot read may be readable the next
// time.
func refuses(err error) bool {
	var remote *remoteError
	return errors.Is(err, errDenied) || errors.As(err, &remote) && errors.Is(remote, ErrProtocol)
}

// transient reports whether the same request may work later, or elsewhere.
func transient(err error) bool {
	if refuses(err) {
		return false
	}
	for _, kind := range []error{ErrUnavailable, ErrBusy, ErrProtocol, errNobody, ErrInternal} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}
