package lm

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/frames"
)

// A saved session has its tokens and what each layer keeps of them. Numbers are little endian, and
// each part ends with a checksum of package frames.
//
//	8 bytes   sessionMagic, whose last is the version
//	u32       bytes of the description
//	...       the description, in JSON
//	u32       checksum
//	...       for each layer its keys and values (attn.Sequence.Save), or of one that keeps states
//	          its convolution and its states (nn.Conv.Save, linattn.State.Save); nothing if Kept is 0
const sessionMagic = "attnSes\x03"

// mostDescription exceeds the descriptions of the longest sequences.
const mostDescription = 1 << 30

// description describes a saved session.
type description struct {
	Model  string // the model's fingerprint, on which keys and values depend
	Tokens []int32
	Kept   int // how many of the first tokens layers have
}

// check refuses a session of another model, or one that does not fit.
func (d *description) check(m *Model) error {
	own, err := m.Fingerprint()
	switch {
	case err != nil:
		return err
	case d.Model != own:
		return fmt.Errorf("%w: the session is of another model, or of other Weights, Products, Keys or "+
			"Values: its fingerprint is %s, want %s", attn.ErrOption, d.Model, own)
	case d.Kept < 0 || d.Kept > len(d.Tokens):
		return fmt.Errorf("%w: layers have %d tokens of %d, want no more than there are", attn.ErrFormat,
			d.Kept, len(d.Tokens))
	case len(d.Tokens) > m.Context():
		return fmt.Errorf("%w: the session has %d tokens, want at most Options.Context of %d", ErrContext,
			len(d.Tokens), m.Context())
	}
	for i, token := range d.Tokens {
		if token < 0 || int(token) >= m.net.Vocab {
			return fmt.Errorf("%w: token %d of the session is %d, want 0 to %d", attn.ErrFormat, i, token,
				m.net.Vocab-1)
		}
	}
	return nil
}

// damaged returns the error for a stream that is damaged, too short or unreadable. Shapes and
// formats agree already, since the fingerprint does.
func damaged(err error) error {
	m := frames.Mismatch{}
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: the session ends early", attn.ErrFormat)
	case errors.As(err, &m) || errors.Is(err, attn.ErrShape) || errors.Is(err, attn.ErrOption):
		return fmt.Errorf("%w: %w", attn.ErrFormat, err)
	}
	return err
}

// Save writes the session and returns how many bytes it wrote. Load reads it with a model of the
// same [Model.Fingerprint], on any CPU.
func (s *Session) Save(w io.Writer) (n int64, err error) {
	err = s.call(func() error {
		n, err = s.save(w)
		return err
	})
	return n, err
}

func (s *Session) save(w io.Writer) (int64, error) {
	seq, kept := s.seq, 0
	if seq != nil {
		kept = seq.length()
	}
	here, ok := seq.(paged)
	if seq != nil && !ok {
		return 0, fmt.Errorf("%w: keys and values are in Options.Cache, want a model without one",
			attn.ErrUnsupported)
	}
	mark, err := s.model.Fingerprint()
	if err != nil {
		return 0, err
	}
	text, err := json.Marshal(description{mark, s.tokens, kept})
	if err != nil {
		return 0, err
	}
	head := binary.LittleEndian.AppendUint32([]byte(sessionMagic), uint32(len(text)))
	to := frames.Writer{To: w}
	if err := to.Write(append(head, text...), true); err != nil || kept == 0 {
		return to.N, err
	}
	n, err := here.save(w)
	return to.N + n, err
}

// Load reads what Save wrote into a session without tokens, and returns how many bytes it read,
// which are exactly those. The error is [attn.ErrLength] for a session with tokens,
// [attn.ErrOption] for another model or other options, [ErrContext] for too many tokens and
// [attn.ErrFormat] for damage; the session is then unchanged.
func (s *Session) Load(r io.Reader) (n int64, err error) {
	err = s.call(func() error {
		if len(s.tokens) > 0 {
			return fmt.Errorf("%w: the session has %d tokens, want none", attn.ErrLength, len(s.tokens))
		}
		n, err = s.load(r)
		return err
	})
	return n, err
}

func (s *Session) load(r io.Reader) (int64, error) {
	from := frames.Reader{From: r}
	d, err := readDescription(&from)
	if err == nil {
		err = d.check(s.model)
	}
	if err != nil {
		return from.N, err
	}
	n := int64(0)
	if d.Kept > 0 {
		err = s.fillSequence(d.Kept, func(seq sequence) (err error) {
			here, ok := seq.(paged)
			if !ok {
				return fmt.Errorf("%w: keys and values are in Options.Cache, want a model without one",
					attn.ErrUnsupported)
			}
			n, err = here.load(r, d.Kept)
			return err
		})
	}
	if err == nil {
		s.setTokens(d.Tokens)
	}
	return from.N + n, damaged(err)
}

// fillSequence calls f to fill the session's sequence, once there are pages for some tokens.
func (s *Session) fillSequence(tokens int, f func(sequence) error) error {
	e, j := s.model.engine, newJob(nil, tokens)
	j.away = true // other jobs do not wait for the file
	s.lend(j)
	if err := e.submit(j); err != nil {
		s.recoverSequence(j)
		return err
	}
	done := false
	defer func() { // also if the reader of a file panics
		if j.seq != nil {
			j.valid = j.seq.length()
		}
		e.endJob(j)
		if s.recoverSequence(j); !done {
			s.drop()
		}
	}()
	err := e.await(context.Background(), j)
	if err == nil {
		err = f(j.seq)
	}
	done = err == nil
	return err
}

// readDescription reads the first part of a saved session and verifies its checksum before it uses
// anything of it.
func readDescription(from *frames.Reader) (*description, error) {
	var head [len(sessionMagic) + 4]byte
	magic := head[:len(sessionMagic)]
	if err := from.Read(magic); err != nil {
		return nil, damaged(err)
	}
	if string(magic) != sessionMagic {
		return nil, fmt.Errorf("%w: it begins with %q, want %q: it is no session of this version",
			attn.ErrFormat, magic, sessionMagic)
	}
	if err := from.Read(head[len(magic):]); err != nil {
		return nil, damaged(err)
	}
	size := int(binary.LittleEndian.Uint32(head[len(magic):]))
	if size > mostDescription {
		return nil, fmt.Errorf("%w: its description has %d bytes, want at most %d", attn.ErrFormat, size,
			mostDescription)
	}
	var text []byte // it grows with the bytes that come
	for len(text) < size {
		at := len(text)
		text = append(text, make([]byte, min(size-at, 1<<20))...)
		if err := from.Read(text[at:]); err != nil {
			return nil, damaged(err)
		}
	}
	if err := from.End(); err != nil {
		return nil, damaged(err)
	}
	d, read := &description{}, json.NewDecoder(bytes.NewReader(text))
	read.DisallowUnknownFields() // a later version may have more
	if err := read.Decode(d); err != nil {
		return nil, fmt.Errorf("%w: %w", attn.ErrFormat, err)
	}
	return d, nil
}
