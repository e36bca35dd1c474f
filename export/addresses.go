package export

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/ccmapd/ccmapd/ccmap"
)

// hex is an address, or a place in a file, as XML and JSON hold it: 0x and its digits.
// Numbers of JSON end at 2⁵³ for many readers.
type hex uint64

func (h hex) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%#x", uint64(h)), nil }

func (h *hex) UnmarshalText(b []byte) error {
	digits, prefixed := strings.CutPrefix(string(b), "0x")
	n, err := strconv.ParseUint(digits, 16, 64)
	if err != nil || !prefixed {
		return fmt.Errorf("%q is no address, want 0x and up to 16 digits", clip(string(b)))
	}
	*h = hex(n)
	return nil
}

// mappingDoc is a ccmap.Mapping as XML and JSON hold it.
type mappingDoc struct {
	Module     text `json:"module" xml:"module,attr"`
	File       text `json:"file,omitempty" xml:"file,attr,omitempty"`
	Start      hex  `json:"start" xml:"start,attr"`
	Limit      hex  `json:"limit" xml:"limit,attr"`
	FileOffset hex  `json:"file_offset,omitempty" xml:"file_offset,attr,omitempty"`
}

// addressDoc is a ccmap.Address as XML and JSON hold it.
type addressDoc struct {
	callerDoc              // the innermost frame
	Call       bool        `json:"call,omitempty" xml:"call,attr,omitempty"`
	FileOffset hex         `json:"file_offset" xml:"file_offset,attr"`
	Callers    []callerDoc `json:"callers,omitempty" xml:"caller"` // that it was inlined into, outwards
}

// callerDoc is a frameDoc whose fields have tags.
type callerDoc struct {
	Method *int64 `json:"method" xml:"method,attr"`
	Offset *int64 `json:"offset,omitempty" xml:"offset,attr"`
}

func (d *callerDoc) frame() frameDoc {
	return frameDoc{orElse(d.Method, noMethod), orElse(d.Offset, -1)}
}

func orElse(n *int64, otherwise int64) int64 {
	if n == nil {
		return otherwise
	}
	return *n
}

// mappings returns the mappings of the program and of the methods' modules, by module.
// Names may know others, which belong to other maps.
func (c *canonical) mappings() iter.Seq[*mappingDoc] {
	modules := []string{c.snapshot.Meta().Target.BuildID}
	for _, m := range c.methods {
		modules = append(modules, m.Module)
	}
	slices.Sort(modules)
	var docs []mappingDoc
	for _, module := range slices.Compact(modules) {
		if m := c.snapshot.Names().Mapping(module); m != (ccmap.Mapping{}) {
			docs = append(docs, mappingDoc{text(module), text(m.File), hex(m.Start), hex(m.Limit), hex(m.Offset)})
		}
	}
	return each(docs)
}

// addresses returns the addresses in the methods, by their frames, samples before calls.
// Names may know others, which belong to other maps.
func (c *canonical) addresses() iter.Seq[*addressDoc] {
	known := slices.DeleteFunc(c.snapshot.Names().Addresses(), func(a ccmap.Address) bool { return !c.rankFrames(a.Frames) })
	slices.SortFunc(known, compareAddresses)
	docs := make([]addressDoc, len(known))
	for i, a := range known {
		docs[i] = addressDoc{callerDoc: newCallerDoc(a.Frames[0]), Call: a.Call, FileOffset: hex(a.Offset)}
		for _, f := range a.Frames[1:] {
			docs[i].Callers = append(docs[i].Callers, newCallerDoc(f))
		}
	}
	return each(docs)
}

func compareAddresses(a, b ccmap.Address) int {
	order := slices.CompareFunc(a.Frames, b.Frames, func(f, g ccmap.Frame) int {
		return cmp.Or(cmp.Compare(f.Method, g.Method), cmp.Compare(f.Offset, g.Offset))
	})
	switch {
	case order != 0 || a.Call == b.Call:
		return order
	case a.Call:
		return 1
	}
	return -1
}

// rankFrames gives frames indices of methods for their ids, and reports whether all
// methods have one.
func (c *canonical) rankFrames(frames []ccmap.Frame) bool {
	for i := range frames {
		id := frames[i].Method
		if int64(id) >= int64(len(c.rank)) || c.rank[id] == unused {
			return false
		}
		frames[i].Method = c.rankOf(id)
	}
	return true
}

func newCallerDoc(f ccmap.Frame) callerDoc {
	method, offset := int64(f.Method), int64(int32(f.Offset))
	if f.Offset == ccmap.NoOffset {
		return callerDoc{Method: &method}
	}
	return callerDoc{&method, &offset}
}

// addMapping adds the next mapping of a document. No module has two.
func (b *builder) addMapping(d *mappingDoc) error {
	names, module := b.m.Names(), string(d.Module)
	var err error
	switch {
	case module == "":
		err = errors.New("it is that of no module")
	case d.Limit <= d.Start:
		err = fmt.Errorf("it ends at %#x, and begins at %#x", uint64(d.Limit), uint64(d.Start))
	case names.Mapping(module) != (ccmap.Mapping{}):
		err = errors.New("its module has one")
	case b.mappings == ccmap.MaxAddresses:
		err = fmt.Errorf("%w: more than %d", ErrTooLarge, ccmap.MaxAddresses)
	}
	if err != nil {
		return fmt.Errorf("mapping %d: %w", b.mappings, err)
	}
	b.mappings++
	names.SetMapping(module, ccmap.Mapping{File: string(d.File), Start: uint64(d.Start), Limit: uint64(d.Limit), Offset: uint64(d.FileOffset)})
	return b.afford()
}

// addAddress adds the next address of a document. No instruction has two.
func (b *builder) addAddress(d *addressDoc) error {
	frames, err := b.addressFrames(d)
	if err != nil {
		return fmt.Errorf("address %d: %w", b.addresses, err)
	}
	b.addresses++
	b.located += len(frames)
	b.m.Names().SetAddress(frames, d.Call, uint64(d.FileOffset))
	return b.afford()
}

// addressFrames returns the frames of an address, the innermost first.
func (b *builder) addressFrames(d *addressDoc) ([]ccmap.Frame, error) {
	if b.located+1+len(d.Callers) > ccmap.MaxAddresses {
		return nil, fmt.Errorf("%w: more than %d frames of addresses", ErrTooLarge, ccmap.MaxAddresses)
	}
	at, err := b.frame(d.frame())
	if err != nil {
		return nil, err
	}
	callers := make([]frameDoc, len(d.Callers))
	for i, c := range d.Callers {
		callers[i] = c.frame()
	}
	context, err := b.context(callers)
	if err != nil {
		return nil, err
	}
	frames := append([]ccmap.Frame{at}, context...)
	known, _ := b.m.Names().Address(frames, d.Call)
	switch {
	case at.Offset == ccmap.NoOffset:
		return nil, errors.New("its position is unknown")
	case d.FileOffset == 0:
		return nil, errors.New("it has no place in its file")
	case known != 0:
		return nil, errors.New("it stands twice")
	}
	return frames, nil
}
