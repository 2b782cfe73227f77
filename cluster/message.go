package cluster

// A request begins with the magic number, whose last byte is the version, and with what it asks
// for. A reply begins with the same number and a code, 0 where it worked; a text follows any other
// code.
const (
	messageMagic   = 0x6d4361 | messageVersion<<24 // "aCm\x07"
	messageVersion = 7
)

// What requests ask for.
const (
	opCreate = 1 + iota
	opAppend
	opAttend
	opTruncate
	opRelease
	opRenew
	opRead
	opCopy
	opStatus
	opStep
	ops
)

// clientID is who a copy belongs to. It is random, so that nobody can name a client's copies.
type clientID [16]byte

func (e *encoder) client(id clientID) { e.data = append(e.data, id[:]...) }

func (d *decoder) client() (id clientID) {
	copy(id[:], d.take(len(id)))
	return id
}

// beginRequest starts a request.
func beginRequest(op uint8, client clientID) *encoder {
	e := new(encoder)
	e.begin(op, client)
	return e
}

func (e *encoder) begin(op uint8, client clientID) {
	e.u32(messageMagic)
	e.u8(op)
	e.client(client)
}

// decodeRequest reads the beginning of a request.
func decodeRequest(data []byte) (op uint8, client clientID, d *decoder) {
	d = &decoder{data: data}
	if magic := d.u32(); magic != messageMagic {
		d.refuse("a request begins with %08x, want %08x: version %d", magic, messageMagic,
			messageVersion)
	}
	op = d.u8()
	if op < opCreate || op >= ops {
		d.refuse("a request asks for %d, want 1 to %d", op, ops-1)
	}
	return op, d.client(), d
}

// beginReply starts a reply that it worked.
func beginReply() *encoder {
	e := new(encoder)
	e.ok()
	return e
}

func (e *encoder) ok() {
	e.u32(messageMagic)
	e.u8(codeOK)
}

// errorReply is a reply that it did not.
func errorReply(err error) []byte {
	e := new(encoder)
	e.u32(messageMagic)
	e.fault(err)
	return e.data
}

// fault writes an error, or that there is none.
func (e *encoder) fault(err error) {
	e.u8(codeOf(err))
	if err != nil {
		text := err.Error()
		e.text(text[:min(len(text), maxErrorText)])
	}
}

// faultSize is how many bytes fault writes at most.
func faultSize(err error) int {
	if err == nil {
		return 1
	}
	return 5 + min(len(err.Error()), maxErrorText)
}

// fault reads what fault wrote, of a worker.
func (d *decoder) fault(worker string) error {
	code := d.u8()
	if code == codeOK || d.err != nil {
		return d.err
	}
	text := d.text(maxErrorText)
	if d.err != nil {
		return d.err
	}
	return newRemoteError(worker, code, text)
}

// decodeReply reads the beginning of a reply, which is an error if that is what the worker says.
func decodeReply(worker string, data []byte) (*decoder, error) {
	d := &decoder{data: data}
	if magic := d.u32(); magic != messageMagic {
		d.refuse("worker %s: a reply begins with %08x, want %08x: version %d", worker, magic,
			messageMagic, messageVersion)
	}
	if err := d.fault(worker); err != nil {
		return nil, err
	}
	return d, nil
}
