package managed

import (
	"sync/atomic"

	"github.com/ccmapd/ccmapd/ccmap"
)

// Mark is the slot that a VM keeps in every activation record, where a sample
// notes that it has seen the activation (the paper's additional slot on the
// stack, sections 3.1.4 and 4). The zero Mark says that none has.
//
// The VM zeroes it when an activation begins, and never writes it otherwise. It
// may move in memory together with its record, between two safe points. Only the
// goroutine that has the thread reads and writes it, so it needs no lock.
type Mark struct {
	serial uint32 // of the attachment whose sample saw the activation last; 0: none did
	depth  uint32 // of the activation, the outermost having 1; 0: the walk did not reach that far
}

// Clear makes the mark that of an activation which begins.
func (m *Mark) Clear() { *m = Mark{} }

// Frame is one activation record, as a walker shows it.
type Frame struct {
	Method ccmap.MethodID // of the sink's names
	Offset uint32         // where it executes, or the call it waits for; as in ccmap.Frame
	// Mark is the activation's slot. Nil says that it has none, so that nobody can
	// tell whether it is a new one: see "Frames without a slot" in the package's
	// documentation.
	Mark *Mark
}

// Walker walks the stack of a VM's thread.
type Walker interface {
	// Walk calls visit with every frame, innermost first, until visit returns false
	// or the outermost frame has been visited. It runs on the thread's goroutine, at
	// a safe point, and may not run code of the guest. The stack does not change
	// meanwhile. Marks are written after Walk has returned.
	Walk(visit func(Frame) bool)
}

// serials counts the attachments of this process, so that no two have one serial
// or one id.
var serials atomic.Uint64

// newSerial returns the id of a new attachment, and its low half, which marks
// carry and which is never 0.
func newSerial() (id uint64, serial uint32) {
	for {
		id = serials.Add(1)
		if serial = uint32(id); serial != 0 {
			return id, serial
		}
	}
}
