//go:build !linux

package memory

// givesHuge: huge pages are not requested.
const givesHuge = false

// adviseHuge does nothing and returns false: other systems choose the size of pages themselves, or
// require privileges for large ones.
func adviseHuge([]byte) bool { return false }

// populate does nothing: pages are small.
func populate([]byte) {}
