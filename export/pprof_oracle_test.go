package export

import (
	"bytes"
	stdcmp "cmp"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/pprof/profile"
	"pgregory.net/rapid"

	"github.com/ccmapd/ccmapd/ccmap"
)

// peerCounts reads a profile with google/pprof and counts its stacks by path, as
// contentOf names them. It knows nothing of limits.
func peerCounts(data string) (map[string]ccmap.Counters, error) {
	p, err := profile.ParseUncompressed([]byte(data))
	if err == nil {
		err = p.CheckValid()
	}
	if err != nil {
		return nil, err
	}
	var types []valueType
	for _, t := range p.SampleType {
		types = append(types, valueType{t.Type, t.Unit})
	}
	ours, _ := parseComments(p.Comments)
	values, err := valueTypes{types, p.DefaultSampleType, ours != nil}.choose("")
	if err != nil {
		return nil, err
	}
	counts := make(map[string]ccmap.Counters)
	for _, s := range p.Sample {
		self, _, err := values.counters(s.Value)
		if err != nil {
			return nil, err
		}
		path := peerPath(s, ours != nil)
		if total := counts[path].Add(self); !total.IsZero() {
			counts[path] = total
		}
	}
	return counts, nil
}

// peerPath names the stack of a sample.
func peerPath(s *profile.Sample, ours bool) string {
	var b strings.Builder
	at := ccmap.NoOffset
	push := func(name, signature string, offset uint32) {
		fmt.Fprintf(&b, "/%d %q %q", int32(at), name, signature)
		at = offset
	}
	if set := peerLabels(s, ours); set != nil {
		m := ccmap.LabelsMethod(set)
		push(m.Name, m.Signature, ccmap.NoOffset)
	}
	for i := len(s.Location) - 1; i >= 0; i-- {
		l := s.Location[i]
		if len(l.Line) == 0 {
			push(peerAddress(l), "", ccmap.NoOffset)
		}
		for j := len(l.Line) - 1; j >= 0; j-- {
			f, signature := l.Line[j].Function, ""
			name := stdcmp.Or(f.Name, f.SystemName, ccmap.UnknownName)
			if ours {
				signature, _ = strings.CutPrefix(f.SystemName, f.Name)
			}
			if call, found := strings.CutPrefix(f.Name, "[kernel] "); ours && found && f.SystemName == "[kernel]"+call {
				name, signature = "[kernel]", call
			}
			offset := offsetOf(l.Line[j].Line, f.StartLine)
			if coordinate := l.Address >> 32; ours && (coordinate == 1 || coordinate == 2) {
				offset = uint32(l.Address)
			}
			push(name, signature, offset)
		}
	}
	if len(s.Location) == 0 {
		push(ccmap.UnknownName, "", ccmap.NoOffset)
	}
	if at != ccmap.NoOffset {
		fmt.Fprintf(&b, "/%d", int32(at))
	}
	return b.String()
}

// peerLabels returns the labels of a sample that its program gave.
func peerLabels(s *profile.Sample, ours bool) (labels []ccmap.Label) {
	for key, values := range s.Label {
		if ours && slices.Contains([]string{receiverLabel, hitLabel, contextLabel}, key) {
			continue
		}
		l := ccmap.Label{Key: key, Value: values[len(values)-1]}
		if ours && key == otherLabelsKey {
			return []ccmap.Label{}
		}
		if ours {
			l.Key, l.Value = strings.TrimPrefix(l.Key, labelMark), strings.TrimPrefix(l.Value, labelMark)
		}
		labels = append(labels, l)
	}
	return labels
}

func peerAddress(l *profile.Location) string {
	if l.Mapping == nil || l.Mapping.File == "" || l.Address == 0 {
		return ccmap.UnknownName
	}
	return fmt.Sprintf("%s+%#x", filepath.Base(l.Mapping.File), l.Address-l.Mapping.Start+l.Mapping.Offset)
}

// checkAgainstPeer holds our decoder against google/pprof: we take nothing that
// it refuses, and of what both take we count the same.
func checkAgainstPeer(t interface{ Fatalf(string, ...any) }, data string) {
	m, format, err := Read(strings.NewReader(data), fuzzLimits)
	if err != nil || format != Pprof {
		return
	}
	want, err := peerCounts(data)
	if err != nil {
		t.Fatalf("google/pprof refuses %q: %v", data, err)
	}
	if strings.Contains(data, ccmap.PrunedName) {
		return // nothing stays below [pruned], whatever a file says
	}
	activations := func(c ccmap.Counters) ccmap.Counters { c.Activations = 0; return c } // a position's are its method's
	got := contentOf(m.Snapshot()).counted(activations)
	for path, c := range want {
		if c = activations(c); c.IsZero() {
			delete(want, path)
		} else {
			want[path] = c
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("(-google/pprof +ours) in %q:\n%s", data, diff)
	}
}

func FuzzPprofAgainstPeer(f *testing.F) {
	f.Add(encode(f, Pprof, small().Snapshot()))
	var odd bytes.Buffer
	if err := (&profile.Profile{Comments: []string{`ccmapd {"version":1,"target":[],"intervals":{},"comments":[]}`}}).WriteUncompressed(&odd); err != nil {
		f.Fatal(err)
	}
	f.Add(odd.String())
	f.Add(encode(f, Pprof, chain(3).Snapshot()))
	f.Add(encode(f, Pprof, pruned().Snapshot()))
	f.Add(encode(f, Pprof, points().Snapshot()))
	f.Add("\x0a\x04\x08\x01\x10\x02\x12\x04\x08\x01\x10\x05\x22\x02\x08\x01\x32\x00\x32\x01a\x32\x05count")
	f.Fuzz(func(t *testing.T, data string) { checkAgainstPeer(t, data) })
}

// drawProfile is a profile as other tools might write it: ids in no order, with
// gaps; inlined calls, addresses without symbols, stacks in no order.
func drawProfile(t *rapid.T) *profile.Profile {
	ids := rapid.SliceOfNDistinct(rapid.Uint64Range(1, 300), 12, 12, rapid.ID).Draw(t, "ids")
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "microseconds"}},
		Mapping:    []*profile.Mapping{{ID: ids[0], File: "/bin/x", Start: 16}, {ID: ids[1]}},
	}
	for i, id := range ids[:4] {
		p.Function = append(p.Function, &profile.Function{ID: id, Name: fmt.Sprint("f", i), StartLine: int64(i)})
	}
	for _, id := range ids {
		l := &profile.Location{ID: id, Address: rapid.Uint64Range(0, 64).Draw(t, "address")}
		if m := rapid.IntRange(0, 2).Draw(t, "mapping"); m < 2 {
			l.Mapping = p.Mapping[m]
		}
		for range rapid.IntRange(0, 2).Draw(t, "lines") {
			l.Line = append(l.Line, profile.Line{Function: rapid.SampledFrom(p.Function).Draw(t, "function"), Line: rapid.Int64Range(-2, 9).Draw(t, "line")})
		}
		p.Location = append(p.Location, l)
	}
	stack := rapid.SliceOfN(rapid.SampledFrom(p.Location), 0, 6)
	for range rapid.IntRange(0, 20).Draw(t, "samples") {
		s := &profile.Sample{Location: stack.Draw(t, "stack"), Value: []int64{1, rapid.Int64Range(0, 9).Draw(t, "time")}}
		if rapid.Bool().Draw(t, "labelled") {
			s.Label, s.NumLabel = map[string][]string{"k": {"v"}}, map[string][]int64{"n": {math.MinInt64}}
		}
		p.Sample = append(p.Sample, s)
	}
	return p
}

func TestPprofOfOtherToolsEqualsPeer(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var b bytes.Buffer
		if err := drawProfile(t).WriteUncompressed(&b); err != nil {
			t.Fatal(err)
		}
		if _, _, err := Read(bytes.NewReader(b.Bytes()), fuzzLimits); err != nil {
			t.Fatal(err)
		}
		checkAgainstPeer(t, b.String())
	})
}

// Any byte of a profile may be wrong.
func TestDamagedPprofEqualsPeer(t *testing.T) {
	t.Parallel()
	whole := encode(t, Pprof, points().Snapshot())
	rapid.Check(t, func(t *rapid.T) {
		data := []byte(whole)
		for range rapid.IntRange(1, 3).Draw(t, "wrong bytes") {
			data[rapid.IntRange(0, len(data)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
		}
		checkAgainstPeer(t, string(data))
	})
}

// The end that two lists of numbers share is found as numbers, not bytes.
func TestCommonNumbers(t *testing.T) {
	t.Parallel()
	number := rapid.SampledFrom([]uint64{0, 1, 127, 128, 129, 255, 256, 16384, 16385, math.MaxUint64})
	rapid.Check(t, func(t *rapid.T) {
		a, b, end := rapid.SliceOf(number).Draw(t, "a"), rapid.SliceOf(number).Draw(t, "b"), rapid.SliceOf(number).Draw(t, "end")
		a, b = append(a, end...), append(b, end...)
		same := 0
		for same < min(len(a), len(b)) && a[len(a)-1-same] == b[len(b)-1-same] {
			same++
		}
		x, y := packed(a), packed(b)
		kept := commonNumbers(x, y)
		if got := countNumbers(x[len(x)-kept:]); got != same || countNumbers(x) != len(a) {
			t.Fatalf("%d of %d and %d numbers are the same, want %d", got, len(a), len(b), same)
		}
	})
}

func packed(numbers []uint64) (list []byte) {
	for _, n := range numbers {
		for ; n >= 0x80; n >>= 7 {
			list = append(list, byte(n)|0x80)
		}
		list = append(list, byte(n))
	}
	return list
}

func (t valueType) proto() *profile.ValueType { return &profile.ValueType{Type: t.kind, Unit: t.unit} }
