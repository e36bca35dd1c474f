package export

import (
	"bufio"
	"encoding/xml"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"unsafe"

	"github.com/ccmapd/ccmapd/ccmap"
)

// A document, XML or JSON, is a description and lists of records. A list has one row here,
// which both formats read and write. A record of numbers has a table of columns: attributes
// in XML, members in JSON. The fields of other records have tags for both.
var sections = []section{
	list[methodDoc]{listNames{"methods", "method"}, methodCodec{}, (*canonical).methodDocs, (*builder).addMethod, always},
	list[nodeDoc]{listNames{"nodes", "node"}, nodeCodec{nodeColumns}, (*canonical).nodeDocs, (*builder).addNode, always},
	list[lineDoc]{listNames{"lines", "line"}, lineColumns, (*canonical).lines, (*builder).addLine, unlessEmpty},
	list[inlinedDoc]{listNames{"inlined", "call"}, inlinedColumns, (*canonical).inlined, (*builder).addInlined, unlessEmpty},
	list[mappingDoc]{listNames{"mappings", "mapping"}, fields[mappingDoc]{}, (*canonical).mappings, (*builder).addMapping, unlessEmpty},
	list[addressDoc]{listNames{"addresses", "address"}, fields[addressDoc]{}, (*canonical).addresses, (*builder).addAddress, unlessEmpty},
	list[prunedEdgeDoc]{listNames{"pruned_edges", "edge"}, prunedEdgeColumns, (*canonical).prunedEdges, (*builder).addPrunedEdge, ifPruned},
	list[prunedMethodDoc]{listNames{"pruned_methods", "method"}, prunedMethodColumns, (*canonical).prunedMethods, (*builder).addPrunedMethod, ifPruned},
	list[pointDoc]{listNames{"points", "point"}, pointCodec{}, (*canonical).pointDocs, (*builder).addPoint, unlessEmpty},
}

// section is a list of any records.
type section interface {
	names() listNames
	writeXML(*bufio.Writer, *canonical) error
	writeJSON(*bufio.Writer, *canonical) error
	readXML(xmlReader) error
	readJSON(*jsonReader) error
}

// findSection returns the list with a name, nil if no list has it.
func findSection(name string) section {
	for _, s := range sections {
		if s.names().list == name {
			return s
		}
	}
	return nil
}

// listNames are the name of a list and, in XML, of a record.
type listNames struct{ list, record string }

func (n listNames) names() listNames { return n }

// list is a list of records.
type list[D any] struct {
	listNames
	codec[D]
	docs func(*canonical) iter.Seq[*D] // each is valid until the next
	add  func(*builder, *D) error
	when presence
}

// codec reads and writes a record. A reader sets the fields that the record leaves out, too.
type codec[D any] interface {
	appendXML(b []byte, name string, d *D) ([]byte, error)
	appendJSON([]byte, *D) ([]byte, error)
	takeXML(xmlReader, xml.StartElement, *D) error // to the end of the element
	takeJSON(*jsonReader, *D) error
}

// write writes the list between two texts, with a comma between two records, one record a
// line.
func (l list[D]) write(w *bufio.Writer, c *canonical, begin, comma, end string, appendTo func([]byte, *D) ([]byte, error)) (err error) {
	const usual = 1 << 10 // bytes of a record, or fewer
	before, b := begin, w.AvailableBuffer()
	for d := range l.docs(c) {
		if b, err = appendTo(append(append(b, before...), '\n'), d); err != nil {
			return err
		}
		before = comma
		if cap(b)-len(b) < usual {
			w.Write(b)
			if err := w.Flush(); err != nil {
				return err
			}
			b = w.AvailableBuffer()
		}
	}
	w.Write(b)
	switch {
	case before != begin:
		w.WriteString(end)
	case l.when.isOpen(c):
		w.WriteString(begin + end)
	}
	return nil
}

// presence says when a list is written.
type presence uint8

const (
	always presence = iota
	unlessEmpty
	ifPruned
)

// isOpen reports whether the list is written even if it is empty.
func (p presence) isOpen(c *canonical) bool { return p == always || p == ifPruned && c.hasEvicted }

// column is a whole number of a record.
type column[D any] struct {
	name     string
	at       func(*D) *int64
	absent   int64 // the number that is left out
	written  bool  // nevertheless
	required bool  // by readers

	place uintptr         // of the number in the record
	leads [notations]lead // texts before the number
}

// columns are the schema of a record of numbers, and its codec.
type columns[D any] []column[D]

// newColumns returns columns that know where their numbers are. Records of nodes are read and
// written by the million, so no function is called for each of their numbers.
func newColumns[D any](c []column[D]) columns[D] {
	d := new(D)
	for i := range c {
		k := &c[i]
		k.place = uintptr(unsafe.Pointer(k.at(d))) - uintptr(unsafe.Pointer(d))
		if k.place > unsafe.Sizeof(*d)-unsafe.Sizeof(k.absent) {
			panic("export: column " + k.name + " is not in its record")
		}
		k.leads[inJSON], k.leads[inXML] = jsonNotation.lead(k.name), xmlNotation.lead(k.name)
	}
	return c
}

// of returns where the number is in a record.
func (c *column[D]) of(d *D) *int64 { return (*int64)(unsafe.Add(unsafe.Pointer(d), c.place)) }

// isLeftOut reports whether a record leaves out a number.
func (c *column[D]) isLeftOut(n int64) bool { return n == c.absent && !c.written }

// numberReader sets the numbers of a record.
type numberReader[D any] struct {
	columns columns[D]
	record  *D
	next    int    // column, if the record has them in order
	set     uint64 // columns, a bit each
}

// reader returns a reader of a record, which leaves out all so far.
func (c columns[D]) reader(d *D) numberReader[D] {
	for i := range c {
		*c[i].of(d) = c[i].absent
	}
	return numberReader[D]{columns: c, record: d}
}

// setNumber sets a number. It skips numbers that have no column.
func (r *numberReader[D]) setNumber(name, text string) error {
	for n := range r.columns {
		i := (r.next + n) % len(r.columns)
		c := &r.columns[i]
		if c.name != name {
			continue
		}
		v, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
		if err != nil {
			return fmt.Errorf("%s is %q, want a whole number of 64 bits", c.name, strings.Clone(clip(text)))
		}
		*c.of(r.record) = v
		r.next, r.set = i+1, r.set|1<<i
		return nil
	}
	return nil
}

// finish returns an error if a number is missing that must be there.
func (r *numberReader[D]) finish() error {
	for i := range r.columns {
		if r.columns[i].required && r.set>>i&1 == 0 {
			return fmt.Errorf("%s is missing", r.columns[i].name)
		}
	}
	return nil
}

// recentPrefix begins the names of the window's counters.
const recentPrefix = "recent_"

// counterColumns returns a column for each counter, or for the counters of samples only.
func counterColumns[D any](prefix string, sampled bool, of func(*D) *ccmap.Counters) (c []column[D]) {
	for k := range ccmap.NumCounters {
		if k.Sampled() || !sampled {
			c = append(c, column[D]{name: prefix + k.Key(), at: func(d *D) *int64 { return k.Of(of(d)) }})
		}
	}
	return c
}

// each returns the records of a list.
func each[D any](docs []D) iter.Seq[*D] {
	return func(yield func(*D) bool) {
		for i := range docs {
			if !yield(&docs[i]) {
				return
			}
		}
	}
}

// fields is the codec of records whose fields have tags for XML and JSON.
type fields[D any] struct{}

// pointCodec is the codec of points: numbers beside two words and two lists.
type pointCodec struct{}
