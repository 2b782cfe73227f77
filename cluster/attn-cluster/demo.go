package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/cluster"
)

// demo spreads a long context over four workers, decodes, and compares each token with one machine.
func demo(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f := flag.NewFlagSet("attn-cluster demo", flag.ContinueOnError)
	f.SetOutput(stderr)
	quick := f.Bool("quick", false, "a shorter context, and fewer tokens")
	if err := parse(f, args); err != nil {
		return err
	}
	d := show{out: stdout, context: 256 << 10, steps: 50,
		config: cluster.ClientConfig{Patience: 500 * time.Millisecond, Gone: 2 * time.Second}}
	if *quick {
		d.context, d.steps, d.config.Segments = 32<<10, 16, 2
	}
	l, err := newLocal(ctx, 4, 1<<30, d.config, stderr)
	if err != nil {
		return err
	}
	defer l.close()
	d.local = l
	fmt.Fprintf(stdout, "A NATS server and 4 workers run on this machine: 8 query heads over 2 "+
		"key/value heads of %d, %d tokens.\n", headDim, d.context)
	if err := d.run(ctx, attn.F32, false, "w1"); err != nil {
		return err
	}
	if err := l.start("w1"); err != nil {
		return err
	}
	if err := l.client.Wait(ctx, 4); err != nil {
		return err
	}
	if err := d.run(ctx, attn.I8, true, "w2"); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "\nChecked: %d of %d decoded tokens, in F32 and in I8 with integer products, "+
		"have the bits of one machine,\nbefore and after a worker was killed in each run.\n", d.same,
		2*d.steps)
	return nil
}

// show is a run of the demo.
type show struct {
	*local
	out            io.Writer
	config         cluster.ClientConfig
	context, steps int
	same           int // tokens with equal bits
}

// run fills a sequence and decodes; half-way it kills a worker.
func (d *show) run(ctx context.Context, format attn.Format, int8 bool, victim string) error {
	t, err := d.newTrial(format, int8, d.context+d.steps)
	if err != nil {
		return err
	}
	defer t.close()
	start := time.Now()
	for at := 0; at < d.context; at += 8192 {
		if err := t.append(ctx, min(8192, d.context-at)); err != nil {
			return err
		}
	}
	fmt.Fprintf(d.out, "\n%v, products in integers: %v. Two copies of each part were written in %.1f "+
		"s.\n\n%8s %10s %12s %12s  %s\n", format, int8, time.Since(start).Seconds(), "token", "workers",
		"bytes", "latency", "bits")
	times := make([]time.Duration, 0, d.steps)
	for step := range d.steps {
		note := "those of one machine"
		if step == d.steps/2 {
			d.kill(victim)
			note += ", " + victim + " was killed"
		}
		before := d.link.Conn().Stats()
		if err := t.append(ctx, 1); err != nil {
			return err
		}
		start := time.Now()
		if err := t.attend(ctx); err != nil {
			return err
		}
		took := time.Since(start)
		times = append(times, took)
		if err := t.compare(); err != nil {
			return err
		}
		d.same++
		after := d.link.Conn().Stats()
		if step%5 == 0 || step == d.steps/2 || step == d.steps-1 {
			fmt.Fprintf(d.out, "%8d %10d %12d %12v  %s\n", t.near.Len(), len(d.client.Workers()),
				after.InBytes+after.OutBytes-before.InBytes-before.OutBytes, took.Round(10*time.Microsecond),
				note)
		}
	}
	slices.Sort(times)
	fmt.Fprintf(d.out, "Latency of a step: median %v, 99th percentile %v.\n",
		times[len(times)/2].Round(10*time.Microsecond),
		times[len(times)*99/100].Round(10*time.Microsecond))
	return nil
}
