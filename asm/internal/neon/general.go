package neon

// Instructions on general registers. All of them are 64 bits wide unless they say otherwise.

// Mov is d = n.
func (a *Asm) Mov(d, n Reg) { a.op("MOVD", "%v, %v", n, d) }

// MovImm is d = x.
func (a *Asm) MovImm(d Reg, x int64) { a.op("MOVD", "$%d, %v", x, d) }

// Address is d = the address of a symbol, or of a local variable, with its pseudo-register.
func (a *Asm) Address(d Reg, symbol string) { a.op("MOVD", "$%s, %v", symbol, d) }

// Add is d = n + m.
func (a *Asm) Add(d, n, m Reg) { a.op("ADD", "%v, %v, %v", m, n, d) }

// AddShifted is d = n + m·2^shift.
func (a *Asm) AddShifted(d, n, m Reg, shift int) {
	between("AddShifted's shift", shift, 0, 63, 1)
	a.op("ADD", "%v<<%d, %v, %v", m, shift, n, d)
}

// AddImm is d = n + x.
func (a *Asm) AddImm(d, n Reg, x int) {
	between("AddImm's immediate", x, 0, 4095, 1)
	a.op("ADD", "$%d, %v, %v", x, n, d)
}

// Sub is d = n − m.
func (a *Asm) Sub(d, n, m Reg) { a.op("SUB", "%v, %v, %v", m, n, d) }

// SubImm is d = n − x.
func (a *Asm) SubImm(d, n Reg, x int) {
	between("SubImm's immediate", x, 0, 4095, 1)
	a.op("SUB", "$%d, %v, %v", x, n, d)
}

// SubsImm is d = n − x and sets the flags.
func (a *Asm) SubsImm(d, n Reg, x int) {
	between("SubsImm's immediate", x, 0, 4095, 1)
	a.op("SUBS", "$%d, %v, %v", x, n, d)
}

// Mul is d = n·m.
func (a *Asm) Mul(d, n, m Reg) { a.op("MUL", "%v, %v, %v", m, n, d) }

// Orr is d = n | m.
func (a *Asm) Orr(d, n, m Reg) { a.op("ORR", "%v, %v, %v", m, n, d) }

// Lsl is d = n << m.
func (a *Asm) Lsl(d, n, m Reg) { a.op("LSL", "%v, %v, %v", m, n, d) }

// LslImm is d = n << shift.
func (a *Asm) LslImm(d, n Reg, shift int) {
	between("LslImm's shift", shift, 0, 63, 1)
	a.op("LSL", "$%d, %v, %v", shift, n, d)
}

// LsrImm is d = n >> shift, unsigned.
func (a *Asm) LsrImm(d, n Reg, shift int) {
	between("LsrImm's shift", shift, 0, 63, 1)
	a.op("LSR", "$%d, %v, %v", shift, n, d)
}

// Cmp compares n with m.
func (a *Asm) Cmp(n, m Reg) { a.op("CMP", "%v, %v", m, n) }

// CmpImm compares n with x.
func (a *Asm) CmpImm(n Reg, x int) {
	between("CmpImm's immediate", x, 0, 4095, 1)
	a.op("CMP", "$%d, %v", x, n)
}

// Cond is a condition.
type Cond string

// The conditions; LT to GE are signed, HI is not.
const (
	EQ Cond = "EQ"
	NE Cond = "NE"
	LT Cond = "LT"
	LE Cond = "LE"
	GT Cond = "GT"
	GE Cond = "GE"
	HI Cond = "HI"
	VS Cond = "VS" // unordered, after a comparison of floats
	VC Cond = "VC" // ordered
)

// Csel is d = n if the condition holds, else m.
func (a *Asm) Csel(c Cond, d, n, m Reg) { a.op("CSEL", "%s, %v, %v, %v", c, n, m, d) }

// Cset is d = 1 if the condition holds, else 0.
func (a *Asm) Cset(c Cond, d Reg) { a.op("CSET", "%s, %v", c, d) }

// B jumps.
func (a *Asm) B(label string) { a.op("B", "%s", label) }

// Bcond jumps if the condition holds.
func (a *Asm) Bcond(c Cond, label string) { a.op("B"+string(c), "%s", label) }

// Cbz jumps if n is 0.
func (a *Asm) Cbz(n Reg, label string) { a.op("CBZ", "%v, %s", n, label) }

// Cbnz jumps if n is not 0.
func (a *Asm) Cbnz(n Reg, label string) { a.op("CBNZ", "%v, %s", n, label) }

// Ret returns.
func (a *Asm) Ret() { a.Line("\tRET") }

// Ldr is d = memory at base + offset.
func (a *Asm) Ldr(d, base Reg, offset int) {
	between("Ldr's offset", offset, 0, 32760, 8)
	a.op("MOVD", "%d(%v), %v", offset, base, d)
}

// Str is memory at base + offset = d.
func (a *Asm) Str(d, base Reg, offset int) {
	between("Str's offset", offset, 0, 32760, 8)
	a.op("MOVD", "%v, %d(%v)", d, offset, base)
}

// LdrPost is d = memory at base, then base += 8.
func (a *Asm) LdrPost(d, base Reg) { a.op("MOVD.P", "8(%v), %v", base, d) }

// LdrbPost is d = the byte at base, then base += 1.
func (a *Asm) LdrbPost(d, base Reg) { a.op("MOVBU.P", "1(%v), %v", base, d) }

// Ldrb is d = the byte at base + offset.
func (a *Asm) Ldrb(d, base Reg, offset int) { a.op("MOVBU", "%d(%v), %v", offset, base, d) }

// Ldrh is d = the 16 bits at base + offset, without sign.
func (a *Asm) Ldrh(d, base Reg, offset int) { a.op("MOVHU", "%d(%v), %v", offset, base, d) }

// LdrhIndexed is d = the 16 bits at base + 2·index, without sign.
func (a *Asm) LdrhIndexed(d, base, index Reg) {
	a.op("MOVHU", "(%v)(%v<<1), %v", base, index, d)
}

// Strh stores the low 16 bits of d at base + offset.
func (a *Asm) Strh(d, base Reg, offset int) { a.op("MOVH", "%v, %d(%v)", d, offset, base) }

// PrefetchL2 asks for the cache line at n to be brought to the L2 cache.
func (a *Asm) PrefetchL2(n Reg) { a.op("PRFM", "(%v), PLDL2KEEP", n) }

// PrefetchL1 asks for the cache line at base + offset to be brought to the L1 cache.
func (a *Asm) PrefetchL1(base Reg, offset int) {
	between("PrefetchL1's offset", offset, 0, 32760, 8)
	a.op("PRFM", "%d(%v), PLDL1KEEP", offset, base)
}
