package methoddata

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/sampler/internal/hotspot/classes"
	"github.com/ccmapd/ccmapd/sampler/internal/hotspot/vmstructs"
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

	Cut bool // the walk of the classes took more than it may, and ended early
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
	reached    map[reach]*classes.Method   // see resolve
	changed    bool                        // profiles, since the last Points

	// What Points has brought to names:
	methodIDs map[*classes.Method]ccmap.MethodID
	typeIDs   map[*classes.Class]ccmap.MethodID
	nameBytes int
}

// profile is the profile of a method at one moment.
type profile struct {
	method      *classes.Method
	address     uint64 // of the MethodData
	data        []byte // records
	invocations int64
	thrown      int64 // how often the JVM has thrown away code of the second compiler
	frozen      bool

	// What resolve has found:
	sites []site           // of its records, by index
	types []*classes.Class // in its records

	points []ccmap.Point // of it; nil: not made yet
}

// same reports whether two profiles of a method say the same.
func (p *profile) same(q *profile) bool {
	return p.method == q.method && p.invocations == q.invocations && p.thrown == q.thrown && p.frozen == q.frozen && bytes.Equal(p.data, q.data) && slices.Equal(p.types, q.types)
}

// New returns a reader of a JVM's profiles. Its table must be the reader's alone.
func New(vm *vmstructs.VM, table *classes.Table) (*Reader, error) {
	l, err := newLayout(vm)
	if err != nil {
		return nil, fmt.Errorf("learn the layout of profiles: %w", err)
	}
	return &Reader{
		vm: vm, table: table, l: l, profiles: make(map[uint64]*profile), reached: make(map[reach]*classes.Method),
		methodIDs: make(map[*classes.Method]ccmap.MethodID), typeIDs: make(map[*classes.Class]ccmap.MethodID),
	}, nil
}

// Stats returns counts of the last snapshot.
func (r *Reader) Stats() Stats { return r.stats }

// Snapshot reads the profiles of all warm methods.
func (r *Reader) Snapshot() (err error) {
	r.table.Load(func() { err = r.snapshot() })
	return err
}

func (r *Reader) snapshot() error {
	r.stats = Stats{}
	warm, err := r.walk()
	if err != nil {
		return err
	}
	r.keep(warm)
	taken := r.readProfiles(warm)
	if !r.calibrated {
		if err := r.calibrate(taken); err != nil {
			return err
		}
	}
	r.add(taken)
	return nil
}

// walk returns the warm methods of all classes.
func (r *Reader) walk() ([]classes.Header, error) {
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
	if errors.Is(err, classes.ErrSpent) {
		r.stats.Cut, err = true, nil
	}
	return warm, err
}

// keep drops the profiles of methods that are gone. Those of other methods stay, with
// their points.
func (r *Reader) keep(warm []classes.Header) {
	before := r.profiles
	r.profiles = make(map[uint64]*profile, len(warm))
	for _, h := range warm {
		if p := before[h.Method]; p != nil && p.address == h.Data && r.table.Has(p.method.Class) {
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
	list = slices.DeleteFunc(list, func(h classes.Header) bool { return h.Data == 0 }) // cold, or gone
	r.table.Load(func() { r.add(r.readProfiles(list)) })
}

// readProfiles reads the profiles that the headers of methods lead to.
func (r *Reader) readProfiles(list []classes.Header) []*profile {
	list = r.affordable(list)
	heads := r.many(list, func(i int) (uint64, int) { return list[i].Data, int(r.l.data) })
	sizes := make([]int, len(list))
	for i, head := range heads {
		size := int(binary32(head, r.l.dataSize))
		if sizes[i] = size; size < 0 || size > min(maxData, int(binary32(head, r.l.size))) {
			sizes[i] = -1
		}
	}
	bodies := r.many(list, func(i int) (uint64, int) { return list[i].Data + r.l.data, max(sizes[i], 0) })
	levels := r.many(list, func(i int) (uint64, int) { return list[i].Code + r.l.level&^7, cellSize })
	after := slices.Clone(list)
	r.table.Recheck(after)
	taken := make([]*profile, 0, len(list))
	for i, h := range list {
		if binary64(heads[i], r.l.method) != h.Method || after[i].Data != h.Data || len(bodies[i]) != sizes[i] {
			r.stats.Dropped++
			continue
		}
		m, err := r.table.Method(h.Method)
		if err != nil {
			r.stats.Dropped++
			continue
		}
		taken = append(taken, &profile{
			method: m, address: h.Data, data: bodies[i],
			invocations: int64(binary32(heads[i], r.l.invocations) >> 1), // the lowest bit says that it overflowed
			thrown:      int64(binary32(heads[i], r.l.thrown)),
			frozen:      h.Code != 0 && h.Code == after[i].Code && len(levels[i]) == cellSize && levels[i][r.l.level%8] == fullSpeed,
		})
	}
	return taken
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

// add keeps the profiles whose records make sense, and whose classes the JVM still has. So no
// profile has the name of a method that was at its address before.
func (r *Reader) add(taken []*profile) {
	before := len(taken)
	taken = slices.DeleteFunc(taken, func(p *profile) bool {
		n := 0
		if r.l.each(p.data, p.method.CodeSize, func(*record) error { n++; return nil }) != nil {
			return true
		}
		r.stats.Records += n
		return false
	})
	taken = r.resolve(taken)
	r.stats.Dropped += before - len(taken)
	for _, p := range taken {
		old := r.profiles[p.method.Address]
		if old == nil {
			r.stats.Warm++
		} else if old.same(p) {
			continue
		}
		r.profiles[p.method.Address] = p
		r.changed = true
	}
}

// many reads something of each of the headers, by index, as it is now: nil where it cannot. It
// reads at most maxBytes in all.
func (r *Reader) many(list []classes.Header, what func(int) (addr uint64, size int)) [][]byte {
	addrs, bufs := make([]uint64, len(list)), make([][]byte, len(list))
	left := maxBytes
	for i := range list {
		addr, size := what(i)
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
