package onefile

import (
	"encoding/json"
	"fmt"
)

// answer is what is read of the JSON of flame and flamediff.
type answer struct {
	Width    int  `json:"width"`
	Narrowed bool `json:"narrowed"`
	Methods  []struct {
		Method    string `json:"method"`
		Signature string `json:"signature"`
	} `json:"methods"`
	Frames struct {
		Parent []int   `json:"parent"`
		Method []int   `json:"method"`
		Line   []int   `json:"line"`
		More   []int64 `json:"more"`

		Value       []int64 `json:"value"`
		Rest        []int64 `json:"rest"`
		Samples     []int64 `json:"samples"`
		Activations []int64 `json:"activations"`

		ValueA   []int64 `json:"value_a"`
		ValueB   []int64 `json:"value_b"`
		RestA    []int64 `json:"rest_a"`
		RestB    []int64 `json:"rest_b"`
		SamplesA []int64 `json:"samples_a"`
		SamplesB []int64 `json:"samples_b"`
	} `json:"frames"`
	Changes []change `json:"changes"`
	Notes   []string `json:"notes"`
}

type change struct {
	Frame  int     `json:"frame"`
	Points float64 `json:"points"`
	P      float64 `json:"p"`
}

// packed are columns of frames, parents first. Sparse columns are pairs of a frame and a value.
type packed struct {
	Up     []int   `json:"up"` // so many levels above the frame before it is the parent
	Method []int   `json:"method"`
	Line   []int   `json:"line"`
	More   []int64 `json:"more"` // sparse
	Sides  []side  `json:"sides"`
}

// side has the figures of a profile.
type side struct {
	Own         []int64 `json:"own"`     // value less the values of the frames below
	Samples     []int64 `json:"samples"` // likewise
	Rest        []int64 `json:"rest"`    // sparse
	Activations []int64 `json:"activations,omitempty"`
}

// take packs the frames of an answer.
func (d *data) take(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode frames: %w", err)
	}
	var a answer
	if err := json.Unmarshal(text, &a); err != nil {
		return fmt.Errorf("read frames: %w", err)
	}
	for _, m := range a.Methods {
		d.Names = append(d.Names, m.Method+m.Signature)
	}
	f := &a.Frames
	d.Frames = packed{Up: ups(f.Parent), Method: f.Method, Line: f.Line, More: sparse(f.More)}
	if f.Value != nil {
		one := newSide(f.Parent, f.Value, f.Samples, f.Rest)
		one.Activations = f.Activations
		d.Frames.Sides = []side{one}
	} else {
		d.Frames.Sides = []side{newSide(f.Parent, f.ValueA, f.SamplesA, f.RestA), newSide(f.Parent, f.ValueB, f.SamplesB, f.RestB)}
	}
	d.Changes, d.Notes = a.Changes, a.Notes
	if d.Changes == nil {
		d.Changes = []change{}
	}
	if d.Notes == nil {
		d.Notes = []string{}
	}
	if a.Narrowed {
		d.Notes = append(d.Notes, fmt.Sprintf("This page has %d frames: those under 1/%d of the whole are summed up. --nodes raises the bound.", len(f.Parent), a.Width))
	}
	return nil
}

func newSide(parent []int, value, samples, rest []int64) side {
	return side{Own: own(parent, value), Samples: own(parent, samples), Rest: sparse(rest)}
}

// own subtracts from each frame those below it.
func own(parent []int, sum []int64) []int64 {
	all := append([]int64{}, sum...)
	for i := 1; i < len(all); i++ {
		all[parent[i]] -= sum[i]
	}
	return all
}

func sparse(all []int64) []int64 {
	pairs := []int64{}
	for i, v := range all {
		if v != 0 {
			pairs = append(pairs, int64(i), v)
		}
	}
	return pairs
}

// ups says of each frame how many levels its parent is above the frame before it.
func ups(parent []int) []int {
	all := make([]int, len(parent))
	for i := 1; i < len(parent); i++ {
		for p := i - 1; p != parent[i]; p = parent[p] {
			all[i]++
		}
	}
	return all
}
