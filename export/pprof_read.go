package export

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
)

// pprofFile is a profile.proto, of ours or of any other tool, that was decoded
// and checked. Of others, labels with numbers and addresses are dropped, and [valueTypes]
// chooses among the values.
//
//	bytes ─▶ records ─▶ tables of strings, functions, locations ─▶ samples ─▶ map
//
// Its buffers are worth keeping for the next file: [newPprofFile], release.
type pprofFile struct {
	data []byte
	pprofTables
	stacks sampleReader
	ours   commentFields // nil in a profile of another tool
	others []string      // comments
	bodies []bodyDoc     // of methods of ours
	adder  *pprofAdder   // of samples that are not listed; nil: all are

	names   *ccmap.Names     // of the map that it is for; nil: not known yet
	methods []ccmap.MethodID // of names, by function; ccmap.NoMethod: not looked up, or not there
}

var pprofFiles = sync.Pool{New: func() any { return new(pprofFile) }}

// newPprofFile returns one that shares the memory of a builder.
func newPprofFile(b *builder) *pprofFile {
	p := pprofFiles.Get().(*pprofFile)
	if p.buffers() > b.memory.limit/2 {
		p = new(pprofFile)
	}
	p.share(b)
	return p
}

func (p *pprofFile) share(b *builder) {
	p.memory = memory{b.memory.limit, b.memory.held + p.buffers(), b.memory.ledger}
	b.memory = &p.memory
}

// release hands the buffers on, unless they are such that few files need.
func (p *pprofFile) release() {
	const most = 16 << 20
	if p.buffers() <= most {
		p.reset()
		pprofFiles.Put(p)
	}
}

// buffers returns the bytes of the lists that are kept.
func (p *pprofFile) buffers() int64 {
	r := &p.stacks
	return roomOf(p.data) + roomOf(p.comments) + roomOf(p.strings.ends) + roomOf(p.sampleTypes) +
		roomOf(p.mappings.entries) + roomOf(p.functions.entries) + roomOf(p.locations.entries) + roomOf(p.lines) +
		roomOf(r.samples) + roomOf(r.added.locations) + roomOf(r.depths) + roomOf(r.hits.list) + roomOf(r.hits.locations)
}

func (p *pprofFile) reset() {
	p.data = p.data[:0]
	p.pprofTables.reset()
	p.stacks.reset()
	p.ours, p.others, p.bodies = nil, nil, nil
	p.names, p.adder = nil, nil
}

// readPprof reads a profile.proto into the map.
func readPprof(r *bufio.Reader, b *builder) error {
	p := newPprofFile(b)
	defer p.release()
	if err := p.decode(r, b, fewListed); err != nil {
		return err
	}
	return p.addTo(b, once)
}

// decode reads and checks a profile. All but the stacks goes to the map, and stacks do
// where there are more than may be listed.
func (p *pprofFile) decode(r io.Reader, b *builder, listed listing) error {
	most := min(b.limits.MaxBytes/pprofShare, math.MaxUint32) // tables have indices of 32 bits
	b.told.to = bytesPart
	if err := p.readAll(newLimitReader(r, most, "of pprof"), min(b.size, most)); err != nil {
		return err
	}
	if err := p.parse(p.data); err != nil {
		return fmt.Errorf("parse profile of %d bytes: %w", len(p.data), err)
	}
	p.stacks.tables, p.stacks.limits, p.stacks.ours = &p.pprofTables, b.limits, p.ours != nil
	p.stacks.program = programLabels{ours: p.ours != nil, memory: &p.memory}
	types := valueTypes{p.sampleTypes, p.strings.at(p.numbers[defaultTypeField]), p.ours != nil}
	var err error
	if p.stacks.values, err = types.choose(b.limits.SampleType); err != nil {
		return err
	}
	if err := p.describe(b); err != nil {
		return err
	}
	b.told.from, b.told.to = bytesPart, 1
	p.stacks.empty, p.stacks.most = func() error { return p.unload(b) }, listed
	if err := p.stacks.read(); err != nil {
		return err
	}
	if err := p.addPoints(b); err != nil {
		return err
	}
	p.tellBodies(b.m.Names()) // methods that only points have, too
	return nil
}

// bytesPart is the part of the time of reading until the stacks are added up.
const bytesPart = 0.4

// pprofShare is the part of ReadOptions.MaxBytes that a profile may fill: it is held in
// memory as a whole, and its tables, and the garbage of their growth, can take several
// times its size.
const pprofShare = 16

// pieceBytes is how much of a profile is read at once whose size is not known. Pieces are joined at the end: a list that
// grows is copied again and again, which took half the time of reading a large file.
const pieceBytes = 16 << 20

// readAll reads the profile into memory. Its size is 0 where it is not known.
func (p *pprofFile) readAll(r io.Reader, size int64) (err error) {
	// Where there is no room for all, what is read of it says how much there is.
	if fitting, err := room(&p.memory, p.data, int(size)+bytes.MinRead); err == nil {
		p.data = fitting
	}
	var pieces [][]byte // before the one in data
	for err == nil {
		want := bytes.MinRead
		if cap(p.data) >= pieceBytes && cap(p.data)-len(p.data) < want {
			pieces, p.data, want = append(pieces, p.data), nil, pieceBytes
		}
		if p.data, err = room(&p.memory, p.data, want); err != nil {
			return err
		}
		var n int
		n, err = r.Read(p.data[len(p.data):cap(p.data)])
		p.data = p.data[:len(p.data)+n]
	}
	if err == io.EOF {
		return p.join(pieces)
	}
	return err
}

// join puts pieces before the data.
func (p *pprofFile) join(pieces [][]byte) error {
	if len(pieces) == 0 {
		return nil
	}
	pieces = append(pieces, p.data)
	size := 0
	for _, one := range pieces {
		size += len(one)
	}
	whole, err := room(&p.memory, []byte(nil), size)
	if err != nil {
		return err
	}
	for i, one := range pieces {
		whole, pieces[i] = append(whole, one...), nil // whose memory is free then
		p.memory.release(roomOf(one))
	}
	p.data = whole
	return nil
}

func (p *pprofFile) parse(data message) error {
	if err := p.split(data); err != nil {
		return err
	}
	if err := p.pprofTables.decode(); err != nil {
		return err
	}
	comments, err := p.commentTexts()
	if err != nil {
		return err
	}
	p.ours, p.others = parseComments(comments)
	p.bodies, err = p.ours.methodBodies()
	return err
}

// commentTexts returns the comments. A file may repeat one that is long; decoded,
// each takes up to twice decodedShare times its size: its list of JSON is taken apart first.
func (p *pprofFile) commentTexts() ([]string, error) {
	comments := make([]string, 0, min(len(p.comments), 1<<10))
	for _, number := range p.comments {
		comment := p.strings.at(number)
		if err := p.memory.reserve(2 * decodedShare * int64(len(comment)+1)); err != nil {
			return nil, err
		}
		comments = append(comments, comment)
	}
	return comments, p.strings.missing
}

// describe restores the description of the profile.
func (p *pprofFile) describe(b *builder) error {
	meta := b.m.Meta()
	if p.ours != nil {
		err := p.ours.restore(b)
		meta.Unit = p.stacks.values.unit
		meta.Comments = append(meta.Comments, cloned(p.others)...)
		return err
	}
	meta.Unit = p.stacks.values.unit
	meta.Duration = time.Duration(p.numbers[durationField])
	if start := int64(p.numbers[timeField]); start != 0 {
		meta.Start = time.Unix(0, start).UTC()
	}
	if period := int64(p.numbers[periodField]); p.periodType.unit == ccmap.Nanoseconds && period > 0 {
		meta.Interval = []ccmap.IntervalChange{{Interval: time.Duration(period), Reason: "period of the profile"}}
	}
	if len(p.mappings.entries) > 0 {
		meta.Target.Executable = strings.Clone(p.mappings.entries[0].file)
		meta.Target.BuildID = strings.Clone(p.mappings.entries[0].buildID)
	}
	meta.Comments = append(meta.Comments, cloned(p.others)...)
	return nil
}

// cloned returns copies, which do not keep all strings of a file alive.
func cloned(list []string) []string {
	copies := make([]string, len(list))
	for i, s := range list {
		copies[i] = strings.Clone(s)
	}
	return copies
}
