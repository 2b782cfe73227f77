package pattern

import (
	"errors"
	"fmt"

	"github.com/dlclark/regexp2/v2/syntax"
)

// operation is the kind of an instruction.
type operation int

const (
	opMatch       operation = iota // ends the pattern, or a group that is matched separately
	opFail                         // matches nothing
	opText                         // matches a text
	opLetter                       // matches a letter of a set
	opMost                         // matches as many letters of a set as possible
	opMostAtomic                   // and never fewer
	opLeast                        // matches as few letters of a set as possible
	opReference                    // matches the text of a group
	opBegin                        // matches at the beginning of the text
	opEnd                          // matches at its end
	opEndLine                      // matches at its end, or before the line feed that ends it
	opChoose                       // goes to the first branch that matches
	opJump                         // goes to an instruction
	opEnter                        // begins a loop
	opRepeat                       // repeats its body as often as possible
	opRepeatLeast                  // as seldom as possible
	opLook                         // matches a group, and stays where it was
	opNot                          // fails if the group matches here
	opAtomic                       // matches a group, and accepts only its first match
	opOpen                         // begins a group that a reference names
	opClose                        // ends it
	opTried                        // notes that no match begins before this place
)

// instruction is a step of a pattern.
type instruction struct {
	op       operation
	back     bool // matches from right to left, within (?<= and (?<!
	to       int  // the next instruction, if it is not the following one
	index    int  // of a loop's counter, or of a group
	min, max int  // of a loop
	text     string
	set      *letters
	choices  []choice
}

// choice is a branch of an alternative.
type choice struct {
	to int
	beginning
}

// compiler makes instructions of a syntax tree.
type compiler struct {
	code       []instruction
	counters   int
	groups     map[int]int // the indices of groups that references name
	beginnings map[*syntax.RegexNode]beginning
	err        error
}

// findReferences numbers the groups that references name. Others need no instructions.
func (c *compiler) findReferences(n *syntax.RegexNode) {
	if n.T == syntax.NtRef {
		if _, ok := c.groups[n.M]; !ok {
			c.groups[n.M] = len(c.groups)
		}
	}
	for _, child := range n.Children {
		c.findReferences(child)
	}
}

func (c *compiler) emit(in instruction) int {
	c.code = append(c.code, in)
	return len(c.code) - 1
}

// looks are the operations of nodes that match no letters.
var looks = map[syntax.NodeType]operation{syntax.NtNothing: opFail, syntax.NtBeginning: opBegin,
	syntax.NtEnd: opEnd, syntax.NtEndZ: opEndLine, syntax.NtUpdateBumpalong: opTried}

// apart are the operations of groups that are matched separately: only their first match counts.
var apart = map[syntax.NodeType]operation{syntax.NtPosLook: opLook, syntax.NtNegLook: opNot,
	syntax.NtAtomic: opAtomic}

// node emits what a node matches.
func (c *compiler) node(n *syntax.RegexNode) {
	in := instruction{back: n.Options&syntax.RightToLeft != 0, min: n.M, max: n.N}
	op, isLook := looks[n.T]
	try, isApart := apart[n.T]
	switch {
	case isLook:
		c.emit(instruction{op: op})
	case isApart:
		at := c.emit(instruction{op: try})
		c.node(n.Children[0])
		c.emit(instruction{op: opMatch})
		c.code[at].to = len(c.code)
	case isLetters(n):
		in.set = lettersOf(n)
		c.letters(n, in)
	case n.T == syntax.NtMulti:
		in.op, in.text = opText, string(n.Str)
		c.emit(in)
	case n.T == syntax.NtRef && n.Options&syntax.IgnoreCase == 0:
		in.op, in.index = opReference, c.groups[n.M]
		c.emit(in)
	case n.T == syntax.NtLoop || n.T == syntax.NtLazyloop:
		c.loop(n, in)
	case n.T == syntax.NtAlternate:
		c.alternate(n, in.back)
	case n.T == syntax.NtCapture:
		c.capture(n, in.back)
	case n.T == syntax.NtConcatenate || n.T == syntax.NtGroup || n.T == syntax.NtEmpty:
		for _, child := range n.Children {
			c.node(child)
		}
	case n.T == syntax.NtRef:
		c.err = errors.New("it refers to a group where case is ignored, want no (?i) there")
	default:
		c.err = fmt.Errorf("it has %s, want what published tokenizers have", n.Description())
	}
}

// letters emits a letter or a loop of letters.
func (c *compiler) letters(n *syntax.RegexNode, in instruction) {
	switch n.T {
	case syntax.NtOne, syntax.NtNotone, syntax.NtSet:
		in.op = opLetter
	case syntax.NtOnelazy, syntax.NtNotonelazy, syntax.NtSetlazy:
		in.op = opLeast
	case syntax.NtOneloopatomic, syntax.NtNotoneloopatomic, syntax.NtSetloopatomic:
		in.op = opMostAtomic
	default:
		in.op = opMost
	}
	c.emit(in)
}

// loop emits a loop: its counter is set to 0, and an instruction before the body decides whether
// the body is matched again.
func (c *compiler) loop(n *syntax.RegexNode, in instruction) {
	in.index = c.counters
	c.counters++
	c.emit(instruction{op: opEnter, index: in.index})
	if in.op = opRepeat; n.T == syntax.NtLazyloop {
		in.op = opRepeatLeast
	}
	at := c.emit(in)
	c.node(n.Children[0])
	c.emit(instruction{op: opJump, to: at})
	c.code[at].to = len(c.code)
}

// alternate emits branches, each with a jump to where all end.
func (c *compiler) alternate(n *syntax.RegexNode, back bool) {
	at := c.emit(instruction{op: opChoose, back: back})
	var choices []choice
	var ends []int
	for _, child := range n.Children {
		choices = append(choices, choice{len(c.code), c.beginningOf(child)})
		c.node(child)
		ends = append(ends, c.emit(instruction{op: opJump}))
	}
	for _, end := range ends {
		c.code[end].to = len(c.code)
	}
	c.code[at].choices = choices
}

// capture emits a group.
func (c *compiler) capture(n *syntax.RegexNode, back bool) {
	index, ok := c.groups[n.M]
	if ok {
		c.emit(instruction{op: opOpen, index: index, back: back})
	}
	c.node(n.Children[0])
	if ok {
		c.emit(instruction{op: opClose, index: index, back: back})
	}
}
