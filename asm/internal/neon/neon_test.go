package neon

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// words has every encoded instruction twice: with all registers 0, where the
// word is the base word, and with registers and lanes that set every field.
var words = []struct {
	emit func(a *Asm)
	want string
}{
	{func(a *Asm) { a.Fadd(0, 0, 0) }, "0x4e20d400 // fadd v0.4s, v0.4s, v0.4s"},
	{func(a *Asm) { a.Fsub(0, 0, 0) }, "0x4ea0d400 // fsub v0.4s, v0.4s, v0.4s"},
	{func(a *Asm) { a.Fmul(0, 0, 0) }, "0x6e20dc00 // fmul v0.4s, v0.4s, v0.4s"},
	{func(a *Asm) { a.Fdiv(0, 0, 0) }, "0x6e20fc00 // fdiv v0.4s, v0.4s, v0.4s"},
	{func(a *Asm) { a.Fmax(0, 0, 0) }, "0x4e20f400 // fmax v0.4s, v0.4s, v0.4s"},
	{func(a *Asm) { a.Fmin(0, 0, 0) }, "0x4ea0f400 // fmin v0.4s, v0.4s, v0.4s"},
	{func(a *Asm) { a.Fmaxnm(0, 0, 0) }, "0x4e20c400 // fmaxnm v0.4s, v0.4s, v0.4s"},
	{func(a *Asm) { a.Fcmgt(0, 0, 0) }, "0x6ea0e400 // fcmgt v0.4s, v0.4s, v0.4s"},
	{func(a *Asm) { a.Fcmge(0, 0, 0) }, "0x6e20e400 // fcmge v0.4s, v0.4s, v0.4s"},
	{func(a *Asm) { a.Fcmeq(0, 0, 0) }, "0x4e20e400 // fcmeq v0.4s, v0.4s, v0.4s"},
	{func(a *Asm) { a.FmulLane(0, 0, 0, 0) }, "0x4f809000 // fmul v0.4s, v0.4s, v0.s[0]"},
	{func(a *Asm) { a.FmlaLane(0, 0, 0, 0) }, "0x4f801000 // fmla v0.4s, v0.4s, v0.s[0]"},
	{func(a *Asm) { a.FmlaLane(0, 0, 0, 1) }, "0x4fa01000 // fmla v0.4s, v0.4s, v0.s[1]"},
	{func(a *Asm) { a.FmlaLane(0, 0, 0, 2) }, "0x4f801800 // fmla v0.4s, v0.4s, v0.s[2]"},
	{func(a *Asm) { a.FmlaLane(0, 0, 0, 3) }, "0x4fa01800 // fmla v0.4s, v0.4s, v0.s[3]"},
	{func(a *Asm) { a.SdotLane(0, 0, 0, 0) }, "0x4f80e000 // sdot v0.4s, v0.16b, v0.4b[0]"},
	{func(a *Asm) { a.FmlsLane(0, 0, 0, 0) }, "0x4f805000 // fmls v0.4s, v0.4s, v0.s[0]"},
	{func(a *Asm) { a.Fabs(0, 0) }, "0x4ea0f800 // fabs v0.4s, v0.4s"},
	{func(a *Asm) { a.Scvtf(0, 0) }, "0x4e21d800 // scvtf v0.4s, v0.4s"},
	{func(a *Asm) { a.Fcvtzs(0, 0) }, "0x4ea1b800 // fcvtzs v0.4s, v0.4s"},
	{func(a *Asm) { a.Fcvtns(0, 0) }, "0x4e21a800 // fcvtns v0.4s, v0.4s"},
	{func(a *Asm) { a.Fcvtl(0, 0) }, "0x0e217800 // fcvtl v0.4s, v0.4h"},
	{func(a *Asm) { a.Fcvtl2(0, 0) }, "0x4e217800 // fcvtl2 v0.4s, v0.8h"},
	{func(a *Asm) { a.Fcvtn(0, 0) }, "0x0e216800 // fcvtn v0.4h, v0.4s"},
	{func(a *Asm) { a.Fcvtn2(0, 0) }, "0x4e216800 // fcvtn2 v0.8h, v0.4s"},
	{func(a *Asm) { a.Sqxtn(0, 0) }, "0x0e614800 // sqxtn v0.4h, v0.4s"},
	{func(a *Asm) { a.Sqxtn2(0, 0) }, "0x4e614800 // sqxtn2 v0.8h, v0.4s"},
	{func(a *Asm) { a.SqxtnB(0, 0) }, "0x0e214800 // sqxtn v0.8b, v0.8h"},
	{func(a *Asm) { a.SqxtnB2(0, 0) }, "0x4e214800 // sqxtn2 v0.16b, v0.8h"},
	{func(a *Asm) { a.Shll(0, 0) }, "0x2e613800 // shll v0.4s, v0.4h, #16"},
	{func(a *Asm) { a.Shll2(0, 0) }, "0x6e613800 // shll2 v0.4s, v0.8h, #16"},
	{func(a *Asm) { a.Bic(0, 0, 0) }, "0x4e601c00 // bic v0.16b, v0.16b, v0.16b"},
	{func(a *Asm) { a.Sshr(0, 0, 1) }, "0x4f3f0400 // sshr v0.4s, v0.4s, #1"},
	{func(a *Asm) { a.Fmaxv(0, 0) }, "0x6e30f800 // fmaxv s0, v0.4s"},
	{func(a *Asm) { a.Fmaxnmv(0, 0) }, "0x6e30c800 // fmaxnmv s0, v0.4s"},
	{func(a *Asm) { a.FaddPair(0, 0) }, "0x7e30d800 // faddp s0, v0.2s"},
	{func(a *Asm) { a.LdrQIndexed(0, 0, 0) }, "0x3ce06800 // ldr q0, [x0, x0]"},

	{func(a *Asm) { a.Fadd(31, 21, 10) }, "0x4e2ad6bf // fadd v31.4s, v21.4s, v10.4s"},
	{func(a *Asm) { a.Fsub(31, 21, 10) }, "0x4eaad6bf // fsub v31.4s, v21.4s, v10.4s"},
	{func(a *Asm) { a.Fmul(31, 21, 10) }, "0x6e2adebf // fmul v31.4s, v21.4s, v10.4s"},
	{func(a *Asm) { a.Fdiv(31, 21, 10) }, "0x6e2afebf // fdiv v31.4s, v21.4s, v10.4s"},
	{func(a *Asm) { a.Fmax(31, 21, 10) }, "0x4e2af6bf // fmax v31.4s, v21.4s, v10.4s"},
	{func(a *Asm) { a.Fmin(31, 21, 10) }, "0x4eaaf6bf // fmin v31.4s, v21.4s, v10.4s"},
	{func(a *Asm) { a.Fmaxnm(31, 21, 10) }, "0x4e2ac6bf // fmaxnm v31.4s, v21.4s, v10.4s"},
	{func(a *Asm) { a.Fcmgt(31, 21, 10) }, "0x6eaae6bf // fcmgt v31.4s, v21.4s, v10.4s"},
	{func(a *Asm) { a.Fcmge(31, 21, 10) }, "0x6e2ae6bf // fcmge v31.4s, v21.4s, v10.4s"},
	{func(a *Asm) { a.Fcmeq(31, 21, 10) }, "0x4e2ae6bf // fcmeq v31.4s, v21.4s, v10.4s"},
	{func(a *Asm) { a.FmulLane(10, 21, 31, 2) }, "0x4f9f9aaa // fmul v10.4s, v21.4s, v31.s[2]"},
	{func(a *Asm) { a.FmlaLane(10, 21, 31, 3) }, "0x4fbf1aaa // fmla v10.4s, v21.4s, v31.s[3]"},
	{func(a *Asm) { a.SdotLane(10, 21, 31, 3) }, "0x4fbfeaaa // sdot v10.4s, v21.16b, v31.4b[3]"},
	{func(a *Asm) { a.FmlsLane(10, 21, 31, 2) }, "0x4f9f5aaa // fmls v10.4s, v21.4s, v31.s[2]"},
	{func(a *Asm) { a.Fabs(31, 21) }, "0x4ea0fabf // fabs v31.4s, v21.4s"},
	{func(a *Asm) { a.Scvtf(31, 21) }, "0x4e21dabf // scvtf v31.4s, v21.4s"},
	{func(a *Asm) { a.Fcvtzs(31, 21) }, "0x4ea1babf // fcvtzs v31.4s, v21.4s"},
	{func(a *Asm) { a.Fcvtns(31, 21) }, "0x4e21aabf // fcvtns v31.4s, v21.4s"},
	{func(a *Asm) { a.Fcvtl(31, 21) }, "0x0e217abf // fcvtl v31.4s, v21.4h"},
	{func(a *Asm) { a.Fcvtl2(31, 21) }, "0x4e217abf // fcvtl2 v31.4s, v21.8h"},
	{func(a *Asm) { a.Fcvtn(31, 21) }, "0x0e216abf // fcvtn v31.4h, v21.4s"},
	{func(a *Asm) { a.Fcvtn2(31, 21) }, "0x4e216abf // fcvtn2 v31.8h, v21.4s"},
	{func(a *Asm) { a.Sqxtn(31, 21) }, "0x0e614abf // sqxtn v31.4h, v21.4s"},
	{func(a *Asm) { a.Sqxtn2(31, 21) }, "0x4e614abf // sqxtn2 v31.8h, v21.4s"},
	{func(a *Asm) { a.SqxtnB(31, 21) }, "0x0e214abf // sqxtn v31.8b, v21.8h"},
	{func(a *Asm) { a.SqxtnB2(31, 21) }, "0x4e214abf // sqxtn2 v31.16b, v21.8h"},
	{func(a *Asm) { a.Shll(31, 21) }, "0x2e613abf // shll v31.4s, v21.4h, #16"},
	{func(a *Asm) { a.Shll2(31, 21) }, "0x6e613abf // shll2 v31.4s, v21.8h, #16"},
	{func(a *Asm) { a.Bic(31, 21, 10) }, "0x4e6a1ebf // bic v31.16b, v21.16b, v10.16b"},
	{func(a *Asm) { a.Sshr(31, 21, 32) }, "0x4f2006bf // sshr v31.4s, v21.4s, #32"},
	{func(a *Asm) { a.Fmaxv(31, 21) }, "0x6e30fabf // fmaxv s31, v21.4s"},
	{func(a *Asm) { a.Fmaxnmv(31, 21) }, "0x6e30cabf // fmaxnmv s31, v21.4s"},
	{func(a *Asm) { a.FaddPair(31, 21) }, "0x7e30dabf // faddp s31, v21.2s"},
	{func(a *Asm) { a.LdrQIndexed(31, 21, 10) }, "0x3cea6abf // ldr q31, [x21, x10]"},
}

func TestWords(t *testing.T) {
	for _, w := range words {
		if x := word(w.emit); fmt.Sprintf("0x%08x // %s", x.Code, x.Text) != w.want {
			t.Errorf("got 0x%08x // %s, want %s", x.Code, x.Text, w.want)
		}
	}
}

// word is that which is emitted.
func word(emit func(a *Asm)) Word {
	var a Asm
	emit(&a)
	return a.Words()[0]
}

func emitted(emit func(a *Asm)) string {
	var a Asm
	emit(&a)
	return string(a.Bytes())
}

// TestDisassembly compares the table with LLVM's disassembler, where it is
// installed; with ATTN_TEST_TOOLS=required it must be.
func TestDisassembly(t *testing.T) {
	var all []Word
	for _, w := range words {
		all = append(all, word(w.emit))
	}
	checked, err := CheckWords(all)
	if err != nil {
		t.Fatal(err)
	}
	if checked == 0 && os.Getenv("ATTN_TEST_TOOLS") == "required" {
		t.Fatal("no disassembler: llvm-mc must be installed")
	}
	if checked == 0 {
		t.Log("llvm-mc is not installed; the table was compared with its own words only")
		return
	}
	if checked != len(words) {
		t.Errorf("%d words were checked, want %d", checked, len(words))
	}
	if _, err := CheckWords([]Word{{0x4e20d400, "fadd v0.4s, v0.4s, v1.4s"}}); err == nil {
		t.Error("a word with a wrong text was accepted")
	}
	if _, err := CheckWords([]Word{{0, "nop"}}); err == nil {
		t.Error("a word that is no instruction was accepted")
	}
}

// TestNative compares what the native methods write with Go's syntax.
func TestNative(t *testing.T) {
	for _, c := range []struct {
		emit func(a *Asm)
		want string
	}{
		{func(a *Asm) { a.Fmla(1, 2, 3) }, "VFMLA V3.S4, V2.S4, V1.S4"},
		{func(a *Asm) { a.Trn2D(1, 2, 3) }, "VTRN2 V3.D2, V2.D2, V1.D2"},
		{func(a *Asm) { a.Tbl2(1, 2, 3) }, "VTBL V3.B16, [V2.B16, V3.B16], V1.B16"},
		{func(a *Asm) { a.Uzp2H(1, 2, 3) }, "VUZP2 V3.H8, V2.H8, V1.H8"},
		{func(a *Asm) { a.Ushr(1, 2, 16) }, "VUSHR $16, V2.S4, V1.S4"},
		{func(a *Asm) { a.UshrB(1, 2, 4) }, "VUSHR $4, V2.B16, V1.B16"},
		{func(a *Asm) { a.ShlB(1, 2, 4) }, "VSHL $4, V2.B16, V1.B16"},
		{func(a *Asm) { a.SriB(1, 2, 4) }, "VSRI $4, V2.B16, V1.B16"},
		{func(a *Asm) { a.UxtlB(1, 2) }, "VUXTL V2.B8, V1.H8"},
		{func(a *Asm) { a.UxtlB2(1, 2) }, "VUXTL2 V2.B16, V1.H8"},
		{func(a *Asm) { a.Zip1H(1, 2, 3) }, "VZIP1 V3.H8, V2.H8, V1.H8"},
		{func(a *Asm) { a.Zip2H(1, 2, 3) }, "VZIP2 V3.H8, V2.H8, V1.H8"},
		{func(a *Asm) { a.PrefetchL1(R3, 64) }, "PRFM 64(R3), PLDL1KEEP"},
		{func(a *Asm) { a.SwapPairs(1, 2) }, "VREV64 V2.S4, V1.S4"},
		{func(a *Asm) { a.StrHPost(1, R3) }, "VST1.P V1.H[0], 2(R3)"},
		{func(a *Asm) { a.Bsl(1, 2, 3) }, "VBSL V3.B16, V2.B16, V1.B16"},
		{func(a *Asm) { a.Ld1Post([]Vec{4, 5}, R3) }, "VLD1.P 32(R3), [V4.S4, V5.S4]"},
		{func(a *Asm) { a.St1Post([]Vec{4}, R3) }, "VST1.P [V4.S4], 16(R3)"},
		{func(a *Asm) { a.LdpQ(4, 9, R3, -16) }, "FLDPQ -16(R3), (F4, F9)"},
		{func(a *Asm) { a.Sub(R1, R2, R3) }, "SUB R3, R2, R1"},
		{func(a *Asm) { a.Csel(GT, R1, R2, R3) }, "CSEL GT, R2, R3, R1"},
	} {
		if got := strings.TrimSpace(emitted(c.emit)); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

// TestMistakesPanic checks that operands out of range do not become wrong instructions.
func TestMistakesPanic(t *testing.T) {
	for want, emit := range map[string]func(a *Asm){
		"vector register 32":        func(a *Asm) { a.Fadd(32, 0, 0) },
		"Tbl2's first is 31":        func(a *Asm) { a.Tbl2(0, 31, 1) },
		"Ushr's shift is 33":        func(a *Asm) { a.Ushr(0, 0, 33) },
		"vector register 33":        func(a *Asm) { a.Fmla(0, 33, 0) },
		"UshrB's shift is 9":        func(a *Asm) { a.UshrB(0, 0, 9) },
		"ShlB's shift is 8":         func(a *Asm) { a.ShlB(0, 0, 8) },
		"SriB's shift is 0":         func(a *Asm) { a.SriB(0, 0, 0) },
		"PrefetchL1's offset is 4":  func(a *Asm) { a.PrefetchL1(R0, 4) },
		"R18 is reserved":           func(a *Asm) { a.Mov(18, R0) },
		"R27 is reserved":           func(a *Asm) { a.Add(27, R0, R0) },
		"R28 is reserved":           func(a *Asm) { a.LdrQIndexed(0, 28, R0) },
		"R29 is reserved":           func(a *Asm) { a.LdrQ(0, 29, 0) },
		"R30 is reserved":           func(a *Asm) { a.Cbz(30, "l") },
		"fmla's lane is 4":          func(a *Asm) { a.FmlaLane(0, 0, 0, 4) },
		"Sshr's shift is 0":         func(a *Asm) { a.Sshr(0, 0, 0) },
		"Shl's shift is 32":         func(a *Asm) { a.Shl(0, 0, 32) },
		"LdrQ's offset is 8":        func(a *Asm) { a.LdrQ(0, R0, 8) },
		"LdpQ's offset is 1024":     func(a *Asm) { a.LdpQ(0, 1, R0, 1024) },
		"AddImm's immediate is -1":  func(a *Asm) { a.AddImm(R0, R0, -1) },
		"CmpImm's immediate is 409": func(a *Asm) { a.CmpImm(R0, 4096) },
		"want consecutive ones":     func(a *Asm) { a.Ld1([]Vec{1, 3}, R0) },
		"registers in a list is 5":  func(a *Asm) { a.Ld1([]Vec{1, 2, 3, 4, 5}, R0) },
		"fadd has two macros":       func(a *Asm) { a.Fadd(0, 0, 0); a.word(0, "fadd", "", 0, 0, 0) },
	} {
		if got := panicOf(emit); !strings.Contains(got, want) {
			t.Errorf("panic %q, want one that contains %q", got, want)
		}
	}
}

func panicOf(emit func(a *Asm)) (text string) {
	defer func() { text = fmt.Sprint(recover()) }()
	emit(new(Asm))
	return ""
}
