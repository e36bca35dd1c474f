package methoddata

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/sampler/hotspot/classes"
	"github.com/ccmapd/ccmapd/sampler/hotspot/vmstructs"
)

// ErrFew says that the JVM has too few profiles to learn from them how long records are. A
// JVM that only interprets keeps none (-Xint).
var ErrFew = errors.New("the JVM has too few profiles yet, or keeps none")

// ErrLayout says that records are not as in any JVM that is known.
var ErrLayout = errors.New("the JVM's profiles have an unknown layout")

// The bounds of a snapshot.
const (
	maxBytes = 256 << 20 // of profiles
	maxData  = 1 << 20   // of one method's profile, bytes
	maxWarm  = 1 << 19   // methods
)

// Stats are counts of the last snapshot and of the updates since.
type Stats struct {
	Classes int // that were walked
	Warm    int // methods with a profile
	Records int // of profiles
	Dropped int // profiles that changed while they were read, or made no sense
	Beyond  int // profiles that the budget had no room for
}

// Reader reads the profiles of one JVM.
type Reader struct {
	vm    *vmstructs.VM
	table *classes.Table
	l     layout
	stats Stats

	calibrated bool
	profiles   map[uint64]*profile         // by Method*
	byName     map[string][]*classes.Class // of the last walk
	changed    bool                        // profiles, since the last Points
	nameBytes  int                         // of names that Points has brought
}

// profile is the profile of a method at one moment.
type profile struct {
	method      *classes.Method
	address     uint64 // of the MethodData
	data        []byte // records
	invocations int64
	frozen      bool

	points []ccmap.Point // of it; nil: not made yet
}

// same reports whether two profiles of a method say the same.
func (p *profile) same(q *profile) bool {
	return p.method == q.method && p.invocations == q.invocations && p.frozen == q.frozen && bytes.Equal(p.data, q.data)
}

// New returns a reader of a JVM's profiles. Its table must be the reader's alone.
func New(vm *vmstructs.VM, table *classes.Table) (*Reader, error) {
	l, err := newLayout(vm)
	if err != nil {
		return nil, fmt.Errorf("learn the layout of profiles: %w", err)
	}
	return &Reader{vm: vm, table: table, l: l, profiles: make(map[uint64]*profile)}, nil
}

// Stats returns counts of the last snapshot.
func (r *Reader) Stats() Stats { return r.stats }

// Snapshot reads the profiles of all warm methods.
func (r *Reader) Snapshot() error {
	r.stats = Stats{}
	r.byName = make(map[string][]*classes.Class)
	var warm, all []classes.Header
	err := r.table.Walk(func(c *classes.Class) bool {
		r.stats.Classes++
		r.byName[c.Name] = append(r.byName[c.Name], c)
		all = r.table.Headers(all[:0], c)
		for _, h := range all {
			if h.Data != 0 {
				warm = append(warm, h)
			}
		}
		return len(warm) < maxWarm
	})
	if err != nil {
		return err
	}
	r.keep(warm)
	r.take(warm)
	if r.calibrated {
		return nil
	}
	if err := r.calibrate(); err != nil {
		clear(r.profiles)
		return err
	}
	r.calibrated = true
	return nil
}

// keep drops the profiles of methods that are gone. Those of other methods stay, with
// their points.
func (r *Reader) keep(warm []classes.Header) {
	before := r.profiles
	r.profiles = make(map[uint64]*profile, len(warm))
	for _, h := range warm {
		if p := before[h.Method]; p != nil && p.address == h.Data {
			r.profiles[h.Method] = p
		}
	}
	r.changed = r.changed || len(r.profiles) != len(before)
	r.stats.Warm = len(r.profiles)
}

// Update reads the profiles of some methods, by the addresses of their Methods, again.
func (r *Reader) Update(methods []uint64) {
	if !r.calibrated {
		return
	}
	list := make([]classes.Header, len(methods))
	for i, m := range methods {
		list[i].Method = m
	}
	r.table.Recheck(list)
	r.take(slices.DeleteFunc(list, func(h classes.Header) bool { return h.Data == 0 })) // cold, or gone
}

// take reads the profiles that the headers of methods lead to.
func (r *Reader) take(list []classes.Header) {
	list = r.affordable(list)
	heads := r.many(list, func(h classes.Header) (uint64, int) { return h.Data, int(r.l.data) })
	sizes := make(map[uint64]int, len(list))
	for i, h := range list {
		size := int(binary32(heads[i], r.l.dataSize))
		if size >= 0 && size <= min(maxData, int(binary32(heads[i], r.l.size))) {
			sizes[h.Data] = size
		}
	}
	bodies := r.many(list, func(h classes.Header) (uint64, int) { return h.Data + r.l.data, sizes[h.Data] })
	levels := r.many(list, func(h classes.Header) (uint64, int) { return h.Code + r.l.level&^7, cellSize })
	after := slices.Clone(list)
	r.table.Recheck(after)
	for i, h := range list {
		size, fits := sizes[h.Data]
		if binary64(heads[i], r.l.method) != h.Method || after[i].Data != h.Data || !fits || len(bodies[i]) != size {
			r.stats.Dropped++
			continue
		}
		m, err := r.table.Method(h.Method)
		if err != nil {
			r.stats.Dropped++
			continue
		}
		p := &profile{
			method: m, address: h.Data, data: bodies[i],
			invocations: int64(binary32(heads[i], r.l.invocations) >> 1), // the lowest bit says that it overflowed
			frozen:      h.Code != 0 && len(levels[i]) == cellSize && levels[i][r.l.level%8] == fullSpeed,
		}
		if !r.add(p) {
			r.stats.Dropped++
		}
	}
}

// affordable returns the headers that a snapshot has room for.
func (r *Reader) affordable(list []classes.Header) []classes.Header {
	const each = 2048 // bytes, about: few profiles are larger
	if most := maxBytes / each; len(list) > most {
		r.stats.Beyond += len(list) - most
		list = list[:most]
	}
	return list
}

// add keeps a profile whose records make sense. Before calibration nobody knows.
func (r *Reader) add(p *profile) bool {
	if r.calibrated {
		n := 0
		if r.l.each(p.data, p.method.CodeSize, func(*record) error { n++; return nil }) != nil {
			return false
		}
		r.stats.Records += n
	}
	switch old := r.profiles[p.method.Address]; {
	case old == nil:
		r.stats.Warm++
	case old.same(p):
		return true
	}
	r.profiles[p.method.Address] = p
	r.changed = true
	return true
}

// many reads something of each of the headers: nil where it cannot. It reads at most
// maxBytes in all.
func (r *Reader) many(list []classes.Header, what func(classes.Header) (addr uint64, size int)) [][]byte {
	addrs, bufs := make([]uint64, len(list)), make([][]byte, len(list))
	left := maxBytes
	for i, h := range list {
		addr, size := what(h)
		if left -= size; left < 0 {
			r.stats.Beyond++
			size = 0
		}
		addrs[i], bufs[i] = addr, make([]byte, size)
	}
	classes.ReadMany(r.vm.Memory, addrs, bufs)
	return bufs
}

func binary32(b []byte, at uint64) uint32 {
	if at > uint64(len(b)) || uint64(len(b))-at < 4 {
		return 0
	}
	return binary.LittleEndian.Uint32(b[at:])
}

func binary64(b []byte, at uint64) uint64 {
	if at > uint64(len(b)) || uint64(len(b))-at < 8 {
		return 0
	}
	return binary.LittleEndian.Uint64(b[at:])
}
