//go:build linux && amd64

// Command amx runs a program, as go test -exec does, on a CPU with AVX-512 as if it had AMX-INT8
// and AMX-BF16, too: their instructions are illegal there, or as long as nobody asks the system for
// tiles, and where they stop a thread they are carried out in its place. It obeys the manual: sizes
// that do not fit together end the program. Encodings that this repository's kernels do not have
// are none to it. It says how many instructions there were; a run without any fails.
package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"unsafe"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "amx: want a program and its arguments")
		os.Exit(2)
	}
	status, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "amx:", err)
		os.Exit(1)
	}
	os.Exit(status)
}

// run runs a program and returns how it ended.
func run(command []string) (status int, err error) {
	runtime.LockOSThread() // the one that traces
	signal.Ignore(syscall.SIGINT)
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	pid, threads, count := cmd.Process.Pid, map[int]*thread{}, 0
	var state syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &state, 0, nil); err != nil || !state.Stopped() {
		return 0, fmt.Errorf("the program did not stop at its start: %v", err)
	}
	const killWithTracer = 1 << 20 // PTRACE_O_EXITKILL
	if err := syscall.PtraceSetOptions(pid, syscall.PTRACE_O_TRACECLONE|killWithTracer); err != nil {
		return 0, err
	}
	if err := stopAtSizes(pid, cmd.Path); err != nil {
		return 0, err
	}
	threads[pid] = &thread{id: pid}
	for id, deliver := pid, 0; ; {
		// A thread that ended meanwhile is none.
		if err := syscall.PtraceCont(id, deliver); err != nil && !errors.Is(err, syscall.ESRCH) {
			return 0, err
		}
		if id, err = syscall.Wait4(-1, &state, syscall.WALL, nil); err != nil {
			return 0, err
		}
		deliver = 0
		switch {
		case state.Exited() && id == pid && state.ExitStatus() == 0 && count == 0:
			return 0, errors.New("no instruction of AMX came")
		case state.Exited() && id == pid:
			fmt.Fprintf(os.Stderr, "amx: %d instructions\n", count)
			return state.ExitStatus(), nil
		case state.Signaled() && id == pid:
			return 0, fmt.Errorf("the program ended by %v", state.Signal())
		case !state.Stopped():
			continue
		}
		t := threads[id]
		switch {
		case t == nil: // a new thread, at its start
			threads[id] = &thread{id: id}
		case state.StopSignal() == syscall.SIGILL:
			done, err := t.carryOut()
			if err != nil {
				return 0, err
			}
			if done {
				count++
				break
			}
			deliver = int(syscall.SIGILL)
		case state.StopSignal() != syscall.SIGTRAP:
			deliver = int(state.StopSignal())
		}
	}
}

// stopAtSizes overwrites the instructions that set the sizes of tiles by illegal ones, and handles
// them: where AMX exists they are legal whether it was asked for or not.
func stopAtSizes(pid int, program string) error {
	file, err := elf.Open(program)
	if err != nil {
		return err
	}
	defer file.Close()
	text := file.Section(".text")
	if text == nil {
		return errors.New("the program has no .text")
	}
	code, err := text.Data()
	if err != nil {
		return err
	}
	for at := 0; ; at++ {
		next := bytes.Index(code[at:], []byte{vex3, 0xe2, 0x78, opConfig})
		if next < 0 {
			return nil
		}
		at += next
		address := uintptr(text.Addr) + uintptr(at)
		if _, err := syscall.PtracePokeData(pid, address, []byte{illegal}); err != nil {
			return err
		}
	}
}

// Bytes that instructions begin with; illegal is what none does.
const (
	vex3    = 0xc4
	illegal = 0x06
)

// Opcodes.
const (
	opConfig = 0x49
	opMove   = 0x4b
	opDot    = 0x5e
	opPairs  = 0x5c
)

// thread is a thread of the program, with its tiles.
type thread struct {
	id         int
	configured bool
	sizes      [8]struct{ rows, bytes int }
	tiles      [8]matrix
}

// matrix is what a tile holds.
type matrix [16][64]byte

// instruction is one of those with a VEX prefix of three bytes in the second map of opcodes.
type instruction struct {
	opcode, prefix int
	first          int // register in modrm.reg
	second, third  int // in modrm.rm, if there is no memory, and in vvvv
	memory         bool
	address        uint64
	stride         uint64 // of rows: the index register
	length         int
}

// What prefix says.
const (
	none = iota
	prefix66
	prefixF3
	prefixF2
)

// carryOut carries out the instruction that stopped the thread, if it is of AMX.
func (t *thread) carryOut() (done bool, err error) {
	var regs syscall.PtraceRegs
	if err := syscall.PtraceGetRegs(t.id, &regs); err != nil {
		return false, err
	}
	var code [16]byte // the program's last instruction is not of AMX
	if err := t.copyRows(&matrix{}, uint64(regs.Rip), 0, 1, 16, code[:], false); err != nil {
		return false, err
	}
	in, ok := decode(code[:], &regs)
	if !ok {
		return false, nil
	}
	if err := t.execute(in); err != nil {
		return false, fmt.Errorf("at %#x: %w", regs.Rip, err)
	}
	regs.Rip += uint64(in.length)
	return true, syscall.PtraceSetRegs(t.id, &regs)
}

// decode reads an instruction.
func decode(code []byte, regs *syscall.PtraceRegs) (in instruction, ok bool) {
	general := [16]uint64{regs.Rax, regs.Rcx, regs.Rdx, regs.Rbx, regs.Rsp, regs.Rbp, regs.Rsi,
		regs.Rdi, regs.R8, regs.R9, regs.R10, regs.R11, regs.R12, regs.R13, regs.R14, regs.R15}
	const secondMap = 2
	if code[0] != vex3 && code[0] != illegal || code[1]&31 != secondMap {
		return in, false
	}
	extension := func(bit int) int { return int(^code[1]>>bit&1) << 3 }
	modrm := int(code[4])
	in = instruction{opcode: int(code[3]), prefix: int(code[2] & 3), first: modrm >> 3 & 7,
		second: modrm & 7, third: int(^code[2] >> 3 & 15), length: 5}
	switch modrm >> 6 {
	case 3:
		return in, true
	case 2: // a displacement of 32 bits
		in.memory = true
	default:
		return in, false
	}
	base := in.second | extension(5)
	if in.second == 4 { // with an index register
		sib := int(code[5])
		if sib>>6 != 0 {
			return in, false
		}
		base, in.length = sib&7|extension(5), 6
		in.stride = general[sib>>3&7|extension(6)]
	}
	displacement := int32(binary.LittleEndian.Uint32(code[in.length:]))
	in.address, in.length = general[base]+uint64(int64(displacement)), in.length+4
	return in, true
}

// execute carries an instruction out.
func (t *thread) execute(in instruction) error {
	if in.opcode == opConfig && in.prefix == none {
		t.configured = false
		t.tiles, t.sizes = [8]matrix{}, [8]struct{ rows, bytes int }{}
		if in.memory {
			return t.configure(in.address)
		}
		return nil
	}
	size := t.sizes[in.first]
	switch {
	case !t.configured || size.rows == 0 || size.bytes == 0:
		return fmt.Errorf("tile %d has no size", in.first)
	case in.opcode == opConfig && in.prefix == prefixF2 && !in.memory:
		t.tiles[in.first] = matrix{}
		return nil
	case in.opcode == opMove && in.memory && (in.prefix == prefixF2 || in.prefix == prefixF3):
		store := in.prefix == prefixF3
		if !store {
			t.tiles[in.first] = matrix{}
		}
		return t.copyRows(&t.tiles[in.first], in.address, in.stride, size.rows, size.bytes, nil, store)
	case in.opcode == opDot && !in.memory, in.opcode == opPairs && in.prefix == prefixF3 && !in.memory:
		return t.multiply(in)
	}
	return fmt.Errorf("an instruction of opcode %#x and prefix %d is not known", in.opcode, in.prefix)
}

// configure reads sizes.
func (t *thread) configure(from uint64) error {
	var c [64]byte
	if err := t.copyRows(&matrix{}, from, 0, 1, 64, c[:], false); err != nil {
		return err
	}
	if c[0] != 1 || c[1] != 0 {
		return fmt.Errorf("palette %d, row %d", c[0], c[1])
	}
	for i := range t.sizes {
		rows, width := int(c[48+i]), int(binary.LittleEndian.Uint16(c[16+2*i:]))
		if rows > 16 || width > 64 || (rows == 0) != (width == 0) {
			return fmt.Errorf("tile %d of %d rows of %d bytes", i, rows, width)
		}
		t.sizes[i].rows, t.sizes[i].bytes = rows, width
	}
	t.configured = true
	return nil
}

// multiply adds products of four bytes, or of pairs of bfloat16.
func (t *thread) multiply(in instruction) error {
	sum, a, b := in.first, in.second, in.third&7
	c, x, y := t.sizes[sum], t.sizes[a], t.sizes[b]
	if sum == a || sum == b || a == b || x.rows != c.rows || y.bytes != c.bytes || c.bytes%4 != 0 ||
		x.bytes != 4*y.rows {
		return fmt.Errorf("tile %d of %v = tile %d of %v by tile %d of %v", sum, c, a, x, b, y)
	}
	number := func(e byte, sign bool) int32 {
		if sign {
			return int32(int8(e))
		}
		return int32(e)
	}
	signA, signB := in.prefix == prefixF2 || in.prefix == prefixF3,
		in.prefix == prefixF2 || in.prefix == prefix66
	for r := range c.rows {
		for j := 0; j < c.bytes; j += 4 {
			at := t.tiles[sum][r][j:]
			if in.opcode == opPairs {
				t.addPairs(at, &t.tiles[a][r], &t.tiles[b], x.bytes, j)
				continue
			}
			n := int32(binary.LittleEndian.Uint32(at))
			for k := range x.bytes {
				n += number(t.tiles[a][r][k], signA) * number(t.tiles[b][k/4][j+k%4], signB)
			}
			binary.LittleEndian.PutUint32(at, uint32(n))
		}
	}
	return nil
}

// addPairs adds to a float32 the products of a row and a column of pairs of bfloat16: the even ones
// are a chain of fused multiply-adds, and the odd ones, and their sum is added.
func (t *thread) addPairs(sum []byte, row *[64]byte, columns *matrix, size, column int) {
	number := func(x []byte) float32 {
		return math.Float32frombits(uint32(binary.LittleEndian.Uint16(x)) << 16)
	}
	var chains [2]float32
	for k := 0; k < size; k += 2 {
		chains[k/2%2] = flushedFMA(number(row[k:]), number(columns[k/4][column+k%4:]), chains[k/2%2])
	}
	c := math.Float32frombits(binary.LittleEndian.Uint32(sum))
	c = flushedFMA(c, 1, flushedFMA(chains[0], 1, chains[1]))
	binary.LittleEndian.PutUint32(sum, math.Float32bits(c))
}

// flushedFMA is a·b + c, rounded once to 24 bits as if exponents had no end; operands and results
// below 2⁻¹²⁶ are zeros of their sign.
func flushedFMA(a, b, c float32) float32 {
	for _, x := range []*float32{&a, &b, &c} {
		if math.Abs(float64(*x)) < 0x1p-126 {
			*x = float32(math.Copysign(0, float64(*x)))
		}
	}
	p, s := float64(a)*float64(b), float64(c)
	sum := p + s
	// Rounding twice is right but halfway between two float32.
	ordinary := math.Abs(sum) >= 0x1p-125 && math.Float64bits(sum)&(1<<29-1) != 1<<28
	if ordinary || sum == 0 || sum != sum {
		return float32(sum)
	}
	exact := new(big.Float).SetPrec(600).SetFloat64(p)
	exact.Add(exact, big.NewFloat(s))
	x, _ := new(big.Float).SetPrec(24).SetMode(big.ToNearestEven).Set(exact).Float64()
	if math.Abs(x) < 0x1p-126 {
		return float32(math.Copysign(0, x))
	}
	return float32(x)
}

// copyRows copies rows between the program's memory and a tile, or one to bytes.
func (t *thread) copyRows(tile *matrix, address, stride uint64, rows, width int, one []byte,
	store bool) error {
	const readFrom, writeTo = 310, 311 // process_vm_readv, process_vm_writev
	var here, there [16]syscall.Iovec
	type remote struct{ base, length uint64 }
	far := (*[16]remote)(unsafe.Pointer(&there)) // addresses of another process
	for r := range rows {
		here[r].Base, here[r].Len = &tile[r][0], uint64(width)
		if one != nil {
			here[r].Base = &one[0]
		}
		far[r] = remote{address + uint64(r)*stride, uint64(width)}
	}
	call := uintptr(readFrom)
	if store {
		call = writeTo
	}
	n, _, err := syscall.Syscall6(call, uintptr(t.id), uintptr(unsafe.Pointer(&here)), uintptr(rows),
		uintptr(unsafe.Pointer(&there)), uintptr(rows), 0)
	if err != 0 || int(n) != rows*width {
		return fmt.Errorf("%d of %d rows of %d bytes at %#x: %v", n, rows, width, address, err)
	}
	return nil
}
