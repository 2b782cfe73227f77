package views

// Extent is the part of a buffer that one argument touches. The zero value touches nothing.
type Extent struct {
	Name  string
	Begin uintptr // address of the first byte
	Size  uintptr // bytes to the end of the last element
	Row   uintptr // bytes from one position to the next, for all rows; 0 if they have no common pitch
	Width uintptr // bytes that the view occupies within each pitch
}

// Extent describes what a checked view touches, without its address: see CheckApart. bytes is the
// size of an element. Views whose heads lie side by side in rows of one pitch (BLHD, and slices of
// it) may share a buffer without sharing an element, as the Q, K and V columns of one projection
// do.
func (g *Geometry) Extent(name string, bytes uintptr) Extent {
	if g.Empty() || g.D == 0 {
		return Extent{}
	}
	m := Extent{Name: name, Size: uintptr(g.End()) * bytes}
	if width := (g.H-1)*g.SH + g.D; g.SL >= width && (g.B == 1 || g.SB%g.SL == 0) {
		m.Row, m.Width = uintptr(g.SL)*bytes, uintptr(width)*bytes
	}
	return m
}

// ExtentOfSlice describes a plain slice.
func ExtentOfSlice[T float32 | int32](name string, s []T) Extent {
	return Extent{Name: name, Size: 4 * uintptr(len(s))}
}

// Overlaps reports whether two arguments may share a byte.
func (m *Extent) Overlaps(o *Extent) bool {
	if m.Size == 0 || o.Size == 0 || m.Begin >= o.Begin+o.Size || o.Begin >= m.Begin+m.Size {
		return false
	}
	if m.Row == 0 || m.Row != o.Row {
		return true
	}
	// Column windows of the same pitch: o starts after m's window and ends before m's next one.
	gap := (o.Begin + m.Row - m.Begin%m.Row) % m.Row
	return gap < m.Width || gap+o.Width > m.Row
}

// CheckApart makes sure that outputs share no memory with each other or with inputs. The caller
// reads all addresses without a call in between: any call may grow the stack, which moves buffers
// on it.
func CheckApart(outputs, inputs []Extent) error {
	for i := range outputs {
		out := &outputs[i]
		for _, others := range [...][]Extent{inputs, outputs[i+1:]} {
			for j := range others {
				if out.Overlaps(&others[j]) {
					return Fail(ErrOverlap, "%s overlaps %s, want separate memory", out.Name, others[j].Name)
				}
			}
		}
	}
	return nil
}
