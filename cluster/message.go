package cluster

import "fmt"

// A request begins with the magic number, whose last byte is the version, and with its kind. A
// reply begins with the same number and a code, 0 for success; any other code is followed by a
// text.
const (
	messageMagic   = 0x6d4361 | messageVersion<<24 // "aCm\x08"
	messageVersion = 8
)

// Kinds of requests.
const (
	opCreate = 1 + iota
	opStep
	opRelease
	opRenew
	opRead
	opCopy
	opStatus
	ops
)

// clientID identifies the owner of copies. It is random, so that nobody else can name a client's
// copies.
type clientID [16]byte

func (c *codec) client(id *clientID) {
	if b := c.next(len(id)); c.mode == reads {
		copy(id[:], b)
	} else {
		copy(b, id[:])
	}
}

// magic is the beginning of messages.
func (c *codec) magic(what string) {
	if magic := c.number(messageMagic, 4); magic != messageMagic {
		c.refuse("%s begins with %08x, want %08x: version %d", what, magic, messageMagic,
			messageVersion)
	}
}

// requestHead is the beginning of a request.
type requestHead struct {
	op     uint8
	client clientID
	body
}

func (r *requestHead) wire(c *codec) {
	c.magic("a request")
	if c.u8(&r.op); c.mode == reads && (r.op < opCreate || r.op >= ops) {
		c.refuse("a request asks for %d, want 1 to %d", r.op, ops-1)
	}
	if c.client(&r.client); c.mode != reads {
		r.body.wire(c)
	}
}

func encodeRequest(op uint8, client clientID, r body) []byte {
	return write(&requestHead{op, client, r}, newBuffer)
}

// decodeRequest reads the beginning of a request.
func decodeRequest(data []byte) (op uint8, client clientID, d *codec) {
	var r requestHead
	d = &codec{mode: reads, data: data}
	r.wire(d)
	return r.op, r.client, d
}

// replyHead is the beginning of a reply: an error, or none.
type replyHead struct {
	err error
	body
}

func (r *replyHead) wire(c *codec) {
	c.magic("a reply")
	if c.fault(&r.err); c.mode != reads && r.err == nil {
		r.body.wire(c)
	}
}

func encodeReply(r body) []byte { return write(&replyHead{nil, r}, newBuffer) }

// errorReply returns a reply with an error.
func errorReply(err error) []byte { return write(&replyHead{err, nil}, newBuffer) }

// decodeReply reads the beginning of a reply, and returns the worker's error if it has one.
func decodeReply(worker string, data []byte) (*codec, error) {
	var r replyHead
	d := &codec{mode: reads, data: data, worker: worker}
	if r.wire(d); d.err != nil {
		return nil, fmt.Errorf("worker %s: %w", worker, d.err)
	}
	return d, r.err
}

// fault is an error, or nil.
func (c *codec) fault(err *error) {
	code := codeOf(*err)
	if c.u8(&code); code == codeOK {
		return
	}
	text := ""
	if c.mode != reads {
		text = (*err).Error()
		text = text[:min(len(text), maxErrorText)]
	}
	if c.text(&text, maxErrorText); c.mode == reads && c.err == nil {
		*err = newRemoteError(c.worker, code, text)
	}
}
