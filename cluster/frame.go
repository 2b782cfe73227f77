package cluster

import (
	"encoding/binary"
	"hash/crc32"
)

// Frames are the messages of a transport with a bounded message size. A message that fits is one
// frame; a larger one is sent in pieces, each with its offset. The receiver acknowledges each
// piece, except of messages with a single one, and the sender has at most a window of
// unacknowledged bytes: that is the flow control.
//
//	u32    frameMagic; its last byte is the version
//	u32    CRC-32C of all bytes after it
//	u64    id of the call, chosen by who calls
//	u8     kind
//	3 × u8 zero
//	u32    length of the whole message
//	u32    offset of the piece; in an acknowledgement, the bytes that have arrived
//	bytes  the piece; in a refusal, why; for a name, who claims it
const (
	frameMagic  = 0x016c4361 // "aCl\x01"
	frameHeader = 28
)

const (
	kindRequest = 1 + iota
	kindReply
	kindAckRequest // pieces of a request have arrived
	kindAckReply   // pieces of a reply have arrived
	kindRefusal    // the worker refuses a request
	kindName       // a worker asks who has its name, or says since when it has it
	kinds
)

// frame is one piece of a message, or a message about pieces.
type frame struct {
	kind    uint8
	id      uint64
	total   int // bytes of the whole message
	offset  int
	payload []byte
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// append writes the frame.
func (f *frame) append(to []byte) []byte {
	at := len(to)
	to = binary.LittleEndian.AppendUint32(to, frameMagic)
	to = binary.LittleEndian.AppendUint32(to, 0)
	to = binary.LittleEndian.AppendUint64(to, f.id)
	to = append(to, f.kind, 0, 0, 0)
	to = binary.LittleEndian.AppendUint32(to, uint32(f.total))
	to = binary.LittleEndian.AppendUint32(to, uint32(f.offset))
	to = append(to, f.payload...)
	binary.LittleEndian.PutUint32(to[at+4:], crc32.Checksum(to[at+8:], castagnoli))
	return to
}

// decodeFrame reads a frame without copying its payload. A frame's total is at most largest.
func decodeFrame(data []byte, largest int) (f frame, err error) {
	if len(data) < frameHeader || binary.LittleEndian.Uint32(data) != frameMagic {
		return f, fail(ErrProtocol, "%d bytes are no frame of version 1", len(data))
	}
	if got, sum := binary.LittleEndian.Uint32(data[4:]), crc32.Checksum(data[8:],
		castagnoli); got != sum {
		return f, fail(ErrProtocol, "the checksum of a frame is %08x, want %08x", got, sum)
	}
	f.id, f.kind = binary.LittleEndian.Uint64(data[8:]), data[16]
	total, offset := binary.LittleEndian.Uint32(data[20:]), binary.LittleEndian.Uint32(data[24:])
	f.payload = data[frameHeader:]
	switch {
	case f.kind < kindRequest || f.kind >= kinds || data[17]|data[18]|data[19] != 0:
		return f, fail(ErrProtocol, "the kind of a frame is %d, want %d to %d", f.kind, kindRequest,
			kinds-1)
	case int64(total) > int64(largest):
		err = fail(ErrLimit, "a message has %d bytes, want at most %d", total, largest)
		return frame{kind: f.kind, id: f.id}, err
	case offset > total, f.kind <= kindReply && len(f.payload) > int(total-offset):
		return f, fail(ErrProtocol, "%d bytes at %d of a message of %d", len(f.payload), offset, total)
	}
	f.total, f.offset = int(total), int(offset)
	return f, nil
}

// incoming is a message that arrives in pieces.
type incoming struct {
	total int
	data  []byte
}

// add adds the next piece, and reports whether the message is complete. Memory grows with the bytes
// that have arrived, not with the announced size.
func (in *incoming) add(f *frame) (complete bool, err error) {
	if f.offset == 0 {
		in.total, in.data = f.total, in.data[:0]
	}
	if f.total != in.total || f.offset != len(in.data) || len(f.payload) == 0 && f.total > 0 {
		return false, fail(ErrProtocol, "%d bytes at %d of %d, want those at %d of %d",
			len(f.payload), f.offset, f.total, len(in.data), in.total)
	}
	if f.offset == 0 && len(f.payload) == f.total {
		in.data = f.payload // it is the whole message
		return true, nil
	}
	if need := len(in.data) + len(f.payload); need > cap(in.data) {
		in.data = append(make([]byte, 0, min(in.total, 2*need)), in.data...)
	}
	in.data = append(in.data, f.payload...)
	return len(in.data) == in.total, nil
}
