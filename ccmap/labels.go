package ccmap

import (
	"iter"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// LabelsName is the name of the pseudo methods that stand for sets of labels. Such a
// method is the outermost frame of the samples that were taken under its labels, above
// [TruncatedName]. Its Signature is the text of the set. Without a Signature it stands for
// other labels, which were too many or could not be read.
//
// So a map with labels needs nothing that a map without labels pays for. Views and
// comparisons look at [Snapshot.WithoutLabels].
const LabelsName = "[labels]"

// Label is a key and its value. A program gives labels to its threads, as Go's pprof.Do
// does.
type Label struct{ Key, Value string }

// Bounds of labels that sources and readers of foreign files keep. A set beyond them
// counts as other labels.
const (
	MaxLabels    = 16      // in a set
	MaxLabelText = 256     // bytes of a key, and of a value
	MaxLabelSets = 1 << 10 // of a session, and of a foreign file
)

// labelsBetween separates the labels in the text of a set.
const labelsBetween = " "

// LabelsMethod returns the pseudo method of a set of labels. Their order does not matter,
// and of a key that stands twice the last value counts. No labels stand for other labels.
func LabelsMethod(labels []Label) Method {
	byKey := slices.Clone(labels)
	slices.Reverse(byKey)
	slices.SortStableFunc(byKey, func(a, b Label) int { return strings.Compare(a.Key, b.Key) })
	byKey = slices.CompactFunc(byKey, func(a, b Label) bool { return a.Key == b.Key })
	texts := make([]string, len(byKey))
	for i, l := range byKey {
		texts[i] = l.String()
	}
	return Method{Name: LabelsName, Signature: strings.Join(texts, labelsBetween)}
}

// String returns "key=value". Parts with spaces or special characters are quoted.
func (l Label) String() string { return quoteLabel(l.Key) + "=" + quoteLabel(l.Value) }

func quoteLabel(s string) string {
	isSpecial := func(r rune) bool { return !unicode.IsGraphic(r) || strings.ContainsRune(" =\"`\\\ufffd", r) }
	if s == "" || strings.ContainsFunc(s, isSpecial) {
		return strconv.Quote(s)
	}
	return s
}

// IsLabels reports whether the method stands for a set of labels.
func (m Method) IsLabels() bool { return m.Name == LabelsName }

// Labels returns the labels that the method stands for, by key. It returns nil for other
// labels, and for a Signature that [LabelsMethod] does not return.
func (m Method) Labels() []Label {
	var labels []Label
	for rest := m.Signature; rest != ""; {
		var l Label
		var ok1, ok2 bool
		l.Key, rest, ok1 = cutLabel(rest, "=")
		l.Value, rest, ok2 = cutLabel(rest, labelsBetween)
		if !ok1 || !ok2 {
			return nil
		}
		labels = append(labels, l)
	}
	return labels
}

// cutLabel cuts a part of a label off, and the separator after it.
func cutLabel(text, separator string) (part, rest string, ok bool) {
	if quoted, err := strconv.QuotedPrefix(text); err == nil && quoted[0] == '"' {
		part, err = strconv.Unquote(quoted)
		rest = text[len(quoted):]
		trimmed, found := strings.CutPrefix(rest, separator)
		return part, trimmed, err == nil && (found || rest == "" && separator == labelsBetween)
	}
	part, rest, found := strings.Cut(text, separator)
	return part, rest, part != "" && (found || separator == labelsBetween)
}

// Value returns the value of a key among labels.
func Value(labels []Label, key string) (value string, found bool) {
	i := slices.IndexFunc(labels, func(l Label) bool { return l.Key == key })
	if i < 0 {
		return "", false
	}
	return labels[i].Value, true
}

// labelSets returns which methods stand for labels, by id; nil if none does.
func (n *Names) labelSets() []bool {
	if !n.Labelled() {
		return nil
	}
	list := *n.list.Load()
	sets := make([]bool, len(list))
	for id := range list {
		sets[id] = list[id].IsLabels()
	}
	return sets
}

// isLabels reports whether a method stands for labels. It may be any number.
func (n *Names) isLabels(id MethodID) bool {
	return n.Labelled() && int64(id) < int64(n.Len()) && n.At(id).IsLabels()
}

// labelsOf returns the frame of the labels of a stack, innermost frame first; no frame if
// it has none.
func (n *Names) labelsOf(frames []Frame) []Frame {
	if len(frames) == 0 || !n.isLabels(frames[len(frames)-1].Method) {
		return nil
	}
	return frames[len(frames)-1:]
}

// sameCalls returns how many of the outermost frames of a stack are no new activations,
// though its labels may be new: those that the last stack has too, and the labels.
func (m *Map) sameCalls(t *lastStack, frames []Frame) int {
	ours, theirs := len(m.names.labelsOf(frames)), len(m.names.labelsOf(t.frames))
	same := ours
	for ; same < len(frames) && same-ours+theirs < len(t.frames); same++ {
		f, old := frames[len(frames)-1-same], t.frames[len(t.frames)-1-(same-ours+theirs)]
		if f.Method != old.Method {
			break
		}
		if f.Offset != old.Offset {
			return same + 1
		}
	}
	return same
}

// LabelSet is a set of labels that samples were taken under.
type LabelSet struct {
	Method MethodID
	Labels []Label  // by key; nil: other labels
	Total  Counters // of the samples; activations 0
}

// LabelSets returns the sets of labels, in the order of their ids. The samples that they
// leave out have no labels. Totals are exact, even if the snapshot was pruned.
func (s *Snapshot) LabelSets() iter.Seq[LabelSet] {
	return func(yield func(LabelSet) bool) {
		for id, is := range s.names.labelSets() {
			if !is {
				continue
			}
			p, found := s.Method(MethodID(id))
			if !found {
				continue
			}
			total := p.Cumulative()
			total.Activations = 0
			if !total.IsZero() && !yield(LabelSet{p.ID(), p.Method().Labels(), total}) {
				return
			}
		}
	}
}

// WithoutLabels returns the snapshot with the samples of all labels together. It has other
// nodes; the snapshot itself is returned if it has no labels. All callers get the same one.
func (s *Snapshot) WithoutLabels() *Snapshot {
	s.unlabelled.once.Do(func() {
		s.unlabelled.Snapshot = s
		if sets := s.names.labelSets(); s.hasLabels(sets) {
			s.unlabelled.Snapshot = s.project(sets, nil)
		}
	})
	return s.unlabelled.Snapshot
}

// WithLabels returns the samples whose labels match, without the labels. Samples without
// labels have nil. Points are left out: they count under any labels. In a snapshot that was
// [Snapshot.Pruned], the totals of methods and edges are lower bounds: counts that pruning
// has evicted do not say their labels.
func (s *Snapshot) WithLabels(match func([]Label) bool) *Snapshot {
	return s.project(s.names.labelSets(), match)
}

// hasLabels reports whether any of these methods stands for labels in the snapshot.
func (s *Snapshot) hasLabels(sets []bool) bool {
	if sets == nil {
		return false
	}
	for n := NodeID(1); uint32(n) < s.nodes.len; n++ {
		if s.isLabelsNode(sets, n) {
			return true
		}
	}
	for p := range s.PrunedMethods() {
		if isIn(sets, p.Method) {
			return true
		}
	}
	return false
}

func isIn(sets []bool, id MethodID) bool { return int64(id) < int64(len(sets)) && sets[id] }

// isLabelsNode reports whether a node stands for labels: only outermost frames do.
func (s *Snapshot) isLabelsNode(sets []bool, n NodeID) bool {
	what := s.at(n)
	return what.parent == 0 && isIn(sets, what.method)
}

// project returns the snapshot without its label sets; only the samples whose labels
// match, unless match is nil.
func (s *Snapshot) project(sets []bool, match func([]Label) bool) *Snapshot {
	m := New(Options{Names: s.names})
	m.meta = s.meta.clone()
	m.SetWindow(s.recent.window)
	p := projection{m: m, from: s, sets: sets, match: match, moved: make([]NodeID, s.Len()), left: make([]bool, s.Len())}
	for n := NodeID(1); uint32(n) < s.nodes.len; n++ {
		p.addNode(n)
	}
	if match == nil {
		p.addEvicted()
		m.addPoints(s, m.names.adopt(s.names))
	}
	if match != nil && s.Pruned() {
		m.meta.Comments = append(m.meta.Comments, CommentWarning+"contexts were pruned, so the totals of methods with chosen labels are lower bounds")
	}
	m.inexact = s.inexact
	return m.Snapshot()
}

// projection is a snapshot on its way to one without labels.
type projection struct {
	m     *Map
	from  *Snapshot
	sets  []bool
	match func([]Label) bool
	moved []NodeID // by node: its node of m; the root for a set of labels
	left  []bool   // by node: its labels do not match
}

// addNode adds a node, whose parent came before it.
func (p *projection) addNode(n NodeID) {
	what := p.from.at(n)
	isSet := p.from.isLabelsNode(p.sets, n)
	switch p.left[n] = p.left[what.parent]; {
	case p.match == nil || what.parent != 0:
	case isSet:
		p.left[n] = !p.match(p.from.names.At(what.method).Labels())
	default:
		p.left[n] = !p.match(nil)
	}
	if p.left[n] {
		return
	}
	if !isSet {
		p.moved[n] = p.m.Child(p.moved[what.parent], what.offset, what.method)
	}
	p.count(n, p.moved[n])
}

// count adds the counters of a node. Labels that no frame is below of are a stack that is
// not known.
func (p *projection) count(n, to NodeID) {
	self := p.from.columns.at(n)
	if to == 0 {
		if self.Activations = 0; self.IsZero() {
			return
		}
		to = p.m.Child(0, NoOffset, UnknownID)
	}
	p.m.Add(to, self)
	if p.from.recent.on() {
		p.m.addRecent(to, p.from.recent.at(n))
	}
}

// addEvicted adds the counts of removed nodes: a method that labels led to is outermost.
func (p *projection) addEvicted() {
	for e := range p.from.PrunedEdges() {
		switch {
		case e.Caller == NoMethod && isIn(p.sets, e.Callee):
			continue
		case isIn(p.sets, e.Caller) && e.Offset == NoOffset:
			e.Caller = NoMethod
		}
		p.m.AddPruned(e)
	}
	for e := range p.from.PrunedMethods() {
		if isIn(p.sets, e.Method) {
			e.Method = UnknownID
			e.Cumulative, e.RecentCumulative = e.Self, e.RecentSelf
		}
		if e != (PrunedMethod{Method: UnknownID}) {
			p.m.AddPrunedMethod(e)
		}
	}
}
