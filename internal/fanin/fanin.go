// Package fanin is the shared fan-in cache of OpenJ9's JITServer: of each method, from how many places it is called,
// and how often it was found there. An inliner asks for no more. A method is known by its name, signature and body,
// which are equal in all processes, and not by a pointer.
//
//  1. [Of] makes the entries of a profile.
//  2. [Encode] writes them as one file. [Open] reads one, and believes nothing.
//  3. [File.Load] finds a method, [File.Entries] reads all. A method that is not there has none, which is not the same
//     as zeros.
//  4. [Choose] takes the better of two sources, [Table.Store] keeps the better of two entries.
package fanin

import (
	"cmp"
	"math"
	"slices"

	"github.com/ccmapd/ccmapd/ccmap"
)

// MostCallers is how many callers an entry lists. More are counted as one more.
const MostCallers = 20

// Key is a method, in any process.
type Key struct {
	Name, Signature string
	Body            uint32 // of its code, see BodyOf; 0: not known
}

// Mixed is the Body of a method that had several codes.
const Mixed uint32 = math.MaxUint32

// BodyOf returns what a key has of a [ccmap.Method.Body]: 32 bits. They are compared for methods of one name and
// signature alone, so one changed method of four billion is taken for unchanged.
func BodyOf(body uint64) uint32 {
	switch half := uint32(body) ^ uint32(body>>32); {
	case body == 0:
		return 0
	case body == ccmap.MixedBodies:
		return Mixed
	case half == 0, half == Mixed:
		return 1
	default:
		return half
	}
}

// KeyOf returns the key of a method.
func KeyOf(m ccmap.Method) Key { return Key{m.Name, m.Signature, BodyOf(m.Body)} }

func (k Key) compare(o Key) int {
	return cmp.Or(cmp.Compare(k.Name, o.Name), cmp.Compare(k.Signature, o.Signature), cmp.Compare(k.Body, o.Body))
}

// FanIn says from where a method is called. Samples is always the sum of the callers' and of Other.
type FanIn struct {
	Samples uint64   // of calls of the method
	Other   uint64   // of these, from callers that are not listed
	Callers uint32   // places that call it; MostCallers+1: more than that
	Listed  []Caller // the most frequent first
}

// Caller is a place that calls a method.
type Caller struct {
	Key
	Offset  uint32 // as in ccmap.Frame
	Samples uint64
}

// Better says which of two sources of a method's fan-in is to be used: 1 the shared one, -1 one's own. The one with
// more samples is better. If they are about equal, within the noise of both, one's own is: it is fresher.
func Better(own, shared FanIn) int {
	noise := 2 * math.Sqrt(float64(max(own.Samples, shared.Samples)))
	if float64(shared.Samples) > float64(own.Samples)+noise {
		return 1
	}
	return -1
}

// Entry is a method and its fan-in.
type Entry struct {
	Key
	FanIn
}

// Keys returns the keys of all methods of a profile, in order.
func Keys(s *ccmap.Snapshot) (all []Key) {
	for p := range s.Methods() {
		all = append(all, KeyOf(p.Method()))
	}
	slices.SortFunc(all, Key.compare)
	return slices.Compact(all)
}

// Of returns the entries of all methods of a profile, in order.
func Of(s *ccmap.Snapshot) List {
	names := s.Names()
	keyOf := func(id ccmap.MethodID) Key { return KeyOf(names.At(id)) }
	var all List
	for p := range s.Methods() {
		e := Entry{Key: keyOf(p.ID())}
		for edge := range p.Callers() {
			n := uint64(edge.Total().Samples)
			e.Samples += n
			e.Listed = append(e.Listed, Caller{keyOf(edge.Caller()), edge.Offset(), n})
		}
		slices.SortFunc(e.Listed, func(a, b Caller) int {
			return cmp.Or(cmp.Compare(b.Samples, a.Samples), a.Key.compare(b.Key), cmp.Compare(a.Offset, b.Offset))
		})
		e.Callers = uint32(min(len(e.Listed), MostCallers+1))
		for _, c := range e.Listed[min(len(e.Listed), MostCallers):] {
			e.Other += c.Samples
		}
		e.Listed = e.Listed[:min(len(e.Listed), MostCallers)]
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b Entry) int { return a.Key.compare(b.Key) })
	return all
}
