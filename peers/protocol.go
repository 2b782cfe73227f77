package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/seed-1415985d/attn/internal/limits"
	"github.com/seed-1415985d/attn/internal/measure"
)

// Each peer runs in a process of its own for each number of threads, so that none shares a garbage
// collector, a heap or threads with another. It takes requests as lines of JSON and answers each
// with a line: first, unasked, who it is. worker.py speaks the same.

// request prepares a case, or measures the case that was prepared last.
type request struct {
	Case    *Case   `json:"case,omitempty"`
	Dir     string  `json:"dir,omitempty"`    // where the inputs are
	Output  string  `json:"output,omitempty"` // where to write the result
	Seconds float64 `json:"seconds,omitempty"`
}

type answer struct {
	Version string          `json:"version,omitempty"`
	Times   []time.Duration `json:"times,omitempty"` // nanoseconds of each call
	// why the peer does not have the case, or is not there at all
	Lacking string `json:"lacking,omitempty"`
	Error   string `json:"error,omitempty"`
}

// library is a peer that Go programs can call.
type library interface {
	version() string
	// prepare returns the call to measure, and what reads its result as [B, H, L, D].
	prepare(c *Case, in inputs, threads int) (call func() error, result func() []float32, err error)
}

// lacking is why a peer does not have a case, or why it is not there.
type lacking string

func (l lacking) Error() string { return string(l) }

// serve is a worker. It keeps what libraries print out of its answers.
func serve(in io.Reader, out io.Writer, open func() (library, error), threads int) error {
	answers := json.NewEncoder(out)
	lib, err := open()
	if err != nil {
		return answers.Encode(answerOf(nil, err))
	}
	if err := answers.Encode(answer{Version: lib.version()}); err != nil {
		return err
	}
	w := worker{lib: lib, threads: threads}
	requests := json.NewDecoder(in)
	for {
		var r request
		if err := requests.Decode(&r); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := answers.Encode(answerOf(w.do(r))); err != nil {
			return err
		}
	}
}

func answerOf(times []time.Duration, err error) answer {
	var l lacking
	if errors.As(err, &l) {
		return answer{Lacking: string(l)}
	}
	if err != nil {
		return answer{Error: err.Error()}
	}
	return answer{Times: times}
}

type worker struct {
	lib     library
	threads int
	call    func() error
	took    time.Duration  // by the first call
	flush   *limits.Memory // read between calls that read all of their operands from memory
}

func (w *worker) do(r request) (times []time.Duration, err error) {
	if r.Case != nil {
		return nil, w.prepare(r)
	}
	return w.turn(time.Duration(r.Seconds * 1e9))
}

func (w *worker) prepare(r request) error {
	w.call, w.flush = nil, nil
	closeModel()
	in, err := readInputs(r.Dir)
	if err != nil {
		return err
	}
	call, result, err := w.lib.prepare(r.Case, in, w.threads)
	if err != nil {
		return err
	}
	start := time.Now()
	if err := call(); err != nil {
		return err
	}
	w.call, w.took = call, time.Since(start)
	if r.Case.decode() {
		w.flush = limits.NewMemory(limits.For("avx2"), 1, flushBytes)
	}
	return writeFloats(r.Output, result())
}

// flushBytes is far more than a cache holds. A result of the last level could otherwise come from
// the call before.
const flushBytes = 128 << 20

// turn calls once to get warm, unless that takes longer than a turn, and then for so long, at least
// once.
func (w *worker) turn(long time.Duration) (times []time.Duration, err error) {
	if w.took < long {
		if err := w.call(); err != nil {
			return nil, err
		}
	}
	var before func()
	if w.flush != nil {
		before = func() { w.flush.Read() }
	}
	return measure.Repeat(long, 1, before, w.call)
}

// client is the other end of a worker.
type client struct {
	requests io.WriteCloser
	answers  *bufio.Reader
}

// ask waits for an answer; if it says that something is lacking, that is the error.
func (c *client) ask(r *request) (a answer, err error) {
	if r != nil {
		if err := json.NewEncoder(c.requests).Encode(r); err != nil {
			return a, err
		}
	}
	line, err := c.answers.ReadBytes('\n')
	if err != nil {
		return a, fmt.Errorf("no answer: %w", err)
	}
	if err := json.Unmarshal(line, &a); err != nil {
		return a, fmt.Errorf("answer %q: %w", line, err)
	}
	switch {
	case a.Lacking != "":
		return a, lacking(a.Lacking)
	case a.Error != "":
		return a, errors.New(a.Error)
	}
	return a, nil
}

// compute prepares a case and returns its result.
func (c *client) compute(k *Case, dir string) ([]float32, error) {
	output := filepath.Join(dir, "output")
	defer os.Remove(output)
	if _, err := c.ask(&request{Case: k, Dir: dir, Output: output}); err != nil {
		return nil, err
	}
	return readFloats(output)
}
