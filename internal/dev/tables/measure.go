package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// genericCases are the cases for plain Go: a call of another case would last minutes.
const genericCases = "^(prefill_d64|prefill_d64_causal|bert|decode, cache|tiny)$"

// benchRuns are the arguments of attn bench that measure a machine.
func benchRuns(isa, time string) [][]string {
	return [][]string{
		{"-json", "-time", time, "-isa", isa},
		{"-json", "-time", time, "-threads", "1", "-isa", "generic", "-run", genericCases},
	}
}

// attnBench runs the command attn of this checkout.
func attnBench(stderr io.Writer, args ...string) ([]byte, error) {
	var out bytes.Buffer
	bench := exec.Command("go", append([]string{"run", "./cmd/attn", "bench"}, args...)...)
	bench.Stdout, bench.Stderr = &out, stderr
	if err := bench.Run(); err != nil {
		return nil, fmt.Errorf("attn bench %s: %w", strings.Join(args, " "), err)
	}
	return out.Bytes(), nil
}

// measureMachine writes docs/bench-NAME.json below a folder: the joined output of some runs of
// bench.
func measureMachine(folder, name string, runs [][]string,
	bench func(...string) ([]byte, error)) error {
	var all measurement
	for _, args := range runs {
		text, err := bench(args...)
		if err != nil {
			return err
		}
		var m measurement
		if err := json.Unmarshal(text, &m); err != nil {
			return fmt.Errorf("attn bench %s: %w", strings.Join(args, " "), err)
		}
		m.Commands, m.Reports = append(all.Commands, m.Commands...), append(all.Reports, m.Reports...)
		all = m
	}
	if err := all.check(); err != nil {
		return err
	}
	text, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		return err
	}
	path := filepath.Join(folder, "docs", "bench-"+name+".json")
	return os.WriteFile(path, append(text, '\n'), 0o644)
}
