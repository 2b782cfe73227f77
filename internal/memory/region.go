package memory

import (
	"sync"
	"unsafe"
)

const (
	// fewestTogether: what is smaller takes so few pages that it may as well be on the Go heap.
	fewestTogether = 32 << 10

	// mostTogether: what is larger has huge pages of its own, and loses little of them at its end.
	mostTogether = 4 * hugePage

	// regionBytes are taken at once. The system finds memory for those alone that are used, so that
	// what no piece fits into at the end costs addresses, and less than a huge page of memory.
	regionBytes = 32 * hugePage
)

// region is memory in huge pages, of which mappings have pieces. Pieces follow each other and no
// place is used twice, so that it is zero; huge pages that no piece is in any more go back to the
// system, and the region does with its last piece.
type region struct {
	whole  []byte
	used   int // bytes from the beginning on that pieces had
	pieces int
	users  [regionBytes / hugePage]int32 // pieces in each huge page
}

// regions is what all regions have in common.
var regions struct {
	sync.Mutex
	open *region // the one that the next piece is from; nil if there is none
}

// AllocateTogether is [Allocate] for what is gone through together, like the matrices of a model:
// on Linux, what is too small for huge pages of its own lies in some with others.
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

// takePiece takes memory from the open region, or from a new one, and none if the system has none.
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

// newRegion takes a region, or none if the system has no memory or no huge pages.
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

// giveBack gives a piece back.
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

// offset is where a part of memory begins in it.
func offset(whole, part []byte) int {
	return int(uintptr(unsafe.Pointer(unsafe.SliceData(part))) -
		uintptr(unsafe.Pointer(unsafe.SliceData(whole))))
}
