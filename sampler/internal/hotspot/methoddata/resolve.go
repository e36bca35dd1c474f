package methoddata

import (
	"maps"
	"slices"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/sampler/internal/hotspot/classes"
)

// site is what the bytecode says at a record. It never changes, so the profiles of a method
// share it.
type site struct {
	index  int // of the bytecode
	callee classes.Callee
	named  bool  // callee is known
	cases  []int // of a switch: where they begin
}

// site returns what the bytecode says at an index.
func (p *profile) site(index int) *site {
	i, found := slices.BinarySearchFunc(p.sites, index, func(s site, index int) int { return s.index - index })
	if !found {
		return &site{index: index}
	}
	return &p.sites[i]
}

// reach is a call of a named method with a receiver.
type reach struct {
	class            *classes.Class
	name, descriptor string
}

// resolve looks up all that the points of profiles need of the JVM's memory: what their calls
// name, which methods the calls reach, and the types of receivers. Nothing is looked up twice.
// Then it asks whether the JVM still has the classes, and returns the profiles of those that
// it has. It must be called in a load.
func (r *Reader) resolve(taken []*profile) []*profile {
	r.meet(taken)
	for _, p := range taken {
		if old := r.profiles[p.method.Address]; old != nil && old.method == p.method {
			p.sites = old.sites
		} else {
			p.sites = r.sites(p)
		}
	}
	const rounds = 3
	for range rounds {
		var found []reach
		for _, p := range taken {
			found = r.reachAll(p, found)
		}
		if r.table.Check() != nil {
			return nil // the JVM has ended, or has too many classes to know
		}
		before := len(taken)
		taken = slices.DeleteFunc(taken, r.gone)
		r.forget()
		if len(taken) == before {
			return taken
		}
		for _, at := range found { // a class that is gone may have led to any of them
			delete(r.reached, at)
		}
	}
	return nil
}

// gone reports whether the JVM has unloaded a class that a profile names.
func (r *Reader) gone(p *profile) bool {
	gone := func(c *classes.Class) bool { return !r.table.Has(c) }
	return gone(p.method.Class) || slices.ContainsFunc(p.types, gone)
}

// forget drops what is known of classes that are gone.
func (r *Reader) forget() {
	maps.DeleteFunc(r.reached, func(at reach, m *classes.Method) bool {
		return !r.table.Has(at.class) || m != nil && !r.table.Has(m.Class)
	})
	maps.DeleteFunc(r.methodIDs, func(m *classes.Method, _ ccmap.MethodID) bool { return !r.table.Has(m.Class) })
	maps.DeleteFunc(r.typeIDs, func(c *classes.Class, _ ccmap.MethodID) bool { return !r.table.Has(c) })
}

// maxNew bounds the classes that a load meets in profiles alone.
const maxNew = 1 << 12

// meet finds the types in profiles. It reads those that the last walk has not met: the JVM has
// loaded them since.
func (r *Reader) meet(taken []*profile) {
	left := maxNew
	for _, p := range taken {
		r.l.each(p.data, p.method.CodeSize, func(rec *record) error {
			for _, row := range r.l.rows(rec) {
				class := r.table.Known(row.class)
				if class == nil && left > 0 {
					left--
					class, _ = r.table.Class(row.class) // without it, its calls are others
				}
				if class != nil && p.class(row.class) == nil {
					p.types = append(p.types, class)
				}
			}
			return nil
		})
	}
}

// class returns a type in a profile by the address of its class, nil if it is not known.
func (p *profile) class(addr uint64) *classes.Class {
	for _, c := range p.types {
		if c.Address == addr {
			return c
		}
	}
	return nil
}

// sites reads what the bytecode of a method says at its records.
func (r *Reader) sites(p *profile) []site {
	var sites []site
	r.l.each(p.data, p.method.CodeSize, func(rec *record) error {
		s := site{index: rec.index}
		switch rec.tag {
		case tagVirtual, tagVirtualCall, tagCounter, tagCall:
			s.callee, s.named = r.table.Callee(p.method, rec.index)
		case tagSwitch:
			s.cases = switchTargets(r.table.Code(p.method), rec.index)
		default:
			return nil
		}
		sites = append(sites, s)
		return nil
	})
	return sites
}

// reachAll looks up what the calls of a method reach. It appends what was not known to found.
func (r *Reader) reachAll(p *profile, found []reach) []reach {
	r.l.each(p.data, p.method.CodeSize, func(rec *record) error {
		s := p.site(rec.index)
		if !s.named {
			return nil
		}
		rows := r.l.rows(rec)
		for _, row := range rows {
			found = r.reach(p.class(row.class), s.callee, found)
		}
		if len(rows) == 0 || len(rows) == r.l.width { // see converter.virtual
			found = r.reach(r.named(s.callee.Class, p.method.Class), s.callee, found)
		}
		return nil
	})
	return found
}

// reach looks up which method a call reaches with a receiver of a class.
func (r *Reader) reach(class *classes.Class, callee classes.Callee, found []reach) []reach {
	if class == nil {
		return found
	}
	at := reach{class, callee.Name, callee.Descriptor}
	if _, known := r.reached[at]; !known {
		r.reached[at] = r.table.Find(class, callee)
		found = append(found, at)
	}
	return found
}

// named returns the class of a name that a class refers to: of the same loader, if there
// are several.
func (r *Reader) named(name string, from *classes.Class) *classes.Class {
	all := r.byName[name]
	for _, class := range all {
		if class.Loader == from.Loader {
			return class
		}
	}
	if len(all) == 1 {
		return all[0]
	}
	return nil
}
