package export

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/ccmapd/ccmapd/ccmap"
)

// foreignLabels is a profile of another tool with a sample for each set of labels.
func foreignLabels(sets ...map[string][]string) *profile.Profile {
	f := &profile.Function{ID: 1, Name: "main.main"}
	l := &profile.Location{ID: 1, Line: []profile.Line{{Function: f, Line: 1}}}
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}},
		Function:   []*profile.Function{f}, Location: []*profile.Location{l},
	}
	for _, set := range sets {
		p.Sample = append(p.Sample, &profile.Sample{Location: p.Location, Value: []int64{1}, Label: set})
	}
	return p
}

func readSets(t *testing.T, p *profile.Profile) map[string]int64 {
	t.Helper()
	var b bytes.Buffer
	if err := p.WriteUncompressed(&b); err != nil {
		t.Fatal(err)
	}
	s := decode(t, b.String())
	sets := map[string]int64{"all": s.Total().Samples}
	for set := range s.LabelSets() {
		sets[ccmap.LabelsMethod(set.Labels).Signature] = set.Total.Samples
	}
	return sets
}

// TestForeignLabelsAreBounded: a set of labels beyond a bound counts as other labels.
func TestForeignLabelsAreBounded(t *testing.T) {
	t.Parallel()
	many := map[string][]string{}
	for i := range ccmap.MaxLabels + 1 {
		many[fmt.Sprint("k", i)] = []string{"v"}
	}
	long := strings.Repeat("x", ccmap.MaxLabelText+1)
	got := readSets(t, foreignLabels(many, map[string][]string{"k": {long}}, map[string][]string{long: {"v"}},
		map[string][]string{"k": {"a", "b"}}, map[string][]string{"k": {long[1:]}}, nil))
	want := map[string]int64{"all": 6, "": 3, "k=b": 1, "k=" + long[1:]: 1}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("sets %v, want %v", got, want)
	}

	var sets []map[string][]string
	for i := range ccmap.MaxLabelSets + 10 {
		sets = append(sets, map[string][]string{"id": {fmt.Sprint(i)}})
	}
	got = readSets(t, foreignLabels(append(sets, sets...)...))
	if len(got) != ccmap.MaxLabelSets+2 || got[""] != 20 || got["id=7"] != 2 {
		t.Errorf("%d sets, others %d, id=7 %d", len(got), got[""], got["id=7"])
	}
}
