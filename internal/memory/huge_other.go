//go:build !linux

package memory

// givesHuge: nobody asks for huge pages.
const givesHuge = false

// adviseHuge does nothing and reports so: other systems choose the size of pages by themselves, or
// want privileges for large ones.
func adviseHuge([]byte) bool { return false }

// populate does nothing: pages are small.
func populate([]byte) {}
