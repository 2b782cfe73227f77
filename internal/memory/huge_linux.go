package memory

import "golang.org/x/sys/unix"

// givesHuge: the system grants huge pages on request.
const givesHuge = true

// adviseHuge requests huge pages and reports whether there may be some. Without them, code that
// reads a lot of memory once waits for the translation of addresses, and for prefetchers that stop
// at the end of a page.
func adviseHuge(whole []byte) bool { return unix.Madvise(whole, unix.MADV_HUGEPAGE) == nil }

// populate makes the system back pages with memory. Kernels before 5.14 do that only when pages are
// written.
func populate(pages []byte) { _ = unix.Madvise(pages, unix.MADV_POPULATE_WRITE) }
