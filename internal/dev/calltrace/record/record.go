// Package record keeps the calls that instrumented functions report. Without instruments it has
// none.
package record

// Functions are the instrumented ones: file, space, name.
var Functions []string

var (
	calls     []int // indices in Functions
	recording bool
)

// Enter is what an instrumented function calls first.
func Enter(function int) {
	if recording {
		calls = append(calls, function)
	}
}

// Of returns what is called, in order, while do runs on this goroutine.
func Of(do func()) []int {
	calls, recording = nil, true
	defer func() { recording = false }()
	do()
	return calls
}
