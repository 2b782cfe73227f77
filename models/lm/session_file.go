package lm

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"

	"github.com/seed-1415985d/attn"
)

// A saved session has its tokens and what each layer keeps of them. Numbers are little endian,
// checksums are CRC-32C of all bytes before them but other checksums.
//
//	8 bytes   sessionMagic, whose last is the version
//	u32       bytes of the description
//	...       the description, in JSON
//	u32       checksum
//	...       for each layer its keys and values (attn.Sequence.Save), or of one that keeps states
//	          its convolution and its states (nn.Conv.Save, linattn.State.Save); nothing if Kept is 0
//	u32       checksum
const sessionMagic = "attnSes\x02"

// mostDescription is more than the descriptions of the longest sequences have.
const mostDescription = 1 << 30

// description says what a saved session is of.
type description struct {
	Model  string // its fingerprint, which keys and values depend on
	Tokens []int32
	Kept   int // first ones of the tokens, which layers have
}

// check refuses the session of another model, or one that does not fit.
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

// counted counts the bytes of a stream, whose sum it keeps.
type counted struct {
	hash.Hash32
	n    int64
	from io.Reader
	to   io.Writer
}

func newCounted(from io.Reader, to io.Writer) *counted {
	return &counted{Hash32: crc32.New(crc32.MakeTable(crc32.Castagnoli)), from: from, to: to}
}

func (c *counted) Read(x []byte) (int, error) {
	n, err := c.from.Read(x)
	_, _ = c.Hash32.Write(x[:n]) // which cannot fail
	c.n += int64(n)
	return n, err
}

func (c *counted) Write(x []byte) (int, error) {
	n, err := c.to.Write(x)
	_, _ = c.Hash32.Write(x[:n]) // which cannot fail
	c.n += int64(n)
	return n, err
}

// check reads a checksum, which is not part of the sum.
func (c *counted) check() error {
	want := c.Sum32()
	var stored [4]byte
	n, err := io.ReadFull(c.from, stored[:])
	if c.n += int64(n); err != nil {
		return damaged(err)
	}
	if got := binary.LittleEndian.Uint32(stored[:]); got != want {
		return fmt.Errorf("%w: the checksum is %08x, want %08x", attn.ErrFormat, got, want)
	}
	return nil
}

// sum writes the checksum.
func (c *counted) sum() error {
	n, err := c.to.Write(binary.LittleEndian.AppendUint32(nil, c.Sum32()))
	c.n += int64(n)
	return err
}

// damaged is the error of a stream that is too short, or that cannot be read.
func damaged(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: the session ends early", attn.ErrFormat)
	}
	return err
}

// Save writes the session, and returns how many bytes it wrote. It is read by Load with a model of
// the same [Model.Fingerprint], on any CPU.
func (s *Session) Save(w io.Writer) (n int64, err error) {
	err = s.call(func() error {
		to := newCounted(nil, w)
		err := s.save(to)
		n = to.n
		return err
	})
	return n, err
}

func (s *Session) save(to *counted) error {
	seq, kept := s.seq, 0
	if seq != nil {
		kept = seq.length()
	}
	if _, here := seq.(paged); seq != nil && !here {
		return fmt.Errorf("%w: keys and values are in Options.Cache, want a model without one",
			attn.ErrUnsupported)
	}
	mark, err := s.model.Fingerprint()
	if err != nil {
		return err
	}
	text, err := json.Marshal(description{mark, s.tokens, kept})
	if err != nil {
		return err
	}
	head := binary.LittleEndian.AppendUint32([]byte(sessionMagic), uint32(len(text)))
	if _, err := to.Write(append(head, text...)); err != nil {
		return err
	}
	if err := to.sum(); err != nil {
		return err
	}
	if kept > 0 {
		if err := seq.(paged).save(to); err != nil {
			return err
		}
	}
	return to.sum()
}

// Load reads what Save wrote into a session without tokens, exactly, and returns how many bytes it
// read. The error is [attn.ErrLength] for a session with tokens, [attn.ErrOption] for one of
// another model or other options, [ErrContext] for one with too many tokens and [attn.ErrFormat]
// for damage; the session is as before then.
func (s *Session) Load(r io.Reader) (n int64, err error) {
	err = s.call(func() error {
		if len(s.tokens) > 0 {
			return fmt.Errorf("%w: the session has %d tokens, want none", attn.ErrLength, len(s.tokens))
		}
		from := newCounted(r, nil)
		err := s.load(from)
		n = from.n
		return err
	})
	return n, err
}

func (s *Session) load(from *counted) error {
	d, err := readDescription(from)
	if err == nil {
		err = d.check(s.model)
	}
	if err != nil {
		return err
	}
	if d.Kept > 0 {
		err = s.hold(d.Kept, func(seq sequence) error {
			here, ok := seq.(paged)
			if !ok {
				return fmt.Errorf("%w: keys and values are in Options.Cache, want a model without one",
					attn.ErrUnsupported)
			}
			if err := here.load(from, d.Kept); err != nil {
				return fmt.Errorf("%w: %w", attn.ErrFormat, err)
			}
			return from.check()
		})
	} else {
		err = from.check()
	}
	if err != nil {
		s.drop()
		return err
	}
	s.set(d.Tokens)
	return nil
}

// hold lets f fill the session's sequence, when there are pages for some tokens.
func (s *Session) hold(tokens int, f func(sequence) error) error {
	e, j := s.model.engine, newJob(nil, tokens)
	j.away = true // nobody waits for the reader of the file
	s.lend(j)
	if err := e.submit(j); err != nil {
		s.takeBack(j)
		return err
	}
	err := e.await(context.Background(), j)
	if err == nil {
		err = f(j.seq)
	}
	if j.seq != nil {
		j.valid = j.seq.length()
	}
	e.leave(j)
	s.takeBack(j)
	return err
}

// readDescription reads the first part of a saved session, in which nothing else is true if its
// checksum is not.
func readDescription(from *counted) (*description, error) {
	var head [len(sessionMagic) + 4]byte
	n, err := io.ReadFull(from, head[:])
	magic := string(head[:min(n, len(sessionMagic))])
	if magic != sessionMagic[:len(magic)] || n == 0 {
		return nil, fmt.Errorf("%w: it begins with %q, want %q: it is no session of this version",
			attn.ErrFormat, magic, sessionMagic)
	}
	if err != nil {
		return nil, damaged(err)
	}
	size := binary.LittleEndian.Uint32(head[len(sessionMagic):])
	if size > mostDescription {
		return nil, fmt.Errorf("%w: its description has %d bytes, want at most %d", attn.ErrFormat, size,
			mostDescription)
	}
	var text bytes.Buffer // which grows with what comes
	if _, err := io.CopyN(&text, from, int64(size)); err != nil {
		return nil, damaged(err)
	}
	if err := from.check(); err != nil {
		return nil, err
	}
	d, read := &description{}, json.NewDecoder(&text)
	read.DisallowUnknownFields() // of a later version
	if err := read.Decode(d); err != nil {
		return nil, fmt.Errorf("%w: %w", attn.ErrFormat, err)
	}
	return d, nil
}
