package memory

import (
	"sync"
	"unsafe"
)

const (
	// fewestTogether: smaller objects have so few pages that they may be on the Go heap.
	fewestTogether = 32 << 10

	// mostTogether: larger objects have their own huge pages, and waste little of the last one.
	mostTogether = 4 * hugePage

	// regionBytes are reserved at once. The system backs only used pages, so the unused end costs
	// addresses, and less than a huge page of memory.
	regionBytes = 32 * hugePage
)

// region is memory in huge pages that mappings share in pieces. Pieces are consecutive and no
// address is used twice, so that all are zero; huge pages without pieces are released, and the
// region with its last piece.
type region struct {
	whole  []byte
	used   int // bytes from the beginning that pieces have used
	pieces int
	users  [regionBytes / hugePage]int32 // pieces in each huge page
}

// regions is the state of all regions.
var regions struct {
	sync.Mutex
	open *region // the region of the next piece; nil if there is none
}

// AllocateTogether is [Allocate] for objects that are read together, like the matrices of a model:
// on Linux, objects too small for their own huge pages share some.
func AllocateTogether(bytes int) (*Mapping, error) {
	if !givesHuge || bytes < fewestTogether || bytes > mostTogether {
		return Allocate(bytes)
	}
	piece, of := takePiece(roundUp(bytes, cacheLine))
	if of == nil {
		return Allocate(bytes)
	}
	m := hold(extent{bytes: piece, of: of}, bytes)
	m.huge = true
	return m, nil
}

// takePiece allocates from the open region, or from a new one; nil if the system has no memory.
func takePiece(bytes int) ([]byte, *region) {
	regions.Lock()
	defer regions.Unlock()
	r := regions.open
	if r == nil || regionBytes-r.used < bytes {
		if r = newRegion(); r == nil {
			return nil, nil
		}
		regions.open = r
	}
	from := r.used
	r.used += bytes
	r.pieces++
	for i := from / hugePage; i <= (r.used-1)/hugePage; i++ {
		r.users[i]++
	}
	return r.whole[from:r.used:r.used], r
}

// newRegion reserves a region, or none if the system has no memory or no huge pages.
func newRegion() *region {
	whole, err := take(regionBytes)
	if err != nil {
		return nil
	}
	if !adviseHuge(whole) {
		_ = giveBack(whole) // nobody has written to it
		return nil
	}
	return &region{whole: whole}
}

// giveBack releases a piece.
func (r *region) giveBack(piece []byte) error {
	regions.Lock()
	defer regions.Unlock()
	if r.pieces--; r.pieces == 0 {
		if regions.open == r {
			regions.open = nil
		}
		return giveBack(r.whole)
	}
	from := offset(r.whole, piece)
	for i := from / hugePage; i <= (from+len(piece)-1)/hugePage; i++ {
		if r.users[i]--; r.users[i] == 0 {
			forget(r.whole[i*hugePage:][:hugePage])
		}
	}
	return nil
}

// offset returns where a part of memory begins in it.
func offset(whole, part []byte) int {
	return int(uintptr(unsafe.Pointer(unsafe.SliceData(part))) -
		uintptr(unsafe.Pointer(unsafe.SliceData(whole))))
}
