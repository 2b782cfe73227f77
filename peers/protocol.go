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

// Each peer runs in a process of its own for each number of threads, so that it shares no garbage
// collector, heap or threads with others. It reads requests as lines of JSON and answers each with
// a line; before the first request it writes its name and version. worker.py uses the same
// protocol.

// request prepares a case, or measures the case that was prepared last.
type request struct {
	Case    *Case   `json:"case,omitempty"`
	Dir     string  `json:"dir,omitempty"`    // the folder of the inputs
	Output  string  `json:"output,omitempty"` // the file for the result
	Seconds float64 `json:"seconds,omitempty"`
}

type answer struct {
	Version string          `json:"version,omitempty"`
	Times   []time.Duration `json:"times,omitempty"` // nanoseconds of each call
	// why the peer does not support the case, or is not on this machine
	Lacking string `json:"lacking,omitempty"`
	Error   string `json:"error,omitempty"`
}

// library is a peer that Go programs can call.
type library interface {
	version() string
	// prepare returns the call to measure, and a function that reads its result as [B, H, L, D].
	prepare(c *Case, in inputs, threads int) (call func() error, result func() []float32, err error)
}

// lacking says why a peer does not support a case, or why it is missing.
type lacking string

func (l lacking) Error() string { return string(l) }

// serve runs a worker. Its answers are free of what libraries print.
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
	took    time.Duration  // of the first call
	flush   *limits.Memory // read between calls that read all operands from memory
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

// flushBytes is far more than a cache holds. Otherwise the last level could still have the operands
// of the call before.
const flushBytes = 128 << 20

// turn makes one call to warm up, unless that takes longer than a turn, and then calls for a turn,
// at least once.
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

// ask waits for an answer. The error is lacking if the answer says that something is missing.
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
