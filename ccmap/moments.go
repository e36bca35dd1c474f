package ccmap

import (
	"iter"
	"math/bits"
	"slices"
	"unsafe"
)

// Moment says when and where a sample was counted.
type Moment struct {
	Time   int64  // ns: of CLOCK_MONOTONIC where a map tells it, of Unix where a profile has it
	Path   uint64 // of the context, as [Snapshot.PathIDs] has it
	Weight int64  // in the map's [Unit]
}

// SetMoments gives the map the moments of its samples. All goroutines with a snapshot may call them, any number of
// times. A merge drops them, and so do all snapshots that are made of another one.
func (m *Map) SetMoments(moments iter.Seq[Moment]) { m.moments = moments }

// Moments returns the moments of the samples, in no order; nil: the profile does not have them.
func (s *Snapshot) Moments() iter.Seq[Moment] { return s.moments }

// PathIDs returns a number for the context of each node, by its ID: a hash of the methods and offsets from the root.
// Equal contexts have equal numbers in all maps. Labels count for nothing: a context has the same number under all of
// them.
func (s *Snapshot) PathIDs() []uint64 {
	p := pathIDs{names: s.names}
	ids := make([]uint64, s.Len())
	ids[0] = rootPathID
	for n := NodeID(1); int(n) < len(ids); n++ {
		what := s.at(n)
		ids[n] = p.extend(ids[what.parent], what)
	}
	return ids
}

// rootPathID is the number of the context without frames. 0 stands for one that is not known.
const rootPathID = 1

// pathIDs hashes contexts.
type pathIDs struct {
	names   *Names
	methods []uint64 // hashes, by method; 0: not known
	nodes   []uint64 // of a map, by node; 0: not known. Pruning, which changes ids of nodes, empties it
	path    []NodeID // scratch
}

// extend returns the number of a context that is a node longer.
func (p *pathIDs) extend(parent uint64, what *node) uint64 {
	method := uint64(0)
	if what.method != NoMethod {
		if method = p.method(what.method); method == labelsHash && parent == rootPathID {
			return parent
		}
	}
	return max(mix(mix(parent, method), uint64(what.offset)+1), rootPathID+1)
}

// labelsHash stands for all methods that are labels.
const labelsHash = 1

// method returns the hash of a method.
func (p *pathIDs) method(id MethodID) uint64 {
	if int(id) >= len(p.methods) {
		p.methods = append(p.methods, make([]uint64, p.names.Len()-len(p.methods))...)
	}
	h := &p.methods[id]
	if *h != 0 {
		return *h
	}
	if m := p.names.At(id); m.IsLabels() {
		*h = labelsHash
	} else {
		*h = max(hashText(hashText(0, m.Name), m.Signature), labelsHash+1)
	}
	return *h
}

// hashText hashes a text, eight bytes at a time.
func hashText(h uint64, s string) uint64 {
	h = mix(h, uint64(len(s))+1)
	for len(s) > 0 {
		word := uint64(0)
		for i := range min(len(s), 8) {
			word |= uint64(s[i]) << (8 * i)
		}
		h, s = mix(h, word), s[min(len(s), 8):]
	}
	return h
}

// mix hashes two words. Files have the results: it must not change.
func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a^0x9e3779b97f4a7c15, b^0xd6e8feb86659fd93)
	hi, lo = bits.Mul64(hi^lo^a, 0xa0761d6478bd642f)
	return hi ^ lo ^ b
}

// of returns the number of a node's context.
func (p *pathIDs) of(m *Map, n NodeID) uint64 {
	p.names = m.names
	if missing := m.Len() - len(p.nodes); missing > 0 {
		p.nodes = append(p.nodes, make([]uint64, missing)...)
	}
	p.nodes[0] = rootPathID
	p.path = p.path[:0]
	for at := n; p.nodes[at] == 0; at = m.at(at).parent {
		p.path = append(p.path, at)
	}
	for _, at := range slices.Backward(p.path) {
		p.nodes[at] = p.extend(p.nodes[m.at(at).parent], m.at(at))
	}
	return p.nodes[n]
}

// bytes returns the memory held.
func (p *pathIDs) bytes() int64 {
	return p.methodBytes() + int64(cap(p.nodes))*int64(unsafe.Sizeof(uint64(0)))
}

func (p *pathIDs) methodBytes() int64 { return int64(cap(p.methods)) * int64(unsafe.Sizeof(uint64(0))) }
