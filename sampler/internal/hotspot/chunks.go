package hotspot

import (
	"time"
	"unicode/utf16"

	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler/internal/hotspot/unwind"
)

// Bounds of the stack of a virtual thread.
const (
	mostChunks = 256
	mostWords  = deepestStack / 8
)

// chunkOf returns where a StackChunk that was read has its frames. It reports false for what is none.
func (v *virtualThreads) chunkOf(at uint64, o object) (c unwind.Chunk, ok bool) {
	l := &v.l
	if o == nil || v.classOf(o) != l.chunk {
		return c, false
	}
	size, sp, bottom := o.number(l.size), o.number(l.sp), o.number(l.bottom)
	if sp < 0 || bottom < sp || size < bottom || size > mostWords {
		return c, false
	}
	start := at + l.words
	return unwind.Chunk{SP: start + 8*uint64(sp), End: start + 8*uint64(bottom)}, true
}

// look looks at the virtual thread in a place: it reads what the thread does before and after its stack. If they agree,
// the stack is whole.
func (v *virtualThreads) look(place int32, told *process.TaskLook) {
	if int(place) >= len(v.places) || v.places[place].id == 0 {
		return
	}
	t := &v.places[place]
	if !t.task(&told.Task) {
		return
	}
	told.Read, told.Moved = true, true
	id, epoch := t.id, v.epoch
	before, chunk := v.readOne(t.object, epoch)
	if before.id != id {
		return
	}
	v.put(0)
	if t = &v.places[place]; !t.task(&told.Task) {
		return
	}
	found := v.unwind(t, chunk, told.Stack)
	after, _ := v.readOne(t.object, epoch)
	now, quiet := v.heap.epoch()
	if !quiet || now != epoch || after.id != id || !t.continues(&after) || t.state != begins && len(found.java.Frames) == 0 {
		return
	}
	told.Moved = false
	told.Why = v.why(t, found)
}

// readOne reads one virtual thread.
func (v *virtualThreads) readOne(object uint64, epoch uint32) (t virtual, chunk uint64) {
	one, chunks, _ := v.read([]uint64{object}, epoch)
	return one[0], chunks[0]
}

// unwind finds the frames of a virtual thread, chunk by chunk.
func (v *virtualThreads) unwind(t *virtual, chunk uint64, st *process.Stack) *calls {
	found := foundIn(st)
	*found = calls{java: unwind.Stack{Frames: found.java.Frames[:0], Native: found.java.Native[:0]}}
	*st = process.Stack{PCs: st.PCs[:0], Thread: process.OSThread | t.id, Found: found}
	if t.state == begins {
		st.Rooted = true
		return found
	}
	v.rest.Begin(uint64(time.Since(begun)), &found.java)
	at, left := chunk, uint64(deepestStack)
	for range mostChunks {
		o := v.copies([]uint64{at}, v.l.chunkSize)[0]
		c, ok := v.chunkOf(at, o)
		if !ok {
			break
		}
		c.Base = c.SP - unwind.ChunkLinks
		size := c.End - c.Base
		if size > left {
			break
		}
		left -= size
		if uint64(cap(v.buf)) < size {
			v.buf = make([]byte, size)
		}
		c.Bytes = v.buf[:size]
		if v.memory.Read(c.Base, c.Bytes) != nil || !v.rest.Chunk(&c, &found.java) {
			break
		}
		if at = v.ref(o, v.l.parent); at == 0 {
			found.java.Rooted = v.isRoot(&found.java)
			break
		}
	}
	v.stripCarrier(&found.java)
	v.p.adoptFrames(st)
	return found
}

// isRoot reports whether a stack ends where each continuation begins.
func (v *virtualThreads) isRoot(st *unwind.Stack) bool {
	if len(st.Frames) == 0 {
		return false
	}
	class, method := v.nameOf(&st.Frames[len(st.Frames)-1])
	return class == contClass && method == "enter"
}

// nameOf returns the class and the name of a frame's method.
func (v *virtualThreads) nameOf(f *unwind.Frame) (class, method string) {
	m, err := v.p.classes.Method(f.Method)
	if err != nil {
		return "", ""
	}
	return m.Class.Name, m.Name
}

// ofCarrier are the classes of calls by which a virtual thread gives its carrier up: they say no more than its reason.
var ofCarrier = map[string]bool{
	contClass: true, virtualClass: true, "java.lang.BaseVirtualThread": true, "java.lang.System$1": true, "jdk.internal.misc.VirtualThreads": true,
}

// stripCarrier leaves out the innermost frames that are those calls.
func (v *virtualThreads) stripCarrier(st *unwind.Stack) {
	inner := 0
	for inner < len(st.Frames)-1 {
		if class, _ := v.nameOf(&st.Frames[inner]); !ofCarrier[class] {
			break
		}
		inner++
	}
	st.Frames = append(st.Frames[:0], st.Frames[inner:]...)
}

// why returns why a virtual thread waits; "": as its state says.
func (v *virtualThreads) why(t *virtual, found *calls) string {
	if t.state != isParked && t.state != parksFor {
		return ""
	}
	const near = 4 // frames
	for i := range found.java.Frames[:min(near, len(found.java.Frames))] {
		class, method := v.nameOf(&found.java.Frames[i])
		switch {
		case class == "sun.nio.ch.Poller":
			return reasonPoll
		case class == threadClass && method == "sleep":
			return reasonSleep
		}
	}
	return ReasonPark
}

// reasonPoll is why a virtual thread waits whose socket or pipe is not ready.
const reasonPoll = "IO wait"

// mostThreadName bounds the text of a name, bytes.
const mostThreadName = 64

// name returns the name of a virtual thread as Java has it; "": it has none, or it cannot be read.
func (v *virtualThreads) name(id uint64) (name string) {
	place, known := v.index.find(v.seed, id, v.places)
	if !known {
		return ""
	}
	_ = v.still(func() {
		name = ""
		t := v.places[place]
		if epoch, _ := v.heap.epoch(); epoch == t.epoch {
			name = v.text(v.refs([]uint64{t.object}, v.l.name)[0])
		}
	})
	return name
}

// text returns a text of Java.
func (v *virtualThreads) text(at uint64) string {
	if at == 0 {
		return ""
	}
	o := v.copies([]uint64{at}, max(v.l.text, v.l.coder)&^7+8)[0]
	value, isLatin := v.ref(o, v.l.text), o.octet(v.l.coder) == 0
	head := v.copies([]uint64{value}, v.l.array.length&^7+8)[0]
	raw := make([]byte, min(mostThreadName, max(0, int(head.number(v.l.array.length)))))
	if len(raw) == 0 || v.memory.Read(value+v.l.array.length+4, raw) != nil {
		return ""
	}
	var units []uint16
	for i := range raw {
		if isLatin {
			units = append(units, uint16(raw[i]))
		} else if i%2 == 1 {
			units = append(units, uint16(raw[i-1])|uint16(raw[i])<<8)
		}
	}
	return string(utf16.Decode(units))
}
