package memory

import "golang.org/x/sys/unix"

// givesHuge: huge pages may be had on request.
const givesHuge = true

// adviseHuge asks for huge pages and reports whether there may be some. What goes through a lot of
// memory once waits for the translation of addresses otherwise, and for prefetchers that stop at
// the end of a page.
func adviseHuge(whole []byte) bool { return unix.Madvise(whole, unix.MADV_HUGEPAGE) == nil }

// populate lets the system find memory for pages. Kernels before 5.14 know no such thing, and find
// it when pages are written to.
func populate(pages []byte) { _ = unix.Madvise(pages, unix.MADV_POPULATE_WRITE) }
