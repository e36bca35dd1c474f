package export

import (
	"encoding/binary"
	"slices"
	"strings"

	"github.com/ccmapd/ccmapd/ccmap"
)

// The labels that a program gave to its goroutines are labels of samples, by their keys.
// In our profiles the keys of our own labels, empty values, and texts with the mark stand
// after a mark.
const (
	otherLabelsKey  = "labels" // of samples under labels that are not known
	otherLabelsText = "other"
	labelMark       = "label:"
)

// labelKey returns the key of a program's label in our profiles.
func labelKey(key string) string {
	switch key {
	case receiverLabel, hitLabel, contextLabel, otherLabelsKey:
		return labelMark + key
	}
	if strings.HasPrefix(key, labelMark) {
		return labelMark + key
	}
	return key
}

// labelValue returns the value of a program's label in our profiles: a label without text
// would be a number.
func labelValue(value string) string {
	if value == "" || strings.HasPrefix(value, labelMark) {
		return labelMark + value
	}
	return value
}

// stackLabels returns the labels that the stack is under.
func (p *pprofBuilder) stackLabels() []label {
	if p.outermost() == 0 {
		return nil
	}
	method := p.levels[0].method
	if p.labels[method] == nil {
		p.labels[method] = labelsOf(p.c.methods[method])
	}
	return p.labels[method]
}

// labelsOf returns the labels that a method stands for. Text that is no set of labels
// becomes other labels.
func labelsOf(m ccmap.Method) []label {
	set := m.Labels()
	if set == nil {
		return []label{{otherLabelsKey, otherLabelsText}}
	}
	labels := make([]label, len(set))
	for i, l := range set {
		labels[i] = label{labelKey(l.Key), labelValue(l.Value)}
	}
	return labels
}

// withReceiver returns the labels of a sample with this method on top, by key.
func withReceiver(labels []label, top *ccmap.Method) []label {
	if top.Receiver == "" {
		return labels
	}
	all := receiverLabels(slices.Clone(labels), top)
	slices.SortFunc(all, func(a, b label) int { return strings.Compare(a.key, b.key) })
	return all
}

// programLabels collects the labels of samples that the program gave, and numbers the
// sets of them.
type programLabels struct {
	ours   bool
	memory *memory

	found  []ccmap.Label // of the sample
	record []byte        // the same, as the file has them
	other  bool          // the sample has other labels

	sets    []ccmap.Method
	numbers map[string]uint32 // from 1, by record
	last    uint32            // set of the last sample
}

// beginSample begins another sample.
func (l *programLabels) beginSample() { l.found, l.record, l.other = l.found[:0], l.record[:0], false }

// takeLabel takes in a label that is not ours. A label without text is a number.
func (l *programLabels) takeLabel(key, text string, record []byte) (err error) {
	switch {
	case text == "":
		return nil
	case l.ours && key == otherLabelsKey:
		l.other = true
	case l.ours:
		key, text = strings.TrimPrefix(key, labelMark), strings.TrimPrefix(text, labelMark)
	case len(l.found) > ccmap.MaxLabels:
		return nil // it says already that there are too many
	}
	l.found, err = keep(l.memory, l.found, ccmap.Label{Key: key, Value: text})
	if err == nil {
		l.record, err = room(l.memory, l.record, len(record)+binary.MaxVarintLen64)
	}
	l.record = append(binary.AppendUvarint(l.record, uint64(len(record))), record...)
	return err
}

// set returns the number of the sample's set, 0 for no labels.
func (l *programLabels) set() (uint32, error) {
	if len(l.found) == 0 {
		return 0, nil
	}
	if n, known := l.numbers[string(l.record)]; known {
		return n, nil
	}
	const entry, copies = 200, 3 // bytes of a set, and how often its text is there
	size := entry + copies*len(l.record)
	for _, label := range l.found {
		size += copies * (len(label.Key) + len(label.Value))
	}
	if err := l.memory.reserve(int64(size)); err != nil {
		return 0, err
	}
	m := l.method()
	n := uint32(slices.Index(l.sets, m) + 1)
	if n == 0 {
		l.sets = append(l.sets, m)
		n = uint32(len(l.sets))
	}
	if l.numbers == nil {
		l.numbers = make(map[string]uint32)
	}
	if l.ours || len(l.numbers) < ccmap.MaxLabelSets {
		l.numbers[string(l.record)] = n
	}
	return n, nil
}

// method returns the set of the sample. A set of a foreign profile that is beyond the
// bounds becomes other labels. The text of a set is a copy, lest all strings of the file stay.
func (l *programLabels) method() ccmap.Method {
	isLong := func(l ccmap.Label) bool { return max(len(l.Key), len(l.Value)) > ccmap.MaxLabelText }
	if l.other || !l.ours && (len(l.sets) >= ccmap.MaxLabelSets || len(l.found) > ccmap.MaxLabels || slices.ContainsFunc(l.found, isLong)) {
		return ccmap.LabelsMethod(nil)
	}
	m := ccmap.LabelsMethod(l.found)
	m.Signature = strings.Clone(m.Signature)
	return m
}

// enter returns the step that the stacks under a set of labels begin at: the root without
// labels.
func (a *pprofAdder) enter(set uint32) (step, error) {
	begin := step{node: a.b.m.Root(), at: ccmap.NoOffset, id: firstStackID}
	if set == 0 {
		return begin, nil
	}
	id, err := a.b.intern(a.stacks.program.sets[set-1])
	if err != nil {
		return begin, err
	}
	begin.node = a.b.m.Child(begin.node, ccmap.NoOffset, id)
	if a.links != nil {
		labels := a.b.known.keys.link([]ccmap.Frame{{Method: id, Offset: ccmap.NoOffset}})
		begin.id = begin.id.then(&labels)
	}
	return begin, nil
}
