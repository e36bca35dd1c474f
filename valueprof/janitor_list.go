package valueprof

// add puts i in front of the list of all. Any goroutine.
func (j *Janitor) add(i *Info) {
	for {
		i.next = j.all.Load()
		if j.all.CompareAndSwap(i.next, i) {
			return
		}
	}
}

// activate puts i, whose active flag the caller has set, in front of the list of
// the active. Any goroutine.
func (j *Janitor) activate(i *Info) {
	for {
		i.nextActive = j.active.Load()
		if j.active.CompareAndSwap(i.nextActive, i) {
			return
		}
	}
}

// sweep frees the infos without a reference. Additions may go on meanwhile, in
// front of the list; nobody else removes, so the links behind its first element
// are the janitor's.
func (j *Janitor) sweep() {
	var before *Info // the last one that stays
	for i := j.all.Load(); i != nil; i = i.next {
		if i.refs.Load() > 0 {
			before = i
			continue
		}
		j.unlink(before, i)
		i.body.Free()
		j.did.Freed++
	}
}

// unlink takes i out of the list. before is the one in front of it, or nil if i
// was the first when the sweep began.
func (j *Janitor) unlink(before, i *Info) {
	if before == nil {
		if j.all.CompareAndSwap(i, i.next) {
			return
		}
		before = j.all.Load() // additions came in front
		for before.next != i {
			before = before.next
		}
	}
	before.next = i.next
}
