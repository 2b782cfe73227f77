//go:build amd64 || arm64

package blocks

import "unsafe"

// PanelBytes are the numbers of 32 inputs of 16 outputs in groups of four inputs, as words of four
// bytes: of each eight inputs two groups.
type PanelBytes [4][2][Outputs]uint32

// panelIndices are the indices of a part of a packed block.
type panelIndices struct {
	bytes *[3][Outputs]byte // words follow where there are fewer
	words [3]*[Outputs]uint32
}

// indicesAt addresses the indices of a part.
func (of *Traits) indicesAt(part []byte) (x panelIndices) {
	form := &bookForms[of.Book]
	part = part[:of.Part()]
	x.bytes = (*[3][Outputs]byte)(unsafe.Pointer(&part[:3*Outputs][0]))
	for i := range x.words { // those that there are
		at := Outputs*form.bytes + 4*Outputs*min(i, form.words-1)
		x.words[i] = (*[Outputs]uint32)(unsafe.Pointer(&part[at:][:4*Outputs][0]))
	}
	return x
}

// UnpackPanel sets to and the scales to the numbers of a part of a packed block, each combined with
// a byte of flip by exclusive or. It works like Numbers, for CPUs whose words begin with the lowest
// byte.
func (of *Traits) UnpackPanel(to *PanelBytes, scales *[2][Outputs]int8, part []byte, flip uint64) {
	t, x := tables(), of.indicesAt(part)
	w0, w1, w2 := x.words[0], x.words[1], x.words[2]
	b0, b1, b2 := &x.bytes[0], &x.bytes[1], &x.bytes[2]
	switch of.Book {
	case bookOfIQ2XXS:
		for c, a := range w0 {
			s := w1[c]
			to.put(0, c, flip^signed(t.xxs2[byte(a)], t.odd[s&127]))
			to.put(1, c, flip^signed(t.xxs2[byte(a>>8)], t.odd[s>>7&127]))
			to.put(2, c, flip^signed(t.xxs2[byte(a>>16)], t.odd[s>>14&127]))
			to.put(3, c, flip^signed(t.xxs2[a>>24], t.odd[s>>21&127]))
			scales[0][c], scales[1][c] = oddScale(s>>28), oddScale(s>>28)
		}
	case bookOfIQ2XS:
		for c, a := range w0 {
			b := w1[c]
			to.put(0, c, flip^signed(t.xs2[a&511], t.odd[a>>9&127]))
			to.put(1, c, flip^signed(t.xs2[a>>16&511], t.odd[a>>25]))
			to.put(2, c, flip^signed(t.xs2[b&511], t.odd[b>>9&127]))
			to.put(3, c, flip^signed(t.xs2[b>>16&511], t.odd[b>>25]))
			s := uint32(b0[c])
			scales[0][c], scales[1][c] = oddScale(s&15), oddScale(s>>4)
		}
	case bookOfIQ2S:
		for c, a := range w0 {
			s, h := w1[c], uint32(b1[c])<<8
			to.put(0, c, flip^signed(t.s2[a&255|h&0x300], t.signs[byte(s)]))
			to.put(1, c, flip^signed(t.s2[a>>8&255|h>>2&0x300], t.signs[byte(s>>8)]))
			to.put(2, c, flip^signed(t.s2[a>>16&255|h>>4&0x300], t.signs[byte(s>>16)]))
			to.put(3, c, flip^signed(t.s2[a>>24|h>>6&0x300], t.signs[s>>24]))
			d := uint32(b0[c])
			scales[0][c], scales[1][c] = oddScale(d&15), oddScale(d>>4)
		}
	case bookOfIQ3XXS:
		for c, a := range w0 {
			b, s := w1[c], w2[c]
			to.put(0, c, flip^signed(t.two3(a), t.odd[s&127]))
			to.put(1, c, flip^signed(t.two3(a>>16), t.odd[s>>7&127]))
			to.put(2, c, flip^signed(t.two3(b), t.odd[s>>14&127]))
			to.put(3, c, flip^signed(t.two3(b>>16), t.odd[s>>21&127]))
			scales[0][c], scales[1][c] = oddScale(s>>28), oddScale(s>>28)
		}
	case bookOfIQ3S:
		for c, a := range w0 {
			b, s, h := w1[c], w2[c], uint32(b1[c])<<8
			to.put(0, c, flip^signed(t.twoS3(a, h), t.signs[byte(s)]))
			to.put(1, c, flip^signed(t.twoS3(a>>16, h>>2), t.signs[byte(s>>8)]))
			to.put(2, c, flip^signed(t.twoS3(b, h>>4), t.signs[byte(s>>16)]))
			to.put(3, c, flip^signed(t.twoS3(b>>16, h>>6), t.signs[s>>24]))
			d := oddScale(uint32(b0[c] & 15))
			scales[0][c], scales[1][c] = d, d
		}
	case bookOfIQ1S:
		for c, a := range w0 {
			h := uint32(b0[c]) | uint32(b1[c])<<8
			less := h >> 15
			to.put(0, c, flip^shifted(t.one[a&255|h<<8&0x700], less))
			to.put(1, c, flip^shifted(t.one[a>>8&255|h<<5&0x700], less))
			to.put(2, c, flip^shifted(t.one[a>>16&255|h<<2&0x700], less))
			to.put(3, c, flip^shifted(t.one[a>>24|h>>1&0x700], less))
			scales[0][c], scales[1][c] = oddScale(h>>12&7), oddScale(h>>12&7)
		}
	case bookOfIQ1M:
		for c, a := range w0 {
			h, s := uint32(b1[c])|uint32(b2[c])<<8, uint32(b0[c])
			to.put(0, c, flip^shifted(t.one[a&255|h<<8&0x700], h>>3&1))
			to.put(1, c, flip^shifted(t.one[a>>8&255|h<<4&0x700], h>>7&1))
			to.put(2, c, flip^shifted(t.one[a>>16&255|h&0x700], h>>11&1))
			to.put(3, c, flip^shifted(t.one[a>>24|h>>4&0x700], h>>15&1))
			scales[0][c], scales[1][c] = oddScale(s&7), oddScale(s>>3&7)
		}
	}
}

// put stores eight numbers of an output.
func (to *PanelBytes) put(l, c int, x uint64) {
	to[l][0][c], to[l][1][c] = uint32(x), uint32(x>>32)
}

// oddScale is the scale of a code.
func oddScale(code uint32) int8 { return int8(2*code + 1) }

// two3 looks up two entries of IQ3_XXS.
func (t *bookTables) two3(x uint32) uint64 {
	return uint64(t.xxs3[byte(x)]) | uint64(t.xxs3[byte(x>>8)])<<32
}

// twoS3 looks up two entries of IQ3_S. Their ninth bits are bits 8 and 9 of upper.
func (t *bookTables) twoS3(x, upper uint32) uint64 {
	return uint64(t.s3[x&255|upper&256]) | uint64(t.s3[x>>8&255|upper>>1&256])<<32
}
