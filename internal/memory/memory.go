// Package memory allocates large objects from the operating system instead of the Go heap.
//
// The system may refuse, which is an error; the Go heap would end the program. And the garbage
// collector does not count such memory: on the heap, gigabytes of it would let as many gigabytes of
// garbage pile up before a collection.
//
// A system may grant memory that it does not have. Linux refuses only obviously too large requests,
// and backs pages when they are first written: a program may still be ended there, as anywhere
// else.
package memory

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"unsafe"
)

const (
	// minMapped: less memory comes from the Go heap, because a system call would cost more than
	// clearing and collecting.
	minMapped = 256 << 10

	// fewestHuge: huge pages are requested from this number of bytes on, because less has no room for
	// one.
	fewestHuge = hugePage

	// hugePage is the size of a huge page on most processors. Memory that is to have some starts at a
	// multiple of it.
	hugePage = 2 << 20

	// cacheLine is the least alignment of memory.
	cacheLine = 64
)

// Mapping is memory for one object. It is released by Close, or when nothing refers to the Mapping
// any more: its slices alone do not keep it. Code that reads or writes them must hold the Mapping
// until the last access, by [runtime.KeepAlive] if nothing else does.
type Mapping struct {
	bytes   []byte
	whole   extent // the memory to release
	huge    bool
	cleanup runtime.Cleanup
	of      *Mapping // which has the memory, of a Part
}

// extent is memory from the system.
type extent struct {
	bytes []byte  // none if it is the Go heap's
	file  bool    // it is mapped from a file
	of    *region // it is a piece of that; else nil
}

// Allocate returns zeroed memory that starts at a multiple of 64 bytes. On Linux, 2 MiB and more
// get huge pages where the system gives these on request. The error says how many bytes the system
// refused.
func Allocate(bytes int) (*Mapping, error) {
	if bytes < 0 || bytes > math.MaxInt-hugePage { // so that rounding up does not overflow
		return nil, fmt.Errorf("memory: %d bytes are asked for, want 0 to %d", bytes,
			math.MaxInt-hugePage)
	}
	if bytes < minMapped {
		return &Mapping{bytes: onHeap(bytes)}, nil
	}
	whole, err := take(bytes)
	if err != nil {
		return nil, fmt.Errorf("memory: the system refuses %d bytes: %w", bytes, err)
	}
	m := hold(extent{bytes: whole}, bytes)
	m.huge = bytes >= fewestHuge && adviseHuge(whole)
	return m, nil
}

// Map returns the bytes of a file, which are read at the first access. They must not be written,
// and the file must not change, or become shorter: access to missing bytes ends the program. The
// error is [errors.ErrUnsupported] if files cannot be mapped, and the system's if this one cannot.
func Map(file *os.File) (*Mapping, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	size := info.Size()
	if !info.Mode().IsRegular() || size < 1 || size > math.MaxInt {
		return nil, fmt.Errorf("memory: the file has %d bytes and mode %v, want a regular one of 1 to %d",
			size, info.Mode(), math.MaxInt)
	}
	bytes, err := mapFile(file, int(size))
	if err != nil {
		return nil, fmt.Errorf("memory: the system does not map %d bytes of a file: %w", size, err)
	}
	return hold(extent{bytes: bytes, file: true}, len(bytes)), nil
}

// hold returns the mapping of the first bytes of memory from the system.
func hold(whole extent, bytes int) *Mapping {
	m := &Mapping{bytes: whole.bytes[:bytes:bytes], whole: whole}
	m.cleanup = runtime.AddCleanup(m, func(whole extent) { release(whole) }, whole)
	pace(len(whole.bytes))
	return m
}

// Keep makes only Close release the memory, for slices that outlive all references to the Mapping.
func (m *Mapping) Keep() { m.cleanup.Stop() }

// Forget lets the system reclaim the memory of a part of a file, in whole pages. The next access
// reads the file again. It does nothing if the system has no such call.
func (m *Mapping) Forget(from, to int) {
	if m.whole.file {
		page := os.Getpagesize()
		from, to = roundUp(from, page), to&^(page-1)
		if from < to {
			forget(m.whole.bytes[from:to])
		}
	}
}

// Populate backs some of the mapping's bytes with memory before they are written, if they may be in
// huge pages. The system clears such a page in 50 to 200 µs when it is first written, and the
// garbage collector waits for a goroutine that writes, but not for one in a system call.
func (m *Mapping) Populate(x []byte) {
	if !m.huge || len(x) == 0 {
		return
	}
	whole := m.whole.bytes
	if m.whole.of != nil { // where pages begin
		whole = m.whole.of.whole
	}
	page, from := os.Getpagesize(), offset(whole, x)
	populate(whole[from&^(page-1) : roundUp(from+len(x), page)])
}

// Bytes returns the memory; nothing after Close.
func (m *Mapping) Bytes() []byte { return m.bytes }

// Part returns bytes of a mapping. It keeps the mapping, whose Close alone releases the memory:
// after that the part must not be used.
func (m *Mapping) Part(from, to int) *Mapping {
	return &Mapping{bytes: m.bytes[from:to:to], huge: m.huge, of: m}
}

// Floats returns the memory as numbers, without the bytes after the last multiple of 4.
func (m *Mapping) Floats() []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(m.bytes))), len(m.bytes)/4)
}

// Huge reports whether the system has granted huge pages.
func (m *Mapping) Huge() bool { return m.huge }

// Close releases the memory. A later access to a slice of it may be a fault, which ends the
// program. Closing again does nothing, but must not happen at the same time.
func (m *Mapping) Close() error {
	whole := m.whole
	m.bytes, m.whole, m.of = nil, extent{}, nil
	if whole.bytes == nil {
		return nil
	}
	m.cleanup.Stop()
	runtime.KeepAlive(m) // or the cleanup might run while it is being stopped
	return release(whole)
}

// release returns memory to the system.
func release(whole extent) error {
	count(-int64(len(whole.bytes)))
	back := giveBack
	switch {
	case whole.file:
		back = unmapFile
	case whole.of != nil:
		back = whole.of.giveBack
	}
	if err := back(whole.bytes); err != nil {
		return fmt.Errorf("memory: the system does not take %d bytes back: %w", len(whole.bytes), err)
	}
	return nil
}

// onHeap allocates aligned memory on the Go heap.
func onHeap(bytes int) []byte {
	b := make([]byte, bytes+cacheLine-1)
	skip := -uintptr(unsafe.Pointer(unsafe.SliceData(b))) & (cacheLine - 1)
	return b[skip:][:bytes:bytes]
}

// roundUp returns the least multiple of a power of two that is not less than n.
func roundUp(n, multiple int) int { return (n + multiple - 1) &^ (multiple - 1) }
