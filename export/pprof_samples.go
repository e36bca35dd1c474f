package export

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/ccmapd/ccmapd/ccmap"
)

// pprofSample is a sample of a profile.proto. Its stack is a change of the stack of the
// sample before.
type pprofSample struct {
	kept, added uint32 // locations: so many of the outermost stay, and so many follow
	labels      uint32 // number of the program's set of labels; 0: none
	self        ccmap.Counters
	recent      ccmap.Counters // of the window
}

// sampleReader decodes samples. In a sorted profile, as ours are, neighbours have
// most of their stacks in common. Locations stand leaf first, so neighbours
// share the end of their lists: it is compared as bytes, and not decoded again.
type sampleReader struct {
	tables *pprofTables
	values valueChoice
	limits ReadOptions
	ours   bool         // labels are
	empty  func() error // empties the lists of samples
	most   listing      // samples before that

	unloaded int // samples that were in the lists before
	samples  []pprofSample
	added    struct {
		locations []uint32 // that samples add, outermost first; indices
		frames    int      // of these
	}

	locations message   // of the last sample, as in the file: its numbers
	lists     [2][]byte // where the numbers lie if the file has them in pieces
	turn      int       // of lists: the one that locations does not use
	depths    []int     // by location of the last sample, outermost first: frames down to it
	row       []int64   // the values of the last sample
	labels    sampleLabels
	program   programLabels
	hits      struct {
		list      []pprofHit
		locations []uint32 // of these; indices
	}

	frames int // of all samples
	total  ccmap.Counters
	recent ccmap.Counters
}

// read decodes the samples of the tables.
func (r *sampleReader) read() error {
	if r.tables.records[sampleField].count > 0 && len(r.tables.sampleTypes) == 0 {
		return errors.New("samples, but no sample types")
	}
	return r.tables.each(sampleField, r.sample)
}

// listing bounds the samples, and their frames, that are listed before they are added to a map.
type listing struct{ samples, frames int }

var (
	// maxListed bounds a part of a sum. Beyond that, samples of equal stacks take no memory each.
	maxListed = listing{1 << 18, 1 << 20}
	// fewListed are for a map of their own, and fit into the cache of a CPU.
	fewListed = listing{1 << 9, 1 << 14}
)

// memory is for the lists.
func (r *sampleReader) memory() *memory { return &r.tables.memory }

func (r *sampleReader) sample(m message) error {
	locations, err := r.fields(m)
	if err != nil {
		return err
	}
	if len(r.row) != len(r.tables.sampleTypes) {
		return fmt.Errorf("not as many values as there are types, %d", len(r.tables.sampleTypes))
	}
	var s pprofSample
	if s.self, s.recent, err = r.values.counters(r.row); err != nil {
		return err
	}
	if err := addCounts(&r.total, s.self); err != nil {
		return err
	}
	if !s.recent.IsZero() {
		if err := addCounts(&r.recent, s.recent); err != nil {
			return err
		}
	}
	if r.labels.receiver != "" || r.labels.hit != "" {
		isHit, err := r.labelled(locations)
		if err != nil || isHit && s.self.IsZero() {
			return err
		}
	}
	if s.labels, err = r.program.set(); err != nil {
		return err
	}
	if err := r.stack(&s, locations); err != nil {
		return err
	}
	if r.samples, err = keep(r.memory(), r.samples, s); err != nil {
		return err
	}
	if len(r.samples) >= r.most.samples || r.added.frames >= r.most.frames {
		return r.empty()
	}
	return nil
}

// labelled takes in our labels, and reports whether the sample counts a part of a burst
// point.
func (r *sampleReader) labelled(locations message) (isHit bool, err error) {
	if r.labels.receiver != "" {
		r.nameReceiver(locations)
	}
	if r.labels.hit == "" || r.values.hits == noValue || r.values.siteHits == noValue {
		return false, nil
	}
	return true, r.hit(locations)
}

// fields reads the fields of a sample: the values into row, and returns the
// numbers of the locations.
func (r *sampleReader) fields(m message) (locations message, err error) {
	const location, value, label = 1, 2, 3
	r.row, r.labels = r.row[:0], sampleLabels{}
	r.program.beginSample()
	r.lists[r.turn] = r.lists[r.turn][:0]
	var f field
	for len(m) > 0 && err == nil {
		if err = m.next(&f); err != nil {
			break
		}
		switch f.number {
		case location:
			locations, err = r.join(locations, &f)
		case value:
			err = f.eachNumber(r.addValue)
		case label:
			err = r.label(&f)
		}
	}
	return locations, err
}

// addValue takes a value of the sample; of too many, as many as tell that.
func (r *sampleReader) addValue(v uint64) {
	if len(r.row) <= len(r.tables.sampleTypes) {
		r.row = append(r.row, int64(v))
	}
}

// join appends the numbers of a field. Nearly always it is the first field, and nothing
// is copied.
func (r *sampleReader) join(numbers message, f *field) (message, error) {
	switch {
	case f.wire != wireBytes && f.wire != wireVarint:
		return nil, errWireType
	case len(numbers) == 0:
		return f.data, nil
	case len(numbers)+len(f.data) > binary.MaxVarintLen64*r.limits.MaxDepth:
		return nil, r.tooDeep()
	}
	list := &r.lists[r.turn]
	if len(*list) == 0 {
		*list = append(*list, numbers...)
	}
	*list = append(*list, f.data...)
	return *list, nil
}

// label reads a label. Labels with numbers are dropped.
func (r *sampleReader) label(f *field) error {
	const key, text, unit = 1, 2, 4
	if f.wire != wireBytes {
		return errWireType
	}
	var v [unit + 1]uint64
	if err := f.data.numbers(v[:]); err != nil {
		return err
	}
	name, value := r.tables.strings.at(v[key]), r.tables.strings.at(v[text])
	if v[text] == 0 {
		r.tables.strings.at(v[unit])
	}
	if r.ours && r.labels.takeLabel(name, value) {
		return r.tables.strings.missing
	}
	return cmp.Or(r.tables.strings.missing, r.program.takeLabel(name, value, f.data))
}

// stack finds out which locations a sample keeps of the last one, and takes in
// those that it adds.
func (r *sampleReader) stack(s *pprofSample, locations message) (err error) {
	if s.labels != r.program.last {
		r.locations, r.depths = nil, r.depths[:0]
		r.program.last = s.labels
	}
	same := commonNumbers(r.locations, locations)
	kept := len(r.depths) - countNumbers(r.locations[:len(r.locations)-same])
	first := len(r.added.locations)
	fresh := locations[:len(locations)-same]
	if len(fresh) > binary.MaxVarintLen64*(r.limits.MaxDepth-kept) {
		return r.tooDeep()
	}
	if r.added.locations, err = r.appendLocations(r.added.locations, fresh); err != nil {
		return err
	}
	added := r.added.locations[first:]
	if r.depths, err = room(r.memory(), r.depths, len(added)); err != nil {
		return err
	}
	slices.Reverse(added) // the file has them innermost first
	r.depths = r.depths[:kept]
	depth := 0
	if kept > 0 {
		depth = r.depths[kept-1]
	}
	r.added.frames -= depth
	for _, l := range added {
		depth += r.tables.locations.entries[l].frames()
		r.depths = append(r.depths, depth)
	}
	r.added.frames += depth
	s.kept, s.added = uint32(kept), uint32(len(added))
	r.locations, r.turn = locations, 1-r.turn
	depth = max(depth, 1) // no location: a frame of the unknown
	if s.labels != 0 {
		depth++
	}
	return r.bound(depth)
}

// appendLocations appends the indices of locations.
func (r *sampleReader) appendLocations(to []uint32, numbers message) ([]uint32, error) {
	to, err := room(r.memory(), to, countNumbers(numbers))
	if err != nil {
		return to, err
	}
	for len(numbers) > 0 {
		id, size := varint(numbers)
		if size == 0 {
			return to, errVarint
		}
		index, found := r.tables.locations.find(id)
		if !found {
			return to, fmt.Errorf("location %d is not there", id)
		}
		to = append(to, index)
		numbers = numbers[size:]
	}
	return to, nil
}

// bound holds the depth of a stack against the limits.
func (r *sampleReader) bound(depth int) error {
	if depth > r.limits.MaxDepth {
		return r.tooDeep()
	}
	if r.frames += depth; r.frames > r.limits.MaxFrames {
		return fmt.Errorf("%w: more than %d frames in all stacks", ErrTooLarge, r.limits.MaxFrames)
	}
	return r.memory().ledger.work(int64(depth))
}

func (r *sampleReader) tooDeep() error {
	return fmt.Errorf("%w: more than %d frames deep", ErrTooDeep, r.limits.MaxDepth)
}

// commonNumbers returns how many bytes the same numbers at the end of two lists
// take. All numbers of a are well formed.
func commonNumbers(a, b []byte) int {
	same := commonSuffix(a, b)
	for same > 0 && !(startsNumber(a, len(a)-same) && startsNumber(b, len(b)-same)) {
		same--
	}
	return same
}

// startsNumber reports whether a number begins at b[i]: the byte before it ends
// one.
func startsNumber(b []byte, i int) bool { return i == 0 || b[i-1] < 0x80 }

// commonSuffix returns how many bytes at their ends a and b have in common.
func commonSuffix(a, b []byte) int {
	n := 0
	for len(a)-n >= 8 && len(b)-n >= 8 {
		x := binary.LittleEndian.Uint64(a[len(a)-n-8:])
		y := binary.LittleEndian.Uint64(b[len(b)-n-8:])
		if x != y {
			return n + bits.LeadingZeros64(x^y)/8
		}
		n += 8
	}
	for n < min(len(a), len(b)) && a[len(a)-n-1] == b[len(b)-n-1] {
		n++
	}
	return n
}

// countNumbers returns how many numbers a list has: so many bytes have no high
// bit, which no branch could foretell.
func countNumbers(list []byte) (n int) {
	const highBits = 0x8080808080808080
	for ; len(list) >= 8; list = list[8:] {
		n += bits.OnesCount64(^binary.LittleEndian.Uint64(list) & highBits)
	}
	for _, b := range list {
		n += int(^b >> 7)
	}
	return n
}

// reset makes room for another profile, and keeps the buffers.
func (r *sampleReader) reset() {
	added, hits := r.added.locations[:0], r.hits
	*r = sampleReader{samples: r.samples[:0], lists: r.lists, depths: r.depths[:0], row: r.row[:0]}
	r.added.locations = added
	r.hits.list, r.hits.locations = hits.list[:0], hits.locations[:0]
}
