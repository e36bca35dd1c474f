package perf

import (
	"math"
	"math/rand/v2"
)

// sites are the indirect calls that samples have found on the stack, with how
// often: the counters of Space-Saving (Metwally, Agrawal and El Abbadi 2005), of
// which a low one is given to a newcomer when all are taken. It belongs to the
// drainer.
//
// Turns go round by stride scheduling (Waldspurger and Weihl 1995): whose turn it
// is has had the least of them for its weight, so that the hottest sites get the
// most bursts, and every hot one some.
type sites struct {
	byPC   map[uint64]*site
	sample uint64  // number of the current sample
	faded  uint64  // number of the sample when counts were last faded
	total  float64 // samples, faded as those of the sites
	pass   float64 // of the site that had the last turn
}

// site is one call instruction.
type site struct {
	call
	samples float64 // with the call on the stack; faded
	last    uint64  // number of the last one
	threads [siteThreads]uint32
	met     int // samples since the site was added; threads has the last ones'

	pass   float64 // grows with every turn, the slower the heavier the site
	dry    int     // bursts in a row that caught nothing
	hits   int     // calls caught
	target uint64  // what the last of them has reached
	varied bool    // they have not all reached the same
}

const (
	maxSites = 512 // some 100 KiB
	// siteThreads is how many samples a site remembers the threads of: who was
	// there last is likely to be there still.
	siteThreads = 8
	// hotShare is the part of all samples that makes a site hot, fewSamples
	// their least number.
	hotShare   = 0.002
	fewSamples = 2
	// fadeAfter is how many samples are counted at least before they fade: with
	// fewer it could not be told what is hot, however long they take.
	fadeAfter = 1000
	// A site whose hits were all the same for that many is settled.
	settledHits = 256
	// maxDry bounds how rarely a site that yields nothing is tried.
	maxDry = 6
)

// next begins a sample.
func (s *sites) next() {
	s.sample++
	s.total++
}

// meet counts a call on the stack of the current sample, once if it is
// recursive.
func (s *sites) meet(c call, tid uint32) {
	t := s.byPC[c.pc]
	if t == nil {
		t = s.add(c)
	}
	if t.last == s.sample {
		return
	}
	t.last = s.sample
	t.samples++
	t.threads[t.met%siteThreads] = tid
	t.met++
}

// add makes room for a new site, which takes over the count of the one that it
// replaces: it may have been met as often, and forgotten.
func (s *sites) add(c call) *site {
	t := &site{call: c, pass: s.pass}
	if len(s.byPC) >= maxSites {
		coldest := s.coldOne()
		delete(s.byPC, coldest.pc)
		t.samples = coldest.samples
	}
	s.byPC[c.pc] = t
	return t
}

// coldOne returns the coldest of a few sites, taken anywhere. To look for the
// coldest of all would take longer than the rest of a sample, where a deep stack
// has many new calls.
func (s *sites) coldOne() *site {
	const few = 16
	var cold *site
	n := 0
	for _, t := range s.byPC {
		if cold == nil || t.samples < cold.samples {
			cold = t
		}
		if n++; n == few {
			break
		}
	}
	return cold
}

// fade halves what was counted, so that what is hot now counts most, and
// forgets sites that were not met for long. It does nothing while there are few
// samples since the last time.
func (s *sites) fade() {
	if s.sample-s.faded < fadeAfter {
		return
	}
	s.faded = s.sample
	s.total /= 2
	for pc, t := range s.byPC {
		if t.samples /= 2; t.samples < 0.5 {
			delete(s.byPC, pc)
		}
	}
}

func (s *sites) hot(t *site) bool {
	return t.samples >= max(fewSamples, hotShare*s.total)
}

// count returns how many sites are hot.
func (s *sites) count() int {
	n := 0
	for _, t := range s.byPC {
		if s.hot(t) {
			n++
		}
	}
	return n
}

// turn returns the hot site whose turn it is, or nil.
func (s *sites) turn() *site {
	var first *site
	for _, t := range s.byPC {
		if s.hot(t) && (first == nil || t.pass < first.pass) {
			first = t
		}
	}
	if first != nil {
		s.pass = max(s.pass, first.pass)
		first.pass = s.pass + 1/s.weight(first)
	}
	return first
}

// weight is how often a site gets a turn, compared with others. The root brings
// the hottest and the others closer together. How long a call is on the stack
// says little about how often it is made: a site that yields nothing is tried
// less and less. So is one that has called the same for long, and a function
// value is not worth as much as an interface.
func (s *sites) weight(t *site) float64 {
	w := math.Sqrt(t.samples / s.total)
	if t.kind == callClosure {
		w /= 4
	}
	if t.hits >= settledHits && !t.varied {
		w /= 4
	}
	return math.Ldexp(w, -min(t.dry, maxDry))
}

// draw picks one of the threads that were last met at the site, each as often as
// it was met.
func (t *site) draw() uint32 {
	return t.threads[rand.IntN(min(t.met, siteThreads))]
}

// yield notes what a burst has caught.
func (t *site) yield(hits int) {
	t.dry++
	if hits > 0 {
		t.dry = 0
	}
}

// hit notes what a call has reached.
func (t *site) hit(target uint64) {
	t.varied = t.varied || t.hits > 0 && t.target != target
	t.target = target
	t.hits++
}
