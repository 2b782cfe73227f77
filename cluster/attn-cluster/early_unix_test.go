//go:build unix

package main

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// A command that an interrupt ends early says so in a line, prints what it has until then, and ends
// with its status. As on a terminal, its workers get the interrupt, too.
func TestEndedEarly(t *testing.T) {
	for _, x := range []struct {
		name  string
		args  string
		begun string // what is written when there is something to print
		want  []string
	}{
		{"demo while it fills", "demo -tokens 1048576", "of one thread", []string{"Spread "}},
		{"demo", "demo -tokens 16384 -steps 100000", "\ntoken  1 ",
			[]string{"tokens with the bits of one machine. A step"}},
		{"bench", "bench -tokens 512,1048576 -workers 1 -n 400", "\n| 512 | 1 |", nil},
		{"bench of batches", "bench -tokens 512,524288 -workers 2 -n 200 -batch 2", "\n| 512 | 2 |", nil},
		{"bench of appends", "bench -append -tokens 4096,1048576 -n 2", "\n| 4096 | 2 | I4", nil},
		{"soak", "soak -for 10m -round 1s", "round 1: ", []string{"Until then: ", "no token was lost"}},
		{"status", "status -wait 1m -url SERVER", "", []string{"worker"}},
	} {
		t.Run(x.name, func(t *testing.T) {
			if strings.Contains(x.args, "SERVER") {
				x.args = strings.ReplaceAll(x.args, "SERVER", startServer(t, server.Options{}))
			}
			c := startInterruptible(t, x.args)
			if c.out.await(t, x.begun); x.begun == "" {
				time.Sleep(time.Second)
			}
			time.Sleep(200 * time.Millisecond) // something else has begun
			status, took := c.interrupt(t)
			name, _, _ := strings.Cut(x.args, " ")
			if want := "attn-cluster " + name + ": ended early: interrupt"; status != 130 ||
				!strings.HasPrefix(c.errs.String(), want) || strings.Count(c.errs.String(), "\n") != 1 {
				t.Errorf("status %d, stderr %q, want 130 and a line with %q", status, c.errs, want)
			}
			for _, want := range x.want {
				if !strings.Contains(c.out.String(), want) {
					t.Errorf("no %q in\n%s", want, c.out)
				}
			}
			if took > 20*time.Second {
				t.Errorf("it took %v to end", took)
			}
		})
	}
}

// What was measured of a row that is not complete is printed, and how much of it there is.
func TestRowsEndEarly(t *testing.T) {
	for _, args := range []string{"bench -tokens 131072 -workers 1 -n 130000",
		"bench -tokens 65536 -workers 2 -n 65000 -batch 2",
		"bench -append -tokens 1024 -n 10000000"} {
		for wait := 2 * time.Second; ; wait *= 2 { // until it is long enough to begin on this machine
			c := startInterruptible(t, args)
			time.Sleep(wait)
			status, _ := c.interrupt(t)
			if status != 130 {
				t.Fatalf("%s: status %d, stderr %q", args, status, c.errs)
			}
			tokens := strings.Fields(args[strings.Index(args, "-tokens "):])[1]
			if row := "\n| " + tokens + " | "; strings.Contains(c.out.String(), row) {
				if want := ": the last row is of "; !strings.Contains(c.errs.String(), want) {
					t.Errorf("%s: stderr %q, want %q", args, c.errs, want)
				}
				break
			}
			if wait > time.Minute {
				t.Fatalf("%s: no row after %v in\n%s", args, wait, c.out)
			}
		}
	}
}

// A worker that is to serve, and is interrupted, has done what it was to do.
func TestServeIsInterrupted(t *testing.T) {
	url := startServer(t, server.Options{})
	c := startInterruptible(t, "serve -memory 64MiB -name w -url "+url)
	c.out.await(t, " kernels\n")
	if status, _ := c.interrupt(t); status != 0 || c.errs.String() != "" ||
		!strings.Contains(c.out.String(), "worker w has stopped") {
		t.Errorf("status %d, stderr %q, stdout %q", status, c.errs, c.out)
	}
}

// interruptible is a command in a process group of its own, as a shell starts it.
type interruptible struct {
	*exec.Cmd
	out, errs *output
}

func startInterruptible(t *testing.T, args string) *interruptible {
	t.Helper()
	program, err := os.Executable()
	must(t, err)
	c := &interruptible{Cmd: exec.Command(program, strings.Fields(args)...)}
	c.out, c.errs = new(output), new(output)
	c.Stdout, c.Stderr = c.out, c.errs
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	must(t, c.Start())
	t.Cleanup(func() { _ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) })
	return c
}

// interrupt sends an interrupt to all processes of the group, as a terminal does, and waits for the
// end of all. It returns the status and how long that took.
func (c *interruptible) interrupt(t *testing.T) (status int, took time.Duration) {
	t.Helper()
	start := time.Now()
	must(t, syscall.Kill(-c.Process.Pid, syscall.SIGINT))
	_ = c.Wait() // the status says it
	took = time.Since(start)
	for range 500 {
		if err := syscall.Kill(-c.Process.Pid, 0); err != nil {
			return c.ProcessState.ExitCode(), took
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("processes of %v are still there", c.Args[1:])
	return c.ProcessState.ExitCode(), took
}
