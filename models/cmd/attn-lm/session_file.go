package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// A session is a file with one sequence: its tokens, and what each layer keeps of them. Numbers are
// little endian, checksums are CRC-32C of all bytes before them but other checksums.
//
//	8 bytes   sessionMagic, whose last is the version
//	u32       bytes of the description
//	...       the description, in JSON
//	u32       checksum
//	...       for each layer its keys and values (attn.Sequence.Save), or of one that keeps states
//	          its convolution and its states (nn.Conv.Save, linattn.State.Save)
//	u32       checksum
const sessionMagic = "attnSes\x01"

// description is what a session is of. The first four are those of the run that reads it.
type description struct {
	Model    string // a sum of its files and its shape
	Matrices string // of which kind they are
	Cache    string // types of keys and values
	Chat     bool

	Tokens   []int
	Read     int            // of the tokens, which layers have
	Turns    int            // answers in the conversation, also those that it has no longer
	Messages []savedMessage // of the conversation
}

// savedMessage has bytes: in files of before, an answer may end within a letter.
type savedMessage struct {
	Role    string
	Content []byte
}

// check refuses the session of another run than one that is described, with a vocabulary and a
// context.
func (d *description) check(run *description, vocab, context int) error {
	switch {
	case d.Model != run.Model:
		return errors.New("the session is of another model, want that of this run")
	case d.Matrices != run.Matrices:
		return fmt.Errorf("the session is of %s, want %s", d.Matrices, run.Matrices)
	case d.Cache != run.Cache:
		return fmt.Errorf("the session is of -cache %s, want %s", d.Cache, run.Cache)
	case d.Chat && !run.Chat:
		return errors.New("the session is a conversation, want -chat")
	case !d.Chat && run.Chat:
		return errors.New("the session is no conversation, want no -chat")
	case d.Read < 1 || d.Read > len(d.Tokens) || d.Turns < 0:
		return fmt.Errorf("the session has %d tokens, of which layers have %d, and %d turns, want 1 of "+
			"them at least, and no more than there are", len(d.Tokens), d.Read, d.Turns)
	case d.Read > context:
		return fmt.Errorf("the session has %d tokens, want at most %d, the -context", d.Read, context)
	}
	for _, token := range d.Tokens {
		if token < 0 || token >= vocab {
			return fmt.Errorf("the session has token %d, want 0 to %d", token, vocab-1)
		}
	}
	return nil
}

// sessionSum is what all bytes so far add up to.
type sessionSum struct{ hash.Hash32 }

func newSessionSum() sessionSum {
	return sessionSum{crc32.New(crc32.MakeTable(crc32.Castagnoli))}
}

// check reads a checksum.
func (s sessionSum) check(from io.Reader) error {
	var got uint32
	want := s.Sum32()
	if err := binary.Read(from, binary.LittleEndian, &got); err != nil {
		return atEnd(err)
	}
	if got != want {
		return fmt.Errorf("the checksum is %08x, want %08x: the file is damaged", got, want)
	}
	return nil
}

// atEnd says that a file is too short.
func atEnd(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the file ends early: it is damaged")
	}
	return err
}

// readDescription reads the first part of a file of some size, in which nothing else is true if its
// checksum is not.
func readDescription(from io.Reader, sum sessionSum, size int64) (*description, error) {
	all := io.TeeReader(from, sum)
	var magic [len(sessionMagic)]byte
	n, err := io.ReadFull(all, magic[:])
	if begins := string(magic[:n]); err == io.EOF || !strings.HasPrefix(sessionMagic, begins) {
		return nil, fmt.Errorf("the file begins with %q, want %q: it is no session of this version",
			begins, sessionMagic)
	}
	if err != nil {
		return nil, atEnd(err)
	}
	var described uint32
	if err := binary.Read(all, binary.LittleEndian, &described); err != nil {
		return nil, atEnd(err)
	}
	if int64(described) > size {
		return nil, atEnd(io.ErrUnexpectedEOF)
	}
	text := make([]byte, described)
	if _, err := io.ReadFull(all, text); err != nil {
		return nil, atEnd(err)
	}
	if err := sum.check(from); err != nil {
		return nil, err
	}
	d, read := &description{}, json.NewDecoder(bytes.NewReader(text))
	read.DisallowUnknownFields() // of a later version
	return d, read.Decode(d)
}

// readSession fills an empty sequence from a file, which is one of a run.
func readSession(f *os.File, run *description, seq paged, context int) (*description, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	from, sum := bufio.NewReader(f), newSessionSum()
	d, err := readDescription(from, sum, info.Size())
	if err == nil {
		err = d.check(run, seq.cache.Vocab, context)
	}
	if err == nil {
		err = seq.load(io.TeeReader(from, sum), d.Read)
	}
	if err == nil {
		err = sum.check(from)
	}
	if err == nil {
		if _, end := from.ReadByte(); end != io.EOF {
			err = errors.New("more bytes follow the last checksum, want none")
		}
	}
	return d, err
}

// writeSession writes a file whole or not at all: that which a link leads to, if there is one.
func writeSession(path string, d *description, seq paged) error {
	if to, err := filepath.EvalSymlinks(path); err == nil {
		path = to
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	to := bufio.NewWriter(f)
	err = d.write(to, seq)
	if err == nil {
		err = to.Flush()
	}
	if err == nil {
		err = f.Sync()
	}
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // what came before it is what the user wants to know
		err = fmt.Errorf("%s: %w", path, err)
	}
	return err
}

// write writes all of a file.
func (d *description) write(file io.Writer, seq paged) error {
	text, err := json.Marshal(d)
	if err != nil {
		return err
	}
	sum := newSessionSum()
	to := io.MultiWriter(file, sum)
	put := func(to io.Writer, x any) {
		if err == nil {
			err = binary.Write(to, binary.LittleEndian, x)
		}
	}
	put(to, []byte(sessionMagic))
	put(to, uint32(len(text)))
	put(to, text)
	put(file, sum.Sum32())
	if err == nil {
		err = seq.save(to)
	}
	put(file, sum.Sum32())
	return err
}
