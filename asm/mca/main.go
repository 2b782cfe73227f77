// Command mca runs LLVM's machine code analyser on the inner loops of the NEON
// kernels and prints a Markdown table. From the module's root:
//
//	go run ./asm/mca
//
// It finds the loops in the machine code that Go's toolchain assembles from kernel_arm64.s, not in
// the generator's text: in each kernel the innermost loop with the most FMLA instructions. The
// report is a static analysis by a model of the processor in which all loads hit the L1 cache, not
// a measurement.
package main

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// processors are the processor models that the analyser uses.
var processors = []string{"neoverse-n1", "neoverse-v2", "apple-m1"}

var kernels = []struct{ name, tile string }{
	{"score", "6 queries × 16 keys"},
	{"accumulate", "6 queries × 16 columns"},
	{"scoreRows", "4 queries × 16 keys, transposed on the way"},
}

const iterations = 1000

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "mca:", err)
		os.Exit(1)
	}
}

func run() error {
	folder, err := os.MkdirTemp("", "mca")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	binary := filepath.Join(folder, "attn.test")
	build := exec.Command("go", "test", "-c", "-o", binary, ".")
	build.Env = append(os.Environ(), "GOOS=linux", "GOARCH=arm64", "CGO_ENABLED=0")
	if _, err := output(build); err != nil {
		return err
	}
	fmt.Println("| loop | processor model | FMAs | cycles | bound by FMA units | of the bound |")
	fmt.Println("|---|---|---:|---:|---:|---:|")
	for _, k := range kernels {
		code, err := disassemble(binary, k.name+"SIMD")
		if err != nil {
			return err
		}
		loop := hottest(code)
		if loop == nil {
			return fmt.Errorf("%s has no loop with FMLA", k.name)
		}
		for _, cpu := range processors {
			if err := report(k.name+", "+k.tile, loop, cpu); err != nil {
				return err
			}
		}
	}
	return nil
}

// report prints the line of a loop on a model.
func report(name string, loop []instruction, cpu string) error {
	cycles, err := analyse(loop, cpu)
	if err != nil {
		return err
	}
	units, err := fmaUnits(cpu)
	if err != nil {
		return err
	}
	bound := float64(fmlas(loop)) / units
	fmt.Printf("| %s | %s | %d | %.1f | %.1f (%.0f units) | %.0f %% |\n", name, cpu, fmlas(loop),
		cycles, bound, units, 100*bound/cycles)
	return nil
}

// fmaUnits is the number of FMAs that the model begins in a cycle, found by a
// loop of nothing but independent ones.
func fmaUnits(cpu string) (float64, error) {
	const chains = 24
	var loop []instruction
	for i := range chains {
		loop = append(loop, instruction{text: fmt.Sprintf("fmla v%d.4s, v30.4s, v31.s[1]", i)})
	}
	cycles, err := analyse(loop, cpu)
	return math.Round(chains / cycles), err
}

// instruction is one instruction in Arm's notation.
type instruction struct {
	address, target uint64 // target of a branch, else 0
	text            string
}

var (
	codeLine = regexp.MustCompile(`^\s*([0-9a-f]+):\s+(\S.*?)\s*$`)
	branch   = regexp.MustCompile(`^(?:b\.\w+|b|cbz|cbnz|tbz|tbnz)\s.*?0x([0-9a-f]+)`)
)

// disassemble returns the instructions of an assembly function.
func disassemble(binary, function string) ([]instruction, error) {
	tool, err := find("llvm-objdump")
	if err != nil {
		return nil, err
	}
	symbol := "github.com/seed-1415985d/attn." + function + ".abi0"
	out, err := output(exec.Command(tool, "-d", "--no-show-raw-insn", "--disassemble-symbols="+symbol,
		binary))
	if err != nil {
		return nil, err
	}
	var code []instruction
	for line := range bytes.Lines(out) {
		m := codeLine.FindSubmatch(line)
		if m == nil {
			continue
		}
		text, _, _ := strings.Cut(string(m[2]), " <") // the symbol after a target
		i := instruction{text: text}
		i.address, _ = strconv.ParseUint(string(m[1]), 16, 64)
		if b := branch.FindStringSubmatch(text); b != nil {
			i.target, _ = strconv.ParseUint(b[1], 16, 64)
		}
		code = append(code, i)
	}
	if len(code) == 0 {
		return nil, fmt.Errorf("%s: no code for %s", tool, symbol)
	}
	return code, nil
}

// hottest returns the innermost loop with the most FMLA: the instructions from
// the target of a backward branch to the branch, with no other branch between.
func hottest(code []instruction) (best []instruction) {
	at := map[uint64]int{}
	for i, c := range code {
		at[c.address] = i
		start, known := at[c.target]
		if c.target == 0 || !known || c.target > c.address {
			continue
		}
		loop := code[start : i+1]
		if straight(loop[:len(loop)-1]) && fmlas(loop) > fmlas(best) {
			best = loop
		}
	}
	return best
}

func straight(code []instruction) bool {
	for _, c := range code {
		if c.target != 0 {
			return false
		}
	}
	return true
}

func fmlas(code []instruction) (n int) {
	for _, c := range code {
		if strings.HasPrefix(c.text, "fmla") {
			n++
		}
	}
	return n
}

var totalCycles = regexp.MustCompile(`Total Cycles:\s+(\d+)`)

// analyse returns the cycles of one iteration on a model.
func analyse(loop []instruction, cpu string) (float64, error) {
	tool, err := find("llvm-mca")
	if err != nil {
		return 0, err
	}
	var text strings.Builder
	text.WriteString("loop:\n")
	for _, c := range loop {
		if c.target != 0 {
			c.text = c.text[:strings.LastIndex(c.text, "0x")] + "loop"
		}
		text.WriteString("\t" + c.text + "\n")
	}
	cmd := exec.Command(tool, "-mtriple=aarch64", "-mcpu="+cpu,
		fmt.Sprintf("-iterations=%d", iterations), "-instruction-info=false", "-resource-pressure=false")
	cmd.Stdin = strings.NewReader(text.String())
	out, err := output(cmd)
	if err != nil {
		return 0, err
	}
	m := totalCycles.FindSubmatch(out)
	if m == nil {
		return 0, fmt.Errorf("%s reports no cycles:\n%s", tool, out)
	}
	cycles, err := strconv.ParseFloat(string(m[1]), 64)
	return cycles / iterations, err
}

// find returns the newest installed version of an LLVM tool.
func find(name string) (string, error) {
	for version := 25; version >= 14; version-- {
		if path, err := exec.LookPath(fmt.Sprintf("%s-%d", name, version)); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%s is not installed (package llvm): %w", name, err)
	}
	return path, nil
}

func output(cmd *exec.Cmd) ([]byte, error) {
	var problem bytes.Buffer
	cmd.Stderr = &problem
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", cmd, err, problem.Bytes())
	}
	return out, nil
}
