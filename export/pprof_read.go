package export

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
)

// pprofShare is the part of ReadOptions.MaxBytes that a profile may fill: it is
// held in memory as a whole, and its tables can take many times its size.
const pprofShare = 16

// pprofFile is a profile.proto, of ours or of any other tool, that was decoded
// and checked. Of others, all labels and addresses are dropped, and [valueTypes]
// says what the values count.
//
//	bytes ─▶ records ─▶ tables of strings, functions, locations ─▶ samples ─▶ map
//
// Its buffers are worth keeping for the next file: [newPprofFile], release.
type pprofFile struct {
	data bytes.Buffer
	pprofTables
	stacks sampleReader
	ours   commentFields // nil in a profile of another tool
	others []string      // comments

	names   *ccmap.Names     // of the map that it is for; nil: not known yet
	methods []ccmap.MethodID // of names, by function; ccmap.NoMethod: not looked up, or not there
}

var pprofFiles = sync.Pool{New: func() any { return new(pprofFile) }}

func newPprofFile() *pprofFile { return pprofFiles.Get().(*pprofFile) }

// release hands the buffers on, unless they are such that few files need.
func (p *pprofFile) release() {
	const spare = 16 << 20
	if p.data.Cap() <= spare {
		p.reset()
		pprofFiles.Put(p)
	}
}

func (p *pprofFile) reset() {
	p.data.Reset()
	p.pprofTables.reset()
	p.stacks.reset()
	p.ours, p.others = nil, nil
	p.names = nil
}

// readPprof reads a profile.proto into the map.
func readPprof(r *bufio.Reader, b *builder) error {
	p := newPprofFile()
	defer p.release()
	if err := p.decode(r, b.limits); err != nil {
		return err
	}
	if err := p.describe(b); err != nil {
		return err
	}
	return p.addTo(b, once)
}

// decode reads and checks all but what its comments say.
func (p *pprofFile) decode(r io.Reader, limits ReadOptions) error {
	if _, err := p.data.ReadFrom(newLimitReader(r, limits.MaxBytes/pprofShare, "of pprof")); err != nil {
		return err
	}
	if err := p.parse(p.data.Bytes(), limits); err != nil {
		return fmt.Errorf("parse profile of %d bytes: %w", p.data.Len(), err)
	}
	p.stacks.tables, p.stacks.limits, p.stacks.ours = &p.pprofTables, limits, p.ours != nil
	types := valueTypes{p.sampleTypes, p.strings.at(p.numbers[defaultTypeField]), p.ours != nil}
	var err error
	if p.stacks.values, err = types.choose(limits.SampleType); err != nil {
		return err
	}
	return p.stacks.read()
}

func (p *pprofFile) parse(data message, limits ReadOptions) error {
	if err := p.split(data, limits.MaxNodes); err != nil {
		return err
	}
	if err := p.pprofTables.decode(); err != nil {
		return err
	}
	if len(p.comments) > limits.MaxNodes {
		return fmt.Errorf("%w: more than %d comments", ErrTooLarge, limits.MaxNodes)
	}
	comments := make([]string, len(p.comments))
	for i, number := range p.comments {
		comments[i] = p.strings.at(number)
	}
	p.ours, p.others = parseComments(comments)
	return p.strings.missing
}

// describe restores all but the contexts: what the comments and labels hold, or
// what else is known.
func (p *pprofFile) describe(b *builder) error {
	meta := b.m.Meta()
	if p.ours != nil {
		err := p.ours.restore(b.m)
		meta.Unit = p.stacks.values.unit
		meta.Comments = append(meta.Comments, cloned(p.others)...)
		if err == nil && len(p.stacks.hits.list) > 0 {
			err = p.addPoints(b)
		}
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
