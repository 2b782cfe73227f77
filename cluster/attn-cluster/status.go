package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/seed-1415985d/attn/cluster"
	"github.com/seed-1415985d/attn/internal/flags"
)

const statusAbout = `attn-cluster status

Lists the workers that announce themselves. A worker that is leaving accepts no new copies, and ends
when other workers have its copies.

`

func statusCommand(ctx context.Context, args []string, stdout, _ io.Writer) error {
	var c connection
	fs := flags.New(statusAbout)
	c.register(fs)
	wait := fs.Duration("wait", 2*time.Second, "`time` for workers to announce themselves")
	if err := flags.ParseAll(fs, args, stdout); err != nil {
		return err
	}
	link, err := c.dial("attn-cluster status")
	if err != nil {
		return err
	}
	defer func() { _ = link.Close() }() // never fails
	client, err := cluster.NewClient(link, cluster.ClientConfig{})
	if err != nil {
		return err
	}
	defer client.Close()
	select {
	case <-ctx.Done():
	case <-time.After(*wait):
	}
	workers := sorted(client.Workers())
	if err := c.refusal(link); err != nil && len(workers) == 0 {
		return err
	}
	t := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "worker\tused\tof\tsequences\tcopies\ttokens\tclients\tcalls\trefused\t"+
		"kernels\tstate\t")
	for _, w := range workers {
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t\n", w.Worker, size(w.Used),
			size(w.Memory), w.Sequences, w.Copies, w.Tokens, w.Clients, w.Calls, w.Refused, w.Kernels,
			state(&w))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return ctx.Err()
}

// state describes what a worker does.
func state(w *cluster.Status) string {
	if w.Leaving {
		return "leaving"
	}
	return "serving"
}

// sorted orders workers by name.
func sorted(all []cluster.Status) []cluster.Status {
	slices.SortFunc(all, func(a, b cluster.Status) int { return strings.Compare(a.Worker, b.Worker) })
	return all
}
