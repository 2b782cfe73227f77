package attn

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The instructions that kernels may use, by the feature that possible checks.
// What is not here needs a gate first.
var gatedInstructions = map[string]string{
	"x86-64": `ADDQ ANDQ ANDL BSRQ CMOVQ[A-Z]+ CMPB CMPQ CMPL CMPW DEC[QL] DIVQ INCQ IMULQ IMUL3Q J[A-Z]+
		LEAQ MOV[BWLQ] MOVBLZX MOVBQZX MOVWLZX MOVLQSX NEGQ NOTQ ORQ ORL PREFETCH(T0|T1|T2|NTA) RET
		SARQ SET[A-Z]+ SHLQ SHRQ SUB[LQ] TESTB TESTL TESTQ XORQ XORL`,
	"avx": `VADD([PS]S|PD) VAND(N)?P[SD] VBLENDPS VBLENDVPS VBROADCAST(SS|SD|F128) VCMP[PS]S VCVTDQ2PS
		VCVT(T?PS2DQ|PS2PD) VCVTPD2PSY? VDIV([PS]S|PD) VEXTRACTF128 VINSERTF128 VINSERTPS VMASKMOVPS
		VMAX([PS]S|PD) VMIN([PS]S|PD) VMOV(APS|UPS|SS|SD|D|Q|DQ[AU]|MSKPS|S[HL]DUP|HLPS|LHPS)
		VMUL([PS]S|PD) VORPS VPERM2F128 V(LD|ST)MXCSR
		VPACKUSDW VPERMILP[SD] VPEXTR[BDQW] VSHUFPS VSUB([PS]S|PD) VUCOMISS VUNPCK[HL]P[SD] VXORP[SD]
		VZEROUPPER`,
	"avx2": `VBROADCASTI128 VEXTRACTI128 VPABSB VPADD[BDQW] VPAND(N)? VPBLEND[DW] VPBROADCAST[BDQW] VGATHERDPS
		VPCMPEQ[BDW] VPCMPGT[BD] VPERM(D|PS|Q|PD|2I128) VPHADDD VPMADD(UBSW|WD) VPMAX(SD|UD)
		VPMINSB VPMOVMSKB VPMOVSXBD VPMOVZX(BD|BW|WD|DQ) VPMULL[DW] VPOR
		VPSHUFB VPSHUF(D|LW) VPACKSS(DW|WB) VPSADBW
		VPSIGNB VPSLL[DWQ] VPS[LR]LVD VPSRA[DW] VPSRL[DW] VPSRLDQ VPSUB[BDQW] VPXOR VPUNPCK[HL](BW|WD|DQ|QDQ)`,
	"fma3": `VFN?M(ADD|SUB)(132|213|231)([PS]S|PD) VFMADDSUB213PS`,
	"f16c": `VCVTPH2PS VCVTPS2PH`,
	// of 32 bytes, as macros of words
	"avxvnni":    `VPDP(BUSD|WSSD)_\d+_\d+_\d+`,
	"avx512vnni": `VPDP(WSSD|BUSD)(\.BCST)?`,
	// AMX-INT8 by words, VBMI, and what kernels with tiles have besides
	"amx": `LONG WORD BYTE VPERMT2B VMOVDQU64 VMOVDQU16\.Z VPADDD\.BCST`,
	// F, BW, DQ and VL, which come with BMI2
	"avx512": `BZHIL KMOV[WDQ] K(ORTEST|XNOR)W VBROADCAST[FI]32X4 VEXTRACTI(32X4|64X4) VPAND[DQ] VPCMPUD VPMOVDB
		VBLENDMPS VPERMW VEXTRACTF32X8 VEXTRACTI32X8 VMOV[AU]PS\.Z VMOVDQ[AU]32
		VFMADD231PS\.BCST VMULPS\.(BCST|Z) VPMULLD\.BCST VPTERNLOGD VPXOR[DQ] VPORD VMOVDQU8\.Z
		VPSRAD\.BCST VSHUFF32X4 VPTESTNMD
		VCVTDQ2PS\.BCST VEXTRACTF64X4 VINSERTF64X4 VPANDD\.Z VPBLENDM[DW] VPERMI2W VPMINUD
		VPSUBQ\.BCST VPTEST(N?MW|MD) VGET(EXP|MANT)PS VRNDSCALEPS VSCALEFPS`,
}

// allowedInstructions has the instructions of all features; of AVX-512, AVX-VNNI and AMX only where
// a kernel may have them.
func allowedInstructions(avx512, avxVNNI, amx bool) *regexp.Regexp {
	var all []string
	for gate, list := range gatedInstructions {
		if (avx512 || !strings.HasPrefix(gate, "avx512")) && (avxVNNI || gate != "avxvnni") &&
			(amx || gate != "amx") {
			all = append(all, strings.Fields(list)...)
		}
	}
	return regexp.MustCompile(`^(` + strings.Join(all, "|") + `)$`)
}

// isAVX512: the kernel is only called where there is AVX-512.
func (f *asmFunction) isAVX512() bool { return strings.Contains(f.name, "AVX512(") || f.isAMX() }

// isAVXVNNI: the kernel is only called where there is AVX-VNNI.
func (f *asmFunction) isAVXVNNI() bool { return strings.Contains(f.name, "VNNISIMD(") }

// isAMX: the kernel is only called where there is AMX.
func (f *asmFunction) isAMX() bool { return strings.Contains(f.name, "AMX(") }

var (
	vectorRegister    = regexp.MustCompile(`\b[XYZ]\d+\b`)
	avx512Register    = regexp.MustCompile(`\b([ZK]\d+|[XY](1[6-9]|2\d|3[01]))\b`)
	forbiddenRegister = regexp.MustCompile(`\b(R14|R15|[XYZ]15)\b`) // the runtime's: g, GOT, zero
)

// asmFunction is the instructions of one TEXT.
type asmFunction struct {
	file, name string
	lines      []asmLine
}

type asmLine struct {
	number       int
	op, operands string
}

func readAssembly(t *testing.T, file string) (functions []asmFunction) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(string(text), "\n") {
		line, _, _ = strings.Cut(line, "//")
		if strings.HasPrefix(line, "#") { // a definition has words of its own
			continue
		}
		for instruction := range strings.SplitSeq(line, ";") {
			op, operands, _ := strings.Cut(strings.TrimSpace(instruction), " ")
			switch {
			case op == "TEXT":
				functions = append(functions, asmFunction{file: file, name: operands})
			case op == "" || op == "DATA" || op == "GLOBL" ||
				strings.HasSuffix(op, ":"):
			default:
				f := &functions[len(functions)-1]
				f.lines = append(f.lines, asmLine{i + 1, op, operands})
			}
		}
	}
	return functions
}

// What the assembler accepts and the CPU or the runtime would not forgive.
func TestAssemblyIsGated(t *testing.T) {
	var functions []asmFunction
	for _, file := range assemblyFiles(t) {
		if strings.HasSuffix(file, "_amd64.s") {
			read := readAssembly(t, file)
			if len(read) == 0 {
				t.Errorf("%s has no functions", file)
			}
			functions = append(functions, read...)
		}
	}
	if len(functions) == 0 {
		t.Fatal("there is no assembly")
	}
	count := 0
	for _, f := range functions {
		allowed := allowedInstructions(f.isAVX512(), f.isAVXVNNI(), f.isAMX())
		if f.isAVX512() {
			count++
		}
		for _, l := range f.lines {
			fault := func(what string) {
				t.Errorf("%s:%d, %s: %s %s: %s", f.file, l.number, f.name, l.op, l.operands, what)
			}
			if vectorRegister.MatchString(l.operands) && !strings.HasPrefix(l.op, "V") {
				fault("legacy SSE, which stalls while the upper halves of YMM registers are in use")
			} else if !allowed.MatchString(l.op) {
				fault("an instruction that no gate covers")
			}
			if avx512Register.MatchString(l.operands) && !f.isAVX512() {
				fault("a register of AVX-512")
			}
			if forbiddenRegister.MatchString(l.operands) {
				fault("a register that belongs to the runtime")
			}
			if f.beyondFrame(l.operands) {
				fault("beyond the frame")
			}
		}
		f.checkReturns(t)
		if f.isAMX() {
			f.checkTiles(t)
		}
	}
	if count == 0 {
		t.Error("no kernel counts as one for AVX-512")
	}
}

// checkReturns makes sure that the upper parts of registers are clean when Go code goes on.
func (f *asmFunction) checkReturns(t *testing.T) {
	usesYMM := false
	for _, l := range f.lines {
		usesYMM = usesYMM || strings.ContainsAny(l.operands, "YZ") &&
			vectorRegister.MatchString(l.operands)
	}
	if last := f.lines[len(f.lines)-1]; last.op != "RET" && last.op != "JMP" {
		t.Errorf("%s:%d, %s: falls off its end", f.file, last.number, f.name)
	}
	for i, l := range f.lines {
		if usesYMM && l.op == "RET" && (i == 0 || f.lines[i-1].op != "VZEROUPPER") {
			t.Errorf("%s:%d, %s: RET without VZEROUPPER", f.file, l.number, f.name)
		}
	}
}

var (
	frameSize = regexp.MustCompile(`\$(\d+)-\d+$`)
	stackSlot = regexp.MustCompile(`(\d*)\(SP\)`)
)

// beyondFrame reports whether operands are on the stack and not in the kernel's frame. Vet sees no
// instructions in macros.
func (f *asmFunction) beyondFrame(operands string) bool {
	size := 0
	if m := frameSize.FindStringSubmatch(f.name); m != nil {
		size, _ = strconv.Atoi(m[1])
	}
	return slices.ContainsFunc(stackSlot.FindAllStringSubmatch(operands, -1), func(m []string) bool {
		at, _ := strconv.Atoi("0" + m[1])
		return at >= size
	})
}

// checkTiles makes sure that a kernel which has configured tiles gives them back before it returns:
// the words of tilerelease, before VZEROUPPER.
func (f *asmFunction) checkTiles(t *testing.T) {
	const configures, releases = "LONG $0x4978e2c4", "BYTE $0xc0"
	text := make([]string, len(f.lines))
	for i, l := range f.lines {
		text[i] = l.op + " " + l.operands
	}
	if !slices.Contains(text, configures) {
		t.Errorf("%s: %s configures no tiles", f.file, f.name)
	}
	for i, l := range f.lines {
		if l.op == "RET" && (i < 3 || text[i-3] != configures || text[i-2] != releases) {
			t.Errorf("%s:%d, %s: RET without tilerelease", f.file, l.number, f.name)
		}
	}
}

// The test above must see what it looks for.
func TestAssemblyCheckSees(t *testing.T) {
	allowed := allowedInstructions(false, false, false)
	for _, op := range []string{"VFMADD231PS", "VMOVUPS", "JNE", "VPBROADCASTD", "VCVTPH2PS"} {
		if !allowed.MatchString(op) {
			t.Errorf("%s is not allowed, but its gate is checked", op)
		}
	}
	for _, op := range []string{"VPTERNLOGD", "VPTERNLOGQ", "TZCNTQ", "SHLXQ", "VRNDSCALEPS",
		"POPCNTQ", "CALL", "MOVUPS", "KMOVW", "VPXORD"} {
		if allowed.MatchString(op) {
			t.Errorf("%s is allowed, but no gate covers it", op)
		}
	}
	if !allowedInstructions(true, false, false).MatchString("KMOVW") ||
		allowedInstructions(true, false, false).MatchString("VRSQRT14PS") {
		t.Error("what is gated by AVX-512 is wrong")
	}
	for _, op := range []string{"VPDPBUSD_14_12_0", "VPDPWSSD_4_2_0"} {
		if allowedInstructions(true, false, true).MatchString(op) ||
			!allowedInstructions(false, true, false).MatchString(op) {
			t.Errorf("what is gated by AVX-VNNI is wrong: %s", op)
		}
	}
	leaf := asmFunction{name: "·f(SB), NOSPLIT, $0-8"}
	deep := asmFunction{name: "·f(SB), NOSPLIT, $16-8"}
	if !leaf.beyondFrame("AX, (SP)") || !deep.beyondFrame("Y0, 16(SP)(AX*4)") ||
		deep.beyondFrame("8(SP), AX") || leaf.beyondFrame("x+0(FP), AX") {
		t.Error("what is beyond a frame is wrong")
	}
	for operands, re := range map[string]*regexp.Regexp{"Z3, Z4": avx512Register,
		"Y1, Y16, Y2": avx512Register, "K1, (AX)": avx512Register,
		"(R14), AX": forbiddenRegister, "X15, Y1, Y2": forbiddenRegister,
		"X0, ret+24(FP)": vectorRegister} {
		if !re.MatchString(operands) {
			t.Errorf("%q passes", operands)
		}
	}
}
