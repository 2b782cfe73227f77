package cluster

import "sync"

// flight is how many bytes of requests, states and replies a worker has at the same time. What is
// alone is always taken, so nothing is refused for ever.
type flight struct {
	limit int64

	mu    sync.Mutex
	bytes int64
}

// take counts some bytes, of which some are counted already as those of the same call, or says that
// there are too many.
func (f *flight) take(bytes, own int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.bytes > own && bytes > f.limit-f.bytes {
		return fail(ErrBusy, "requests, states and replies of %d bytes are here, and %d more are "+
			"wanted, want at most %d", f.bytes, bytes, f.limit)
	}
	f.bytes += bytes
	return nil
}

// add counts bytes that are there already.
func (f *flight) add(bytes int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.bytes += bytes
}
