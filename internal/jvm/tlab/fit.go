package tlab

import (
	"cmp"
	"math"
	"slices"
)

// Bounds of a fit. Its time is in proportion to their product with the classes of sizes.
const (
	mostRounds = 20
	mostWalks  = 12  // rooms that are walked through by themselves
	places     = 512 // of a buffer that are told apart
	agreement  = 2e-3
	leastSeen  = 1e-12 // probability
)

// walk is a buffer to be walked through.
type walk struct {
	room   float64 // bytes
	wasted float64 // bytes that the thread may leave
	weight float64 // cycles
}

// fit finds the probabilities: those that the mix of sizes leads to, where the mix is what was
// seen, divided by them.
func (m *model) fit() {
	classes := make([]*class, 0, len(m.sizes))
	for _, c := range m.sizes {
		classes = append(classes, c)
	}
	slices.SortFunc(classes, func(a, b *class) int { return cmp.Compare(a.bytes/a.seen, b.bytes/b.seen) })
	walks := m.walks()
	if len(walks) == 0 || len(classes) == 0 {
		return
	}
	f := newFitter(classes, walks)
	for range mostRounds {
		if f.round() < agreement {
			break
		}
	}
	m.means, m.seen, m.fitted = f.sizes, f.seen, m.cycles
}

// walks returns the most frequent rooms, and one for all others.
func (m *model) walks() []walk {
	var walks []walk
	var rest walk
	for n, room := range m.byFrequency() {
		l := m.rooms[room]
		if n < mostWalks-1 {
			walks = append(walks, walk{float64(room), l.wasted / l.cycles, l.cycles})
			continue
		}
		rest.room += float64(room) * l.cycles
		rest.wasted += l.wasted
		rest.weight += l.cycles
	}
	if rest.weight > 0 {
		walks = append(walks, walk{rest.room / rest.weight, rest.wasted / rest.weight, rest.weight})
	}
	return walks
}

// fitter has slices with an element for each class.
type fitter struct {
	sizes  []float64 // ascending
	counts []float64 // of objects that were seen
	seen   []float64 // probability of being seen
	mix    []float64 // part of all objects; the sum is 1
	walks  []walk

	missed []float64           // buffer: of a walk, objects of each class that found no room
	coming [places + 2]float64 // buffer: of a walk, how often each place is entered
}

func newFitter(classes []*class, walks []walk) *fitter {
	f := &fitter{walks: walks, missed: make([]float64, len(classes)), mix: make([]float64, len(classes))}
	room, weight := 0.0, 0.0
	for _, w := range walks {
		room += w.room * w.weight
		weight += w.weight
	}
	for _, c := range classes {
		size := c.bytes / c.seen
		f.sizes = append(f.sizes, size)
		f.counts = append(f.counts, c.seen)
		f.seen = append(f.seen, min(size*weight/room, 1))
	}
	for k := range f.mix {
		f.mix[k] = f.counts[k] / f.seen[k]
	}
	normalize(f.mix)
	return f
}

func normalize(parts []float64) {
	sum := 0.0
	for _, p := range parts {
		sum += p
	}
	for k := range parts {
		parts[k] /= sum
	}
}

// round walks with the mix, and corrects it half the way, as factors go. It returns the largest correction.
func (f *fitter) round() (most float64) {
	all := 0.0
	missed := make([]float64, len(f.sizes))
	for _, w := range f.walks {
		all += w.weight * f.walk(w)
		for k, n := range f.missed {
			missed[k] += w.weight * n
		}
	}
	next := make([]float64, len(f.mix))
	for k := range next {
		f.seen[k] = min(max(missed[k]/all, leastSeen), 1)
		next[k] = f.counts[k] / f.seen[k]
	}
	normalize(next)
	for k := range next {
		next[k] = math.Sqrt(next[k] * f.mix[k])
	}
	normalize(next)
	for k := range next {
		most = max(most, math.Abs(next[k]/f.mix[k]-1))
	}
	f.mix = next
	return most
}

// walk goes through a buffer from its beginning to its end, with objects of the mix at random. It
// returns how many there are, and how many of each class find no room.
func (f *fitter) walk(w walk) (objects float64) {
	clear(f.missed)
	clear(f.coming[:])
	f.coming[0] = 1
	step := w.room / places
	for i := range places {
		if f.coming[i] == 0 {
			continue
		}
		objects += f.place(i, step, (float64(places-i)-0.5)*step > w.wasted)
	}
	return objects
}

// place divides the objects at a place into those that move on, those that stay, and those that end the
// buffer. Kept says that the thread keeps it where an object finds no room.
func (f *fitter) place(i int, step float64, kept bool) (objects float64) {
	left := float64(places-i-1) * step // room at the place's end
	stays := 0.0
	for k, size := range f.sizes {
		misses := min(max((size-left)/step, 0), 1)
		if kept {
			stays += f.mix[k] * misses
		}
		if size < step {
			stays += f.mix[k] * (1 - misses)
			if i < places-1 {
				stays -= f.mix[k] * size / step
			}
		}
	}
	objects = f.coming[i] / max(1-stays, 1e-9)
	for k, size := range f.sizes {
		misses := min(max((size-left)/step, 0), 1)
		f.missed[k] += objects * misses
		f.move(i, size/step, objects*f.mix[k], misses)
	}
	return objects
}

// move moves objects of a class on, by a number of places that is no whole one.
func (f *fitter) move(i int, by, objects, misses float64) {
	if by < 1 {
		if i < places-1 {
			f.coming[i+1] += objects * by
		}
		return
	}
	if misses == 1 {
		return
	}
	objects *= 1 - misses
	whole := int(by)
	part := by - float64(whole)
	f.coming[min(i+whole, places)] += objects * (1 - part)
	f.coming[min(i+whole+1, places)] += objects * part
}
