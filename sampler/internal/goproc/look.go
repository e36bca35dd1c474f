package goproc

import (
	"slices"

	"github.com/ccmapd/ccmapd/internal/process"
)

// glance is what a look at a goroutine has found.
type glance struct {
	resting
	read, moved bool // as in [process.TaskLook]
}

const (
	// lookBatch is how many goroutines are read at once. A goroutine has less time to go on while few are read:
	// of 8, 0.1 % with short waits do, of 1,024, 1 %.
	lookBatch = 8
	// lookBytes are read of a stack at once. See package comment of deep.go for the rest.
	lookBytes = 32 << 10
)

// look has the buffers of a batch.
type look struct {
	found  [lookBatch]glance
	before [lookBatch][]byte // descriptors
	after  [lookBatch][]byte
	stacks [lookBatch][]byte
	views  [lookBatch]stackView
	stack  stack
	told   process.TaskLook
}

func (l *look) init(size int) {
	if l.before[0] != nil {
		return
	}
	for i := range lookBatch {
		l.before[i], l.after[i], l.stacks[i] = make([]byte, size), make([]byte, size), make([]byte, lookBytes)
	}
}

// Look reads the goroutines at some places of the list, with their stacks, and calls visit with each in that order.
// It reads the descriptor before and after the stack: if they agree, the stack is whole.
func (gs *Goroutines) Look(places []int32, visit func(place int32, l *process.TaskLook)) {
	gs.look.init(gs.size)
	for batch := range slices.Chunk(places, lookBatch) {
		gs.readBatch(batch)
		for i, place := range batch {
			gs.unwind(i)
			f := &gs.look.found[i]
			gs.look.told = process.TaskLook{Task: f.Task, Read: f.read, Moved: f.moved, Stack: &gs.look.stack.Stack}
			visit(place, &gs.look.told)
		}
	}
}

// readBatch reads descriptors, stacks, and the descriptors again.
func (gs *Goroutines) readBatch(batch []int32) {
	l := &gs.look
	gs.read(batch, &l.before)
	gs.at, gs.bufs = gs.at[:0], gs.bufs[:0]
	for i, place := range batch {
		f, addr := &l.found[i], gs.addrs[place]
		*f = glance{resting: resting{addr: addr}}
		if gs.ok[i] {
			gs.decode(addr, l.before[i], &f.resting)
		}
		f.read = f.State >= process.Runnable
		if f.read && (f.SP < f.Lo || f.SP >= f.Hi || f.SP&7 != 0 || f.PC == 0) {
			f.moved = true // it was about to change
		}
		if f.read && !f.moved {
			gs.at, gs.bufs = append(gs.at, f.SP), append(gs.bufs, l.stacks[i][:min(f.Hi-f.SP, lookBytes)])
		}
	}
	gs.readAll()
	stack := 0
	for i := range batch {
		f := &l.found[i]
		l.views[i] = stackView{}
		if !f.read || f.moved {
			continue
		}
		if f.moved = !gs.ok[stack]; !f.moved {
			l.views[i] = stackView{gs.at[stack], gs.bufs[stack]}
		}
		stack++
	}
	gs.read(batch, &l.after)
	for i := range batch {
		f := &l.found[i]
		var now resting
		if gs.ok[i] {
			gs.decode(f.addr, l.after[i], &now)
		}
		f.moved = f.moved || f.read && !f.same(&now)
	}
}

// read reads descriptors.
func (gs *Goroutines) read(batch []int32, into *[lookBatch][]byte) {
	gs.at, gs.bufs = gs.at[:0], gs.bufs[:0]
	for i, place := range batch {
		gs.at, gs.bufs = append(gs.at, gs.addrs[place]), append(gs.bufs, into[i])
	}
	gs.readAll()
}

// same reports whether a goroutine has not gone on.
func (g *resting) same(now *resting) bool {
	return g.ID == now.ID && g.State == now.State && g.Seq == now.Seq && g.SP == now.SP && g.PC == now.PC
}

// unwind finds the calls of the goroutine in a batch.
func (gs *Goroutines) unwind(i int) {
	f, st, u := &gs.look.found[i], &gs.look.stack, &gs.p.unwinder
	*st = stack{Stack: process.Stack{PCs: st.PCs[:0]}}
	if !f.read || f.moved {
		return
	}
	view := gs.look.views[i]
	u.code.beginSample()
	var end ending
	st.PCs, end = u.unwindDump(f.PC, f.SP, view, st.PCs)
	if len(st.PCs) == 0 {
		f.moved = true
		return
	}
	if end == endOfDump && f.Hi-f.SP > lookBytes {
		u.beyond(&process.Moment{}, u.front, view, f.Hi, st)
	}
	if f.PC != f.Start {
		st.PCs[0]-- // it is a return address, as all others are
	}
	u.finish(st)
	st.Thread, st.Goroutine = f.addr, f.ID
	st.Labels = gs.labelsOf(&f.resting)
}
