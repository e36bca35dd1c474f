package valueprof

import "fmt"

// AppendText appends the table's layout, a line for the whole and one for each
// value held: what the seed's TR_JProfilingValueDumpInfo shows. It is an
// [encoding.TextAppender] that never fails.
//
//	multiply key=0x9e3779b97f4a7c15 bits=4 values=2/8 full=false other=0 aged=3 total=10
//	slot=0 position=0xb value=0xc000010000 count=6
//	slot=1 position=0x2 value=0xc000020000 count=1
func (t *Table) AppendText(b []byte) ([]byte, error) {
	held := t.held()
	if held[0].Count == 0 {
		held = nil
	}
	b = fmt.Appendf(b, "%s key=%#x bits=%d values=%d/%d full=%t other=%d aged=%d total=%d\n",
		t.hash, t.key, t.bits(), len(held), t.capacity, t.full, t.other, t.aged, t.Total())
	for i, v := range held {
		b = fmt.Appendf(b, "slot=%d position=%#x value=%#x count=%d\n", i, t.position(v.Value), v.Value, v.Count)
	}
	return b, nil
}
