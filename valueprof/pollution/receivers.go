package pollution

import (
	"slices"
	"strings"

	"github.com/ccmapd/ccmapd/ccmap"
)

// Receiver is a target of a site, and what each kind of evidence has of it: nothing
// where it was not seen.
type Receiver struct {
	Sampled, Caught Target // if in both, of methods of one type; see [Site.Receivers]
}

// InSamples reports whether the receiver was seen in CPU samples.
func (r Receiver) InSamples() bool { return r.Sampled.Amount != Amount{} }

// InCalls reports whether the receiver was seen in caught calls.
func (r Receiver) InCalls() bool { return r.Caught.Amount != Amount{} }

// OnlyCaught reports whether the receiver was seen in caught calls alone. Either it
// is too short to be sampled, or its method is a wrapper: then what that calls was
// sampled, if anything was.
func (r Receiver) OnlyCaught() bool { return !r.InSamples() }

// Method returns the target, the caught one if there is one: it is the more exact.
func (r Receiver) Method() ccmap.MethodID {
	if r.InCalls() {
		return r.Caught.Method
	}
	return r.Sampled.Method
}

// Receivers brings the targets of both kinds of evidence together, the sampled ones
// first, each by weight. A sampled target goes with the heaviest caught one of the
// same type but for the star and the "-fm" of a method value, which a caught call
// adds, and for the words go.shape, which it does not have.
func (s Site) Receivers() []Receiver {
	all := make([]Receiver, 0, len(s.Samples.Targets)+len(s.Calls.Targets))
	sampled := make(map[string][]int) // of a type, those that go with nothing yet
	for i, t := range s.Samples.Targets {
		all = append(all, Receiver{Sampled: t})
		key := s.typeKey(t.Method)
		sampled[key] = append(sampled[key], i)
	}
	for _, t := range s.Calls.Targets {
		key := s.typeKey(t.Method)
		if same := sampled[key]; len(same) > 0 {
			all[same[0]].Caught, sampled[key] = t, same[1:]
		} else {
			all = append(all, Receiver{Caught: t})
		}
	}
	return all
}

// typeKey returns the name of a method in a form that wrappers do not change.
func (s Site) typeKey(method ccmap.MethodID) string {
	return wrapperMarks.Replace(strings.TrimSuffix(s.names.At(method).Name, methodValue))
}

var wrapperMarks = strings.NewReplacer("(*", "", ")", "", shape, "")

// CallsDecide reports whether the caught calls are what the verdict on the site is
// from, rather than the samples. They are the more exact. But samples decide where
// they show as many targets and too few calls were caught; and where they show more,
// and also every target that was caught: then none of these is a wrapper of others,
// and what was not caught is rare, and takes long.
func (s Site) CallsDecide() bool {
	if s.Calls.Verdict == Unknown && len(s.Samples.Targets) >= len(s.Calls.Targets) {
		return false
	}
	return s.Samples.Verdict <= s.Calls.Verdict || slices.ContainsFunc(s.Receivers(), Receiver.OnlyCaught)
}

// Decisive returns the evidence that the verdict on the site is from.
func (s Site) Decisive() Evidence {
	if s.CallsDecide() {
		return s.Calls
	}
	return s.Samples
}

// Agree reports whether both kinds of evidence have the same receivers and the same
// verdict, which is known. Then what one of them tells of callers goes for both.
func (s Site) Agree() bool {
	return s.Samples.Verdict == s.Calls.Verdict && s.Calls.Verdict != Unknown &&
		!slices.ContainsFunc(s.Receivers(), func(r Receiver) bool { return !r.InSamples() || !r.InCalls() })
}

// SampledPoint returns the samples of the site as a profile point, in any context: how
// often each target was on a stack. It is false where no sample has a target, or the
// position of the call is unknown.
func (s Site) SampledPoint() (ccmap.Point, bool) {
	p := ccmap.Point{
		Origin: ccmap.OriginSampled, Kind: ccmap.PointCall,
		Method: s.Caller, Offset: s.Offset, End: s.Offset, Nulls: ccmap.NullsUnknown,
	}
	for _, t := range s.Samples.Targets {
		if t.Seen > 0 {
			p.Values = append(p.Values, ccmap.PointValue{Value: uint64(t.Method), Count: t.Seen})
			p.Count += t.Seen
		}
	}
	slices.SortFunc(p.Values, ccmap.PointValue.Compare)
	return p, p.Count > 0 && s.Offset != ccmap.NoOffset
}
