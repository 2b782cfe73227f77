//go:build unix

package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// What Windows has not: links for everybody, and interrupts that a program sends.

// A link to a file that does not exist yet stays one.
func TestOutputBehindALink(t *testing.T) {
	f := newFolder(t)
	var o outputs
	defer o.discard()
	if err := errors.Join(os.Symlink("there.npy", f.path("link.npy")),
		o.add(f.path("link.npy"), writeBytes([]byte("new"))), o.commit()); err != nil {
		t.Fatal(err)
	}
	if to, err := os.Readlink(f.path("link.npy")); to != "there.npy" {
		t.Errorf("the link leads to %q, error %v", to, err)
	}
	if b, err := os.ReadFile(f.path("there.npy")); string(b) != "new" {
		t.Errorf("the file holds %q, error %v", b, err)
	}
}

// Nothing stays behind when a signal ends the program while it writes, and its parent learns which
// one did. What was ignored from the start stays so, as nohup and background jobs of a shell want
// it. The test runs itself.
func TestSignals(t *testing.T) {
	if dir := os.Getenv("ATTN_TEST_SIGNALS"); dir != "" {
		writeUntilEOF(dir)
		return
	}
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT,
		syscall.SIGTERM} {
		if signal.Ignored(s) {
			continue // by whoever runs the tests
		}
		dir := t.TempDir()
		during, after, err := interrupted(t, s, dir, time.Minute, os.Args[0])
		status, _ := errors.AsType[*exec.ExitError](err)
		switch {
		case len(during) != 2 || len(after) != 0:
			t.Errorf("%v: files while it wrote: %v, after: %v", s, during, after)
		case status == nil:
			t.Errorf("%v: the program went on", s)
		case s == syscall.SIGQUIT: // Go's own way is a trace of all goroutines
		case status.Sys().(syscall.WaitStatus).Signal() != s:
			t.Errorf("%v: it ended with %v", s, status)
		}
	}
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT} {
		dir := t.TempDir()
		_, after, err := interrupted(t, s, dir, 100*time.Millisecond, "sh", "-c",
			`trap "" HUP INT; exec "$0" "$@"`, os.Args[0]) // what is not ignored has long come
		if err != nil || len(after) != 2 {
			t.Errorf("%v, which is ignored: %v, files are %v", s, err, after)
		}
	}
}

// writeUntilEOF writes two files, the second one until standard input ends.
func writeUntilEOF(dir string) {
	var o outputs
	defer o.discard()
	o.add(filepath.Join(dir, "first.npy"), writeBytes(nil))
	o.add(filepath.Join(dir, "out.npy"), func(io.Writer) error {
		os.Stdout.WriteString("writing\n")
		io.Copy(io.Discard, os.Stdin)
		return nil
	})
	o.commit()
}

// interrupted sends a signal to a process that writes, ends its input after a while, and returns
// the files before and after.
func interrupted(t *testing.T, s os.Signal, dir string, while time.Duration, command ...string) (
	during, after []os.DirEntry, err error) {
	self := exec.Command(command[0], append(command[1:], "-test.run=^TestSignals$")...)
	self.Env = append(os.Environ(), "ATTN_TEST_SIGNALS="+dir)
	out, err1 := self.StdoutPipe()
	in, err2 := self.StdinPipe()
	if err := errors.Join(err1, err2, self.Start()); err != nil {
		t.Fatal(err)
	}
	io.ReadFull(out, make([]byte, len("writing")))
	during, _ = os.ReadDir(dir)
	self.Process.Signal(s)
	defer time.AfterFunc(while, func() { in.Close() }).Stop()
	io.Copy(io.Discard, out)
	err = self.Wait()
	after, _ = os.ReadDir(dir)
	return during, after, err
}

// ended replaces the end of the program by a message.
func ended(t *testing.T) chan os.Signal {
	signals := make(chan os.Signal, 1)
	end = func(s os.Signal) { signals <- s }
	t.Cleanup(func() { end = endBySignal })
	return signals
}

// A signal waits while files move into their places: all or none are there when the program ends.
func TestSignalWaitsForCommit(t *testing.T) {
	signals := ended(t)
	f := newFolder(t)
	var o outputs
	for _, name := range []string{"lse.npy", "out.npy"} {
		if err := o.add(f.path(name), writeBytes(nil)); err != nil {
			t.Fatal(err)
		}
	}
	o.mu.Lock() // as commit does
	syscall.Kill(os.Getpid(), syscall.SIGTERM)
	select {
	case <-signals:
		t.Error("it did not wait")
	case <-time.After(100 * time.Millisecond):
	}
	if names := f.names(); len(names) != 2 {
		t.Errorf("while files move there are %v", names)
	}
	o.mu.Unlock()
	if s := <-signals; s != syscall.SIGTERM || len(f.names()) != 0 {
		t.Errorf("%v left %v", s, f.names())
	}
	o.stop()
}

// A signal ends the process that this one waits for.
func TestSignalEndsAChild(t *testing.T) {
	signals := ended(t)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	defer write.Close()
	child := exec.Command("sh", "-c", "echo; exec sleep 60")
	child.Stdout = write
	go func() {
		read.Read(make([]byte, 1))                 // until it runs
		syscall.Kill(os.Getpid(), syscall.SIGQUIT) // SIGHUP may be ignored
	}()
	x := watchInterrupts()
	defer x.stop()
	if err := x.run(child); err == nil || child.ProcessState.Success() {
		t.Errorf("error %v, state %v", err, child.ProcessState)
	}
	<-signals
	y := watchInterrupts()
	defer y.stop()
	if err := y.run(exec.Command(filepath.Join(t.TempDir(), "none"))); !errors.Is(err,
		os.ErrNotExist) {
		t.Errorf("a program that does not exist: %v", err)
	}
}

// benchInGroup starts a benchmark in a process group of its own, as a shell does, and waits until
// it announces its duration.
func benchInGroup(t *testing.T, args ...string) (bench *exec.Cmd, stdout, stderr *syncBuffer) {
	t.Helper()
	bench = exec.Command(os.Args[0], append([]string{"bench", "-run", "^tiny$", "-isa", "generic",
		"-threads", "1"}, args...)...)
	bench.Env = append(os.Environ(), asCommand+"=1")
	stdout, stderr = new(syncBuffer), new(syncBuffer)
	bench.Stdout, bench.Stderr = stdout, stderr
	bench.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := bench.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Kill(-bench.Process.Pid, syscall.SIGKILL) })
	for !strings.Contains(stderr.String(), "cases take about") { // of the child
		time.Sleep(10 * time.Millisecond)
	}
	return bench, stdout, stderr
}

// syncBuffer is a buffer that may be read meanwhile.
type syncBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// No process goes on to measure when the one that waits for it is ended: by a signal that it does
// not know, by a second one, or at once.
func TestBenchEndsItsChild(t *testing.T) {
	for _, signals := range [][]syscall.Signal{{syscall.SIGHUP}, {syscall.SIGTERM, syscall.SIGTERM},
		{syscall.SIGKILL}} {
		bench, _, _ := benchInGroup(t, "-time", "10m")
		for i, s := range signals {
			if i > 0 {
				time.Sleep(10 * time.Millisecond) // or they are one
			}
			bench.Process.Signal(s)
		}
		ended := time.AfterFunc(time.Minute, func() {
			t.Errorf("%v: the child still has its outputs", signals)
			syscall.Kill(-bench.Process.Pid, syscall.SIGKILL)
		})
		bench.Wait() // until nobody has its outputs
		ended.Stop()
	}
}

// A benchmark that is interrupted prints what it has measured, says so in a line, and ends with the
// status of an interrupt. As on a terminal, its child gets the interrupt, too.
func TestBenchEndsEarly(t *testing.T) {
	wait := 4 * time.Second // about 3 s for the limits of the machine, then 3 for the case
	for _, x := range []struct {
		signal syscall.Signal
		status int
		format string
	}{{syscall.SIGINT, 130, "-json=false"}, {syscall.SIGINT, 130, "-json"},
		{syscall.SIGTERM, 143, "-go"}} {
		out, tries := "", 0
		for ; out == "" && tries < 20; tries++ {
			var status int
			status, out = interruptBench(t, x.signal, wait, x.format)
			switch {
			case status == 0: // it was done
				wait, out = wait-time.Second/2, ""
			case status != x.status:
				t.Fatalf("%v: status %d, want %d", x.signal, status, x.status)
			case out == "": // nothing was measured yet
				wait += 3 * time.Second / 4
			}
		}
		if !strings.Contains(out, "tiny") {
			t.Fatalf("%v: after %d tries, the last of %v, it prints %q", x.signal, tries, wait, out)
		}
		var b benchmark
		if err := json.Unmarshal([]byte(out), &b); x.format == "-json" && (err != nil || !b.Early ||
			len(b.Reports) != 1 || len(b.Reports[0].Results) != 1) {
			t.Errorf("%v, %v: %s", x.signal, err, out)
		}
	}
}

// interruptBench sends a signal to a benchmark after a while, and returns how it ended.
func interruptBench(t *testing.T, s syscall.Signal, wait time.Duration, format string) (status int,
	out string) {
	t.Helper()
	picture := filepath.Join(t.TempDir(), "bench.png")
	bench, stdout, stderr := benchInGroup(t, "-time", "3s", format, "-png", picture)
	time.Sleep(wait)
	before := stderr.String()
	syscall.Kill(-bench.Process.Pid, s)
	start := time.Now()
	bench.Wait() // the status says it
	took, said := time.Since(start), strings.TrimPrefix(stderr.String(), before)
	_, err := os.Stat(picture)
	status = bench.ProcessState.ExitCode()
	if status == 0 || status < 0 && err == nil { // all was done, if only the process was left to end
		return 0, stdout.String()
	}
	if want := "attn bench: ended early: " + s.String() + "\n"; took > 20*time.Second ||
		strings.Count(said, want) != 1 {
		t.Errorf("%v: it ended after %v, stderr %q, want %q", s, took, said, want)
	}
	if err == nil {
		t.Errorf("%v: a picture is drawn of a part", s)
	}
	return status, stdout.String()
}

// What a path means depends on the links in it, also if there is no such file yet.
func TestOutputAboveALink(t *testing.T) {
	f := newFolder(t)
	if err := errors.Join(os.MkdirAll(f.path("far/away"), 0o777),
		os.Symlink("far/away", f.path("near"))); err != nil {
		t.Fatal(err)
	}
	var o outputs
	defer o.discard()
	if err := errors.Join(o.add(f.dir+"/near/../out.npy", writeBytes(nil)), o.commit()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(f.path("far/out.npy")); err != nil {
		t.Errorf("%v, but there are %v", err, f.names())
	}
}

// A full disk, or here a limit on the size of files, is an error before anything appears. The test
// runs itself.
func TestNoSpaceForOutputs(t *testing.T) {
	if flag.NArg() > 0 {
		os.Exit(runLimited(t))
	}
	f := newFolder(t)
	for i, name := range []string{"q.npy", "k.npy", "v.npy"} {
		f.random(name, uint64(i), 200, 64)
	}
	self := exec.Command(os.Args[0], "-test.run=^TestNoSpaceForOutputs$", "run",
		"-q", f.path("q.npy"), "-k", f.path("k.npy"), "-v", f.path("v.npy"), "-lse", f.path("lse.npy"),
		"-o", f.path("out.npy"))
	var stdout, stderr strings.Builder
	self.Stdout, self.Stderr = &stdout, &stderr
	self.Run()
	checkRefusal(t, 1, self.ProcessState.ExitCode(), stdout.String(), stderr.String(),
		"out.npy: file too large")
	if names := f.names(); len(names) != 3 {
		t.Errorf("files are %v", names)
	}
}

// runLimited runs the command with files of at most 8 KiB. The program that measures coverage
// writes larger ones.
func runLimited(t *testing.T) int {
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	defer syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE,
		&syscall.Rlimit{Cur: 8192, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	return realMain(flag.Args(), os.Stdout, os.Stderr)
}

// A file of more elements than there is memory for is an error, and no trace of the runtime. A
// shell limits the memory of the command.
func TestMemoryOfFiles(t *testing.T) {
	if runtime.GOOS != "linux" || strconv.IntSize < 64 {
		return // where the limit is not obeyed, or is beyond all addresses
	}
	f := newFolder(t)
	f.random("small.npy", 1, 16, 128)
	const header = "{'descr': '<f4', 'fortran_order': %s, 'shape': (8388608, 128)}"
	for order, name := range map[string]string{"False": "large.npy", "True": "fortran.npy"} {
		text := fmt.Sprintf(header, order)
		f.write(name, append([]byte("\x93NUMPY\x01\x00"+string(rune(len(text)))+"\x00"), text...))
		if err := os.Truncate(f.path(name), 10+int64(len(text))+4<<30); err != nil {
			t.Fatal(err)
		}
		for _, limit := range []string{"2000000", "4400000"} {
			large, small := f.path(name), f.path("small.npy")
			self := exec.Command("sh", "-c", `ulimit -v "$0" && exec "$@"`, limit, os.Args[0], "run",
				"-q", large, "-k", small, "-v", small, "-o", f.path("out.npy"))
			self.Env = append(os.Environ(), asCommand+"=1")
			var stdout, stderr strings.Builder
			self.Stdout, self.Stderr = &stdout, &stderr
			self.Run()
			checkRefusal(t, 1, self.ProcessState.ExitCode(), stdout.String(), stderr.String(),
				name+": needs 4.0 GiB of memory")
		}
	}
}

// An input that is a fifo is refused, and not waited for.
func TestFifos(t *testing.T) {
	f := refusalFolder(t)
	if err := syscall.Mkfifo(f.path("fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"-q", "-mask", "-bias", "-sinks", "-labels"} {
		status, stdout, stderr := f.run("-png", "@heat.png", name, "@fifo")
		checkRefusal(t, 1, status, stdout, stderr, "fifo: not a regular file")
	}
}
