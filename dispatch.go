package attn

import (
	"fmt"
	"os"
)

// choose returns the implementation to use: the given ones are what this CPU
// can run, best first, with generic always possible. ATTN_ISA overrides it; to
// ask for what is not there is a mistake that must not pass for a slow machine.
func choose(possible ...isa) isa {
	name := os.Getenv("ATTN_ISA")
	if name == "" {
		return possible[0]
	}
	for _, i := range possible {
		if i.String() == name {
			return i
		}
	}
	panic(fmt.Sprintf("attn: ATTN_ISA=%s is not available here, want one of %v", name, possible))
}
