package valueprof

// Accessed holds the infos that a reader uses, until it releases them together
// (OpenJ9's TR_AccessedProfileInfo). The zero value is ready. It belongs to one
// goroutine.
type Accessed struct{ infos []*Info }

// Best returns the best info of a method, or nil. It is held until Release.
func (a *Accessed) Best(h *History) *Info {
	i := h.Retain()
	if i != nil {
		a.infos = append(a.infos, i)
	}
	return i
}

// Release gives all references back. Accessed can be used again then.
func (a *Accessed) Release() {
	for _, i := range a.infos {
		i.Release()
	}
	clear(a.infos)
	a.infos = a.infos[:0]
}
