package pollution

import (
	"slices"
	"strings"

	"github.com/ccmapd/ccmapd/ccmap"
)

// Receiver is a target of a site, with the amount of each kind of evidence. The
// amount is 0 if this kind never saw the target.
type Receiver struct {
	Sampled, Caught Target // two methods of the same type; see [Site.Receivers]
}

// InSamples reports whether CPU samples have seen the receiver.
func (r Receiver) InSamples() bool { return r.Sampled.Amount != Amount{} }

// InCalls reports whether caught calls have seen the receiver.
func (r Receiver) InCalls() bool { return r.Caught.Amount != Amount{} }

// OnlyCaught reports whether only caught calls have seen the receiver. Either it is too
// short to be sampled, or its method is a wrapper, and the samples show the method that
// the wrapper calls.
func (r Receiver) OnlyCaught() bool { return !r.InSamples() }

// Method returns the target. It prefers the caught one, which is more exact.
func (r Receiver) Method() ccmap.MethodID {
	if r.InCalls() {
		return r.Caught.Method
	}
	return r.Sampled.Method
}

// Receivers pairs the targets of both kinds of evidence, the sampled ones first, each
// by weight. A sampled target is paired with the heaviest caught target of the same
// type. The comparison ignores the star and the "-fm" of a method value, which caught
// calls add, and the words go.shape, which they do not have.
func (s Site) Receivers() []Receiver {
	all := make([]Receiver, 0, len(s.Samples.Targets)+len(s.Calls.Targets))
	sampled := make(map[string][]int) // by type: receivers without a caught target yet
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

// typeKey returns the name of a method in a form that a wrapper has, too. Java has no
// wrappers, but methods that differ in their signature alone.
func (s Site) typeKey(method ccmap.MethodID) string {
	m := s.names.At(method)
	if IsJava(m) {
		return m.Name + m.Signature
	}
	return wrapperMarks.Replace(strings.TrimSuffix(m.Name, methodValue))
}

var wrapperMarks = strings.NewReplacer("(*", "", ")", "", shape, "")

// CallsDecide reports whether the verdict on the site comes from the caught calls and
// not from the samples. Caught calls are more exact. But samples decide in two cases.
// First, too few calls were caught, and the samples show at least as many targets.
// Second, the samples have the higher verdict and show every caught target, too. Then
// no caught target is a wrapper, and the targets that were not caught are rare calls
// that take long.
func (s Site) CallsDecide() bool {
	if s.Calls.Verdict == Unknown && len(s.Samples.Targets) >= len(s.Calls.Targets) {
		return false
	}
	return s.Samples.Verdict <= s.Calls.Verdict || slices.ContainsFunc(s.Receivers(), Receiver.OnlyCaught)
}

// Decisive returns the evidence for the verdict on the site.
func (s Site) Decisive() Evidence {
	if s.CallsDecide() {
		return s.Calls
	}
	return s.Samples
}

// Agree reports whether both kinds of evidence have the same receivers and the same
// known verdict. Then the callers of one kind are valid for both.
func (s Site) Agree() bool {
	return s.Samples.Verdict == s.Calls.Verdict && s.Calls.Verdict != Unknown &&
		!slices.ContainsFunc(s.Receivers(), func(r Receiver) bool { return !r.InSamples() || !r.InCalls() })
}

// SampledPoint returns the samples of the site as a profile point in any context, which
// counts how often each target was on a stack. It returns false if no sample has a
// target, or if the position of the call is unknown.
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
