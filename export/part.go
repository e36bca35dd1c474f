package export

import (
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/ccmapd/ccmapd/ccmap"
)

// Part is a profile on its way into the sum of many. It is read and checked,
// which may go on for many files at once; the goroutine that owns the sum adds
// it. A pprof profile never becomes a map of its own on that way, unless it is
// unusual: it has a window, or more samples than are listed.
type Part struct {
	m      *ccmap.Map // of a pprof profile all but its contexts
	pprof  *pprofFile // the contexts of m; nil: it has them
	limits ReadOptions
}

// ReadPart reads a profile as [Read] does. The Part is to be added once, or
// dropped.
func ReadPart(r io.Reader, o ReadOptions) (*Part, error) {
	o = o.WithDefaults()
	b := newBuilder(o)
	plain, format, release, err := open(r, b)
	defer release()
	if err != nil {
		return nil, fmt.Errorf("read profile: %w", err)
	}
	p := &Part{limits: o}
	if format == Pprof {
		err = p.readPprof(plain, b)
	} else {
		p.m, err = b.read(plain, format)
	}
	if err != nil {
		return nil, fmt.Errorf("read %v: %w", format, err)
	}
	return p, nil
}

func (p *Part) readPprof(r io.Reader, b *builder) error {
	file := newPprofFile(b)
	if err := file.decode(r, b); err != nil {
		file.release()
		return err
	}
	p.m = b.m
	if file.adder == nil {
		p.pprof = file
		return nil
	}
	defer file.release()
	if err := file.addTo(b, once); err != nil {
		return err
	}
	_, err := b.finish()
	return err
}

// LookUp, before AddTo, finds the methods that the sum has already; names is its
// table. The result is the same without. But the goroutine that has read the
// profile, and has its strings in the cache of its CPU, finds them in half the
// time, while the owner of the sum goes on adding to it.
func (p *Part) LookUp(names *ccmap.Names) {
	if p.pprof != nil {
		p.pprof.lookUpMethods(names)
	}
}

// AddTo adds the profile, times its weight, to a map of the caller's, who is its
// writer. Activations stay exact only with the weight 1. On an error the map is
// as before: the error wraps [ccmap.ErrUnlike] if the map has another unit.
func (p *Part) AddTo(sum *ccmap.Map, w Weight) error {
	if w == (Weight{}) {
		w = once
	}
	if p.pprof != nil {
		defer p.pprof.release()
		if p.isPlain(sum) {
			return p.addStacks(sum, w)
		}
		if err := p.complete(); err != nil {
			return err
		}
	}
	if w.isOne() {
		return sum.Merge(p.m.Snapshot())
	}
	return sum.Merge(scaled(p.m.Snapshot(), w).Snapshot())
}

// complete gives the map its contexts.
func (p *Part) complete() error {
	b := newBuilder(p.limits)
	b.m, b.memory = p.m, &p.pprof.memory
	err := p.pprof.addTo(b, once)
	if err == nil {
		_, err = b.finish()
	}
	if err != nil {
		return fmt.Errorf("read %v: %w", Pprof, err)
	}
	return nil
}

// isPlain reports whether nothing can go wrong in adding the contexts to the sum
// one by one: there are no windows, nothing pruned, and surely no more nodes, methods
// and memory than there may be.
func (p *Part) isPlain(sum *ccmap.Map) bool {
	nodes := p.pprof.stacks.added.frames + 2*len(p.pprof.stacks.samples)
	methods := len(p.pprof.functions.entries) + len(p.pprof.locations.entries) + 1
	const node, method = 40, 250 // bytes, without texts
	memory := viewShare*int64(nodes)*node + listShare*(int64(methods)*method+p.pprof.texts())
	return sum.Meta().Window == 0 && p.m.Meta().Window == 0 &&
		nodes <= p.limits.MaxNodes && methods <= p.limits.MaxMethods && sum.Len()+nodes <= math.MaxUint32 &&
		memory <= p.pprof.memory.limit-p.pprof.memory.held &&
		!slices.ContainsFunc(p.pprof.functions.entries, isPruned)
}

func isPruned(f pprofFunction) bool { return f.methodName() == ccmap.PrunedName }

// addStacks adds the contexts, then all else.
func (p *Part) addStacks(sum *ccmap.Map, w Weight) error {
	if len(p.pprof.stacks.samples) > 0 {
		if err := sum.SetUnit(p.m.Meta().Unit); err != nil {
			return err
		}
	}
	b := &builder{m: sum, limits: ReadOptions{MaxMethods: math.MaxInt, MaxNodes: math.MaxInt}, memory: &memory{limit: math.MaxInt64}}
	if err := p.pprof.addTo(b, w); err != nil {
		return fmt.Errorf("read %v: %w", Pprof, err)
	}
	if !w.isOne() {
		*p.m.Meta() = scaledMeta(*p.m.Meta(), w)
		p.m.SetPoints(ccmap.OriginBurst, scaledPoints(p.m.Snapshot(), w))
		p.m.SetExact(false)
	}
	return sum.Merge(p.m.Snapshot()) // which keeps the sum within its budget
}
