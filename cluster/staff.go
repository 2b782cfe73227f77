package cluster

// staff is a pool of goroutines with grown stacks: growing a stack on the way to the kernels costs
// a worker as much as everything else but attention.
type staff struct {
	jobs chan func()
	idle chan struct{}   // has an element for each waiting goroutine
	stop <-chan struct{} // closed when nobody waits any more
}

// mostIdle is the largest number of waiting goroutines of a staff.
const mostIdle = 16

func newStaff(stop <-chan struct{}) staff {
	return staff{make(chan func()), make(chan struct{}, mostIdle), stop}
}

// run runs a function on a waiting goroutine, or on a new one.
func (c *staff) run(f func()) {
	select {
	case c.jobs <- f:
	default:
		go c.work(f)
	}
}

// work runs f and then further functions.
func (c *staff) work(f func()) {
	for f != nil {
		f()
		f = c.next()
	}
}

// next waits for a function; nil ends the goroutine.
func (c *staff) next() (f func()) {
	select {
	case c.idle <- struct{}{}:
		defer func() { <-c.idle }()
	default:
		return nil // enough goroutines wait
	}
	select {
	case f = <-c.jobs:
	case <-c.stop:
	}
	return f
}
