//go:build unix

package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// What Windows has not: links for everybody, and interrupts that a program sends.

// A link to a file that does not exist yet stays one.
func TestOutputBehindALink(t *testing.T) {
	f := newFolder(t)
	var o outputs
	defer o.discard()
	if err := errors.Join(os.Symlink("there.npy", f.path("link.npy")), o.add(f.path("link.npy"), writeBytes([]byte("new"))), o.commit()); err != nil {
		t.Fatal(err)
	}
	if to, err := os.Readlink(f.path("link.npy")); to != "there.npy" {
		t.Errorf("the link leads to %q, error %v", to, err)
	}
	if b, err := os.ReadFile(f.path("there.npy")); string(b) != "new" {
		t.Errorf("the file holds %q, error %v", b, err)
	}
}

// Nothing stays behind when the program is interrupted while it writes. The test runs itself.
func TestInterrupt(t *testing.T) {
	if dir := os.Getenv("ATTN_TEST_INTERRUPT"); dir != "" {
		var o outputs
		o.add(filepath.Join(dir, "first.npy"), writeBytes(nil))
		o.add(filepath.Join(dir, "out.npy"), func(io.Writer) error {
			os.Stdout.WriteString("writing\n")
			time.Sleep(time.Minute)
			return nil
		})
		return
	}
	dir := t.TempDir()
	self := exec.Command(os.Args[0], "-test.run=^TestInterrupt$")
	self.Env = append(os.Environ(), "ATTN_TEST_INTERRUPT="+dir)
	out, err := self.StdoutPipe()
	if err == nil {
		err = self.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	io.ReadFull(out, make([]byte, len("writing")))
	before, _ := os.ReadDir(dir)
	self.Process.Signal(os.Interrupt)
	if err := self.Wait(); err == nil {
		t.Error("the program went on")
	}
	if after, _ := os.ReadDir(dir); len(before) != 2 || len(after) != 0 {
		t.Errorf("files while it wrote: %v, after: %v", before, after)
	}
}
