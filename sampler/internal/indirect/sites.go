package indirect

import (
	"math"
	"math/rand/v2"
	"time"
)

// sites counts the indirect calls that samples have found on the stack, with the
// counters of Space-Saving (Metwally, Agrawal and El Abbadi 2005): when all counters
// are taken, a newcomer gets a low one.
//
// Turns go round by stride scheduling (Waldspurger and Weihl 1995): the next turn goes
// to the site that has had the fewest turns for its weight. So the hottest sites get the
// most bursts, and every hot site gets some.
type sites struct {
	byPC   map[uint64]*site
	sample uint64  // number of the current sample
	faded  uint64  // number of the sample when counts were last faded
	total  float64 // samples, faded as the sites' samples are
	pass   float64 // of the site that had the last turn
}

// site is one call instruction.
type site struct {
	Call
	samples float64 // with the call on the stack; faded
	last    uint64  // number of the last one
	threads [siteThreads]uint32
	met     int // samples since the site was added; threads has the last ones'

	pass   float64 // grows with every turn, the slower the heavier the site
	dry    int     // bursts in a row that caught nothing
	rare   bool    // the last burst's time was up before it had caught all its calls
	calls  int     // caught
	target uint64  // of the last one
	varied bool    // the calls had different targets
}

const (
	maxSites = 512 // some 100 KiB
	// siteThreads is how many samples a site remembers the threads of: a thread that
	// was there last is likely to be there still.
	siteThreads = 8
	// hotShare is the part of all samples that makes a site hot, fewSamples
	// their least number.
	hotShare   = 0.002
	fewSamples = 2
	// fadeAfter is how many samples are counted at least before they fade: with
	// fewer it could not be told what is hot, however long they take.
	fadeAfter = 1000
	// A site has settled after so many calls of the same target.
	settledCalls = 256
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
func (s *sites) meet(c Call, tid uint32) {
	t := s.byPC[c.PC]
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

// add makes room for a new site, which takes over the count of the site that it
// replaces: it may have been met as often, and forgotten.
func (s *sites) add(c Call) *site {
	t := &site{Call: c, pass: s.pass}
	if len(s.byPC) >= maxSites {
		coldest := s.coldOne()
		delete(s.byPC, coldest.PC)
		t.samples = coldest.samples
	}
	s.byPC[c.PC] = t
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

// fade halves the counts, so that sites that are hot now count most, and
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
// the hottest sites and the others closer together. How long a call is on the stack
// says little about how often it is made: a site that yields nothing is tried
// less and less. So is a site that has called the same target for long, and a function
// value is worth less than an interface.
func (s *sites) weight(t *site) float64 {
	w := math.Sqrt(t.samples / s.total)
	if t.Kind == Closure {
		w /= 4
	}
	if t.calls >= settledCalls && !t.varied {
		w /= 4
	}
	return math.Ldexp(w, -min(t.dry, maxDry))
}

// draw picks one of the threads that were last met at the site, each as often as
// it was met.
func (t *site) draw() uint32 {
	return t.threads[rand.IntN(min(t.met, siteThreads))]
}

// yield notes how many calls a burst has caught, and whether as many as it may.
func (t *site) yield(calls int, full bool) {
	t.rare = !full
	t.dry++
	if calls > 0 {
		t.dry = 0
	}
}

// patience returns when to see whether a burst is over.
func (t *site) patience() time.Duration {
	if t.rare {
		return burstTime
	}
	return firstLook
}

// caught notes the target of a call.
func (t *site) caught(target uint64) {
	t.varied = t.varied || t.calls > 0 && t.target != target
	t.target = target
	t.calls++
}
