//go:build race

package attn

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/seed-1415985d/attn/internal/kernel"
)

// raceOperand names, in the environment of a child process, the race to commit.
const raceOperand = "ATTN_TEST_RACE"

// race runs f after another goroutine has run other, but nothing that the race
// detector knows of orders the two.
func race(f func() error, other func()) error {
	var touched bool
	done := make(chan struct{})
	go func() {
		other()
		unseenSet(&touched)
		<-done // as long as it lives, the detector remembers its history
	}()
	for !unseen(&touched) {
		runtime.Gosched()
	}
	defer close(done)
	return f()
}

//go:norace
//go:noinline
func unseenSet(x *bool) { *x = true }

//go:norace
//go:noinline
func unseen(x *bool) bool { return *x }

// Operands are touched in their second half, where an annotation that is too
// short does not reach, but for the last element, which the check of the length
// reads. Many elements are, because the detector forgets some accesses.

func overwrite[T any](x []T) func() {
	return func() { copy(x[len(x)/2:len(x)-1], x) }
}

func look(x []float32) func() {
	return func() {
		for _, e := range x[len(x)/2 : len(x)-1] {
			racedSink = e
		}
	}
}

var racedSink float32

// racedOperands returns, for each operand of each function, a call with a race on it.
func racedOperands() map[string]func() error {
	races := map[string]func() error{}
	for _, lq := range []int{2, 9} { // rows as the caller has them, and packed
		attendRaces(races, fmt.Sprintf("Attend of %d queries, ", lq), lq)
	}
	vectorRaces(races)
	productRaces(races)
	rowsRaces(races)
	cacheRaces(races)
	for kind := F32; kind <= I8; kind++ {
		// rows whose kernels read the cache, and for which it is widened
		for _, lq := range []int{1, 20} {
			typedRaces(races, kind, lq)
		}
	}
	return races
}

func attendRaces(races map[string]func() error, prefix string, lq int) {
	const h, lk, d = 4, 80, 24
	r := random("race")
	p := newProblem(r, normal, shape{1, h, 1, lq, lk, d, d})
	dst, weights, lse := p.results()
	bias := tensor(r, normal, 1, 1, lq, lk)
	mask := BHLD(make([]bool, lq*lk), 1, 1, lq, lk)
	for i := range mask.Data {
		mask.Data[i] = true
	}
	opt := Options{
		Mask: mask, Bias: bias, Slopes: make([]float32, h), Sinks: make([]float32,
			h), LSE: lse, Weights: weights,
		QueryLens: []int{lq}, KeyLens: []int{lk},
	}
	for name, other := range map[string]func(){
		"q": overwrite(p.q.Data), "k": overwrite(p.k.Data), "v": overwrite(p.v.Data),
		"dst":  look(dst.Data),
		"Mask": overwrite(mask.Data), "Bias": overwrite(bias.Data), "Slopes": overwrite(opt.Slopes),
		"Sinks": overwrite(opt.Sinks),
		"LSE":   look(lse), "Weights": look(weights.Data),
		"QueryLens": func() { opt.QueryLens[0] = lq },
		"KeyLens":   func() { opt.KeyLens[0] = lk },
		"nothing":   func() {},
	} {
		races[prefix+name] = func() error {
			return race(func() error { return Attend(dst, p.q, p.k, p.v, &opt) }, other)
		}
	}
}

func vectorRaces(races map[string]func() error) {
	x, y := make([]float32, 100), make([]float32, 100)
	for name, c := range map[string]struct {
		call  func()
		other func()
	}{
		"Dot, a":         {func() { Dot(x, y) }, overwrite(x)},
		"Dot, b":         {func() { Dot(x, y) }, overwrite(y)},
		"Max, x":         {func() { Max(x) }, overwrite(x)},
		"Exp, x":         {func() { Exp(y, x) }, overwrite(x)},
		"Exp, dst":       {func() { Exp(y, x) }, look(y)},
		"ExpSum, x":      {func() { ExpSum(y, x, 0) }, overwrite(x)},
		"ExpSum, dst":    {func() { ExpSum(y, x, 0) }, look(y)},
		"Softmax, x":     {func() { Softmax(y, x) }, overwrite(x)},
		"Softmax, dst":   {func() { Softmax(y, x) }, look(y)},
		"LogSumExp, x":   {func() { LogSumExp(x) }, overwrite(x)},
		"Exp of nothing": {func() { Exp(y, x) }, func() {}},
	} {
		races[name] = func() error {
			return race(func() error { c.call(); return nil }, c.other)
		}
	}
}

func productRaces(races map[string]func() error) {
	for _, rows := range []int{2, 9} {
		r := random("race")
		a, b, dst := tensor(r, normal, 1, 1, rows, 20), tensor(r, normal, 1, 1, 20, 32), tensor(r, normal,
			1, 1, rows, 32)
		for name, other := range map[string]func(){"a": overwrite(a.Data), "b": overwrite(b.Data),
			"dst": look(dst.Data)} {
			races[fmt.Sprintf("MatMul of %d rows, %s", rows, name)] = func() error {
				return race(func() error { return MatMul(dst, a, b) }, other)
			}
			turned := BHLD(b.Data, 1, 1, 32, 20)
			races[fmt.Sprintf("MatMulTransposed of %d rows, %s", rows, name)] = func() error {
				return race(func() error { return MatMulTransposed(dst, a, turned) }, other)
			}
		}
	}
}

func rowsRaces(races map[string]func() error) {
	for _, c := range matrixConfigs {
		m, err := PackMatrix(zeros(1, 1, 64, 40), c)
		if err != nil {
			panic(err)
		}
		dst, outputs := zeros(1, 1, 20, 64), make([]int32, 20)
		for name, other := range map[string]func(){"outputs": overwrite(outputs), "dst": look(dst.Data)} {
			races[fmt.Sprintf("Rows of %v, %s", c, name)] = func() error {
				return race(func() error { return m.Rows(dst, outputs) }, other)
			}
		}
	}
}

func cacheRaces(races map[string]func() error) {
	const d, n = 24, 16
	r := random("race")
	k, v := tensor(r, normal, 1, 1, n, d), tensor(r, normal, 1, 1, n, d)
	q, dst := tensor(r, normal, 1, 1, 1, d), tensor(r, normal, 1, 1, 1, d)
	fill := func() (*Cache, error) {
		c, err := NewCache(CacheConfig{Batch: 1, KVHeads: 1, HeadDim: d, ValueDim: d, Capacity: 2 * n})
		if err == nil {
			err = c.Append(k, v)
		}
		return c, err
	}
	for name, other := range map[string]func(c *Cache){
		"Append, k":               func(*Cache) { overwrite(k.Data)() },
		"Append, v":               func(*Cache) { overwrite(v.Data)() },
		"Append, attending to it": func(c *Cache) { c.Attend(dst, q, nil) },
	} {
		races["Cache."+name] = func() error {
			c, err := fill()
			if err != nil {
				return err
			}
			return race(func() error { return c.Append(k, v) }, func() { other(c) })
		}
	}
}

// typedRaces has races on what attending over a cache of several full blocks reads and writes, and
// on what Append of a panel does.
func typedRaces(races map[string]func() error, kind Format, lq int) {
	const d, dv, n = 24, 32, 3 * Block
	r := random("race")
	k, v := tensor(r, normal, 1, 1, n, d), tensor(r, normal, 1, 1, n, dv)
	q, dst := tensor(r, normal, 1, 1, lq, d), tensor(r, normal, 1, 1, lq, dv)
	store := func(c *Cache) (keys, values []byte, keyScales, valueScales []float32) {
		keys, keyScales = c.packed.Keys(c.packed.At(0, 1))
		values, valueScales = c.packed.Values(c.packed.At(0, 1))
		return keys, values, keyScales, valueScales
	}
	operands := map[string]func(c *Cache){
		"q":       func(*Cache) { overwrite(q.Data)() },
		"dst":     func(*Cache) { look(dst.Data)() },
		"keys":    func(c *Cache) { keys, _, _, _ := store(c); overwrite(keys)() },
		"values":  func(c *Cache) { _, values, _, _ := store(c); overwrite(values)() },
		"nothing": func(*Cache) {},
	}
	if kind == I8 {
		operands["scales of keys"] = func(c *Cache) { _, _, scales, _ := store(c); overwrite(scales)() }
		operands["scales of values"] = func(c *Cache) { _, _, _, scales := store(c); overwrite(scales)() }
	}
	newCache := func() (*Cache, error) {
		return NewCache(CacheConfig{Batch: 1, KVHeads: 1, HeadDim: d, ValueDim: dv, Capacity: n,
			Format: kind})
	}
	for name, other := range operands {
		races[fmt.Sprintf("Cache of %v, Attend of %d queries, %s", kind, lq, name)] = func() error {
			c, err := newCache()
			if err != nil {
				return err
			}
			if err := c.Append(k, v); err != nil {
				return err
			}
			return race(func() error { return c.Attend(dst, q, nil) }, func() { other(c) })
		}
	}
	races[fmt.Sprintf("Cache of %v, Append of %d tokens", kind, lq)] = func() error {
		c, err := newCache()
		if err != nil {
			return err
		}
		keys, _ := c.packed.Keys(c.packed.At(0, 0))
		return race(func() error {
			return c.Append(rowsOf(k, 0, lq), rowsOf(v, 0, lq))
		}, func() { look(elements[float32](keys[:panel*d*kernel.Format(kind).Bytes()]))() })
	}
}

// The race detector does not see what assembly does, so the kernels tell it. A
// deliberate race on any operand is reported, and without one nothing is.
func TestRacesAreDetected(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name := range racedOperands() {
		for _, i := range implementations() {
			t.Run(name+"/"+i.String(), func(t *testing.T) {
				child := exec.Command(self, "-test.run=^TestCommitRace$")
				child.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", raceOperand+"="+name,
					"ATTN_ISA="+i.String(), "ATTN_TEST_REQUIRE=")
				out, _ := child.CombinedOutput() // a race makes it fail
				if !strings.Contains(string(out), "race committed") {
					t.Fatalf("the child did not come to its end:\n%s", out)
				}
				want := !strings.HasSuffix(name, "nothing")
				if got := strings.Contains(string(out), "WARNING: DATA RACE"); got != want {
					t.Errorf("race reported: %v, want %v\n%s", got, want, out)
				}
			})
		}
	}
}

// TestCommitRace does nothing but in the child process of TestRacesAreDetected.
func TestCommitRace(t *testing.T) {
	name := os.Getenv(raceOperand)
	if name == "" {
		return
	}
	commit := racedOperands()[name]
	if commit == nil {
		t.Fatalf("no race is called %q", name)
	}
	if err := commit(); err != nil {
		t.Fatal(err)
	}
	fmt.Println("race committed")
}
