package valueprof

// body is what a [Profile] records of one body of a method: its points, in the
// order in which they were first seen. It belongs to the owner of the profile,
// who is the janitor too.
type body struct {
	profile *Profile
	info    *Info
	points  []*point
	due     []*tended // tables that had no slot for a value since their last look
}

// missed has the janitor look at a table that had no slot for a value.
func (b *body) missed(t *tended) {
	if t.due {
		return
	}
	t.due = true
	b.due = append(b.due, t)
	b.info.touch()
}

// Tend implements [Body].
func (b *body) Tend(j *Janitor) (again bool) {
	early := b.due[:0]
	for _, t := range b.due {
		v := j.judge(t.table, &t.seen)
		if v == verdictEarly {
			early = append(early, t)
			continue
		}
		t.due = false
		b.profile.dump.judged(t, v)
	}
	clear(b.due[len(early):])
	b.due = early
	return len(early) > 0
}

// Evidence implements [Body].
func (b *body) Evidence() Evidence {
	var e Evidence
	for _, pt := range b.points {
		e.Calls += pt.executions()
		if t := pt.table; t != nil {
			e.Matched += t.table.Matched()
			e.Other += t.table.Other()
		} else if pt.kind != KindBlock {
			e.Matched += pt.executions() - pt.nulls
		}
	}
	return e
}

// Free implements [Body].
func (b *body) Free() {
	p := b.profile
	for _, pt := range b.points {
		p.superseded += pt.executions()
		p.dump.freed(pt)
		p.pool.free(pt)
	}
	b.points, b.due = nil, nil
}

// bytes is the memory of the body, its points and their tables.
func (b *body) bytes() int {
	n := bodyBytes + pointerBytes*(cap(b.points)+cap(b.due))
	for _, pt := range b.points {
		n += pointBytes
		if pt.table != nil {
			n += tendedBytes + pt.table.table.Bytes()
		}
	}
	return n
}
