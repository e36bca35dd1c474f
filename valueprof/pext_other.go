//go:build !amd64

package valueprof

const havePext = false

func pext(v, mask uint64) uint64 { return gather(v, mask) }

func hitPext(t *Table, v uint64) bool {
	s := t.at(gather(v, t.key))
	if s.Value != v {
		return false
	}
	s.Count++
	return true
}
