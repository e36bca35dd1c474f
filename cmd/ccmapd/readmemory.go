package main

import (
	"math"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/figure"
)

// readMemory is how much memory the profiles may take that a command reads, together.
// All reading commands have the flag --max-read-memory, whose value it is.
type readMemory struct {
	figure.ByteSize
	given bool  // by the flag; else it is the default
	held  int64 // by the profiles that were read, bytes
}

// The other bounds of a reader grow with its memory.
const readMemoryHint = `Raise the limit with --max-read-memory SIZE, for example 2GiB or twice what you gave, if you trust the file.`

func (m *readMemory) Set(s string) error {
	m.given = true
	return m.ByteSize.Set(s)
}

// register adds the flag to the commands that read profiles.
func (m *readMemory) register(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		if cmd.GroupID == groupRead {
			cmd.Flags().Var(m, "max-read-memory", "read profiles in this `SIZE` of memory; 0: no limit; default: 512MiB,\nor a quarter of what there is if that is less")
		}
	}
}

// limit returns how many bytes all profiles may take.
func (m *readMemory) limit() int64 {
	switch {
	case !m.given:
		return export.DefaultMaxMemory()
	case m.ByteSize == 0:
		return math.MaxInt64
	}
	return int64(m.ByteSize)
}

// bound returns the options for the next profile.
func (m *readMemory) bound(o export.ReadOptions) export.ReadOptions {
	m.boundHeap(0)
	o.MaxMemory, o.Ahead = m.left(), true
	return o
}

// left returns how many bytes are left.
func (m *readMemory) left() int64 { return max(m.limit()-m.held, 1) }

// boundHeap has garbage collected before the heap outgrows the limit and some bytes
// more. The collector begins early, since the heap grows while it works; a
// map counts for more than it takes, so that it is seldom busy.
func (m *readMemory) boundHeap(more int64) {
	const least = int64(256 * figure.MiB) // with less, the collector is busier than the command
	heap := max(m.limit()/4*3, least)
	if heap += min(more, math.MaxInt64-heap); heap < debug.SetMemoryLimit(-1) {
		debug.SetMemoryLimit(heap)
	}
}

// hold counts a profile that was read.
func (m *readMemory) hold(read *ccmap.Map) { m.held += export.MapMemory(read) }
