package attn

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"runtime"
)

// The file of a sequence, little-endian:
//
//	8 bytes   sequenceMagic; its last byte is the version
//	u32       type: 0 F32, 1 F16, 2 BF16, 3 I8
//	u32       1 if keys are rotated, else 0
//	3 × u32   KVHeads, HeadDim, ValueDim
//	u32       first: the tokens that DropFront took
//	u32       length: the position after the last token
//	u32       checksum
//	          for each page from position first/Block·Block on, up to that of position length−1:
//	bytes     the blocks of all heads, see blockStore
//	u32       checksum
//
// What of a block is no token, or a column or dimension that tokens do not have, is zero: so the same tokens are the same bytes, and no byte is of
// another sequence. A checksum is the CRC-32C of all bytes from the beginning but earlier checksums: pages in another order, or of another
// file, do not pass.
//
// Version 1 belongs to version 2 of the numeric contract, which fixes Block, and rotation.
const (
	sequenceMagic  = "attnSeq\x01"
	sequenceFields = 7
	sequenceHeader = len(sequenceMagic) + 4*sequenceFields // without its checksum
	checksumSize   = 4
)

// WriteTo writes the tokens to w in a form that any machine can read with [Sequence.ReadFrom], page by page: about as many bytes as their pages
// take. It returns how many were written. The same tokens give the same bytes. Errors of w are wrapped.
func (s *Sequence) WriteTo(w io.Writer) (n int64, err error) {
	if err := s.checkOpen(); err != nil {
		return 0, err
	}
	config, blocks := &s.store.config, &s.store.blocks
	f := fileWriter{to: w, buffer: make([]byte, max(sequenceHeader, blocks.block)+checksumSize)}
	err = f.write(putHeader(f.buffer, config, &s.pages), true)
	for i := 0; i < len(s.table) && err == nil; i++ {
		lo, hi := s.inPage(i)
		for h := 0; h < config.KVHeads && err == nil; h++ {
			x := f.buffer[:copy(f.buffer, blocks.at(h, int(s.table[i])))]
			blocks.blank(x, lo, hi, config.ValueDim)
			blocks.littleEndian(x)
			err = f.write(x, h == config.KVHeads-1)
		}
	}
	runtime.KeepAlive(s) // and with it its memory
	return f.n, err
}

// putHeader makes the header of a file, without its checksum.
func putHeader(x []byte, g *StoreConfig, p *pages) []byte {
	rotate := 0
	if g.Rotate {
		rotate = 1
	}
	x = append(x[:0], sequenceMagic...)
	for _, n := range [sequenceFields]int{int(g.Format), rotate, g.KVHeads, g.HeadDim, g.ValueDim, p.first, p.length} {
		x = binary.LittleEndian.AppendUint32(x, uint32(n))
	}
	return x
}

// fileWriter is a file that is being written.
type fileWriter struct {
	to     io.Writer
	n      int64  // bytes written
	sum    uint32 // of these but checksums
	buffer []byte // a block, or the header, with a checksum
}

// write writes the beginning x of the buffer, and the checksum if one follows.
func (f *fileWriter) write(x []byte, last bool) error {
	f.sum = crc32.Update(f.sum, crc32.MakeTable(crc32.Castagnoli), x)
	if last {
		x = binary.LittleEndian.AppendUint32(x, f.sum)
	}
	n, err := f.to.Write(x)
	f.n += int64(n)
	if err == nil && n != len(x) {
		err = io.ErrShortWrite
	}
	if err != nil {
		return fmt.Errorf("attn: writing a sequence, %d bytes are written: %w", f.n, err)
	}
	return nil
}

// ReadFrom replaces the tokens by those that [Sequence.WriteTo] wrote from a store of the same shape and type, with whatever pages. It reads
// exactly what WriteTo wrote, so r may hold several sequences one after the other, and returns how many bytes were read.
//
// The tokens go to free pages of the store first, and the pages before go back only then: if the free ones are too few, the error is
// [ErrCapacity] and says how many are missing. A store of another shape is [ErrShape], of another type or rotation [ErrOption]. What WriteTo
// cannot have written is [ErrFormat]; it wraps [io.EOF] too if r has no bytes, and [io.ErrUnexpectedEOF] if it has too few. Other errors of r
// are wrapped. After any error the tokens are those that there were.
func (s *Sequence) ReadFrom(r io.Reader) (n int64, err error) {
	if err := s.checkOpen(); err != nil {
		return 0, err
	}
	f := fileReader{from: r, page: -1}
	to, err := f.header(&s.store.config)
	if err == nil {
		err = s.readPages(&f, &to)
	}
	runtime.KeepAlive(s) // and with it its memory
	return f.n, err
}

// readPages replaces the tokens by those of a file whose header was read, at positions that have no pages yet.
func (s *Sequence) readPages(f *fileReader, to *pages) error {
	taken, err := s.takeForFile((to.length+Block-1)/Block - to.base)
	if err != nil {
		return err
	}
	defer func() { s.store.giveBack(taken) }() // what is not used, even if the reader panics
	to.table = taken
	for f.page = range taken {
		if err := f.readPage(s.store, to); err != nil {
			return err
		}
	}
	s.store.giveBack(s.table)
	to.table, taken = append(s.table[:0], taken...), nil
	s.pages = *to
	return nil
}

// takeForFile takes n pages, and notes them where the table has room: pages are not in it twice, so it has room for all that are free.
func (s *Sequence) takeForFile(n int) ([]int32, error) {
	t := s.store
	t.mu.Lock()
	defer t.mu.Unlock()
	if n > len(t.free) {
		return nil, fail(ErrCapacity, "the file takes %d pages: %d are missing, as %d of %d are free", n, n-len(t.free), len(t.free), t.config.Pages)
	}
	return t.take(s.table[len(s.table):], n), nil
}

// fileReader is a file that is being read.
type fileReader struct {
	from   io.Reader
	n      int64  // bytes read
	sum    uint32 // of these but checksums
	page   int    // that is being read; −1 is the header
	buffer [sequenceHeader]byte
}

// header reads the header of a file that fits a store, and returns its positions.
func (f *fileReader) header(g *StoreConfig) (p pages, err error) {
	x := f.buffer[:]
	if err := f.fill(x); err != nil {
		return p, err
	}
	if err := checkSequenceMagic(string(x[:len(sequenceMagic)])); err != nil {
		return p, err
	}
	var head [sequenceFields]int
	for i := range head {
		head[i] = int(binary.LittleEndian.Uint32(x[len(sequenceMagic)+4*i:]))
	}
	if err := f.checkSum(); err != nil {
		return p, err
	}
	if err := checkFields(&head, g); err != nil {
		return p, err
	}
	p.first, p.length = head[5], head[6]
	p.base = p.first / Block
	return p, nil
}

// checkSequenceMagic makes sure that a file is one of this version.
func checkSequenceMagic(magic string) error {
	const version = len(sequenceMagic) - 1
	switch {
	case magic[:version] != sequenceMagic[:version]:
		return fail(ErrFormat, "the file begins with %q, want %q", magic, sequenceMagic)
	case magic[version] != sequenceMagic[version]:
		return fail(ErrFormat, "the file is version %d of the form, want version %d", magic[version], sequenceMagic[version])
	}
	return nil
}

// checkFields makes sure that a header is one, and that its sequence fits the store.
func checkFields(head *[sequenceFields]int, g *StoreConfig) error {
	for i, f := range [sequenceFields]struct {
		name        string
		least, most int
	}{
		{"Format", int(F32), int(I8)}, {"mark of rotation", 0, 1},
		{"KVHeads", 1, maxLength}, {"HeadDim", 1, maxLength}, {"ValueDim", 1, maxLength},
		{"first position", 0, maxLength}, {"length", head[5], maxLength},
	} {
		if uint(head[i]) > uint(f.most) || head[i] < f.least { // an int of 32 bits may have become negative
			return fail(ErrFormat, "the file's %s is %d, want %d to %d", f.name, uint32(head[i]), f.least, f.most)
		}
	}
	switch kind, rotate := Format(head[0]), head[1] == 1; {
	case kind != g.Format:
		return fail(ErrOption, "the file's Format is %v, want the store's %v", kind, g.Format)
	case rotate != g.Rotate:
		return fail(ErrOption, "the file's Rotate is %t, want the store's %t", rotate, g.Rotate)
	}
	for i, f := range [...]namedSize{{"KVHeads", g.KVHeads}, {"HeadDim", g.HeadDim}, {"ValueDim", g.ValueDim}} {
		if got := head[2+i]; got != f.n {
			return fail(ErrShape, "the file's %s is %d, want the store's %d", f.name, got, f.n)
		}
	}
	return nil
}

// readPage reads the page whose turn it is into the store.
func (f *fileReader) readPage(t *Store, to *pages) error {
	blocks, page := &t.blocks, int(to.table[f.page])
	for h := range t.config.KVHeads {
		if err := f.fill(blocks.at(h, page)); err != nil {
			return err
		}
	}
	if err := f.checkSum(); err != nil {
		return err
	}
	lo, hi := to.inPage(f.page)
	for h := range t.config.KVHeads {
		x := blocks.at(h, page)
		blocks.littleEndian(x)
		if blocks.blank(x, lo, hi, t.config.ValueDim) {
			return fail(ErrFormat, "%s, head %d: a byte is of no token and not zero", f.part(), h)
		}
		if blocks.kind != I8 {
			continue
		}
		if fault := blocks.faultOfIntegers(x); fault != "" {
			return fail(ErrFormat, "%s, head %d: %s", f.part(), h, fault)
		}
	}
	return nil
}

// fill reads bytes of which there is a checksum later.
func (f *fileReader) fill(x []byte) error {
	if err := f.read(x); err != nil {
		return err
	}
	f.sum = crc32.Update(f.sum, crc32.MakeTable(crc32.Castagnoli), x)
	return nil
}

// checkSum reads a checksum and compares it with the bytes before.
func (f *fileReader) checkSum() error {
	x := f.buffer[:checksumSize]
	if err := f.read(x); err != nil {
		return err
	}
	if got := binary.LittleEndian.Uint32(x); got != f.sum {
		return fail(ErrFormat, "%s: the checksum is %08x, want %08x", f.part(), got, f.sum)
	}
	return nil
}

// read fills x.
func (f *fileReader) read(x []byte) error {
	n, err := io.ReadFull(f.from, x)
	f.n += int64(n)
	if err == io.EOF && f.n > 0 {
		err = io.ErrUnexpectedEOF
	}
	switch err {
	case nil:
		return nil
	case io.EOF, io.ErrUnexpectedEOF:
		return fmt.Errorf("%w: %s: the file ends after %d bytes: %w", ErrFormat, f.part(), f.n, err)
	}
	return fmt.Errorf("attn: reading a sequence, %s: %w", f.part(), err)
}

// part names what is being read.
func (f *fileReader) part() string {
	if f.page < 0 {
		return "header"
	}
	return fmt.Sprintf("page %d", f.page)
}
