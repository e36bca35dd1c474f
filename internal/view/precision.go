package view

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/compare"
	"github.com/ccmapd/ccmapd/internal/figure"
)

// precision returns how far the shares of the profile can be trusted. It is not known where the profile does not say
// how many samples it has, or where samples weigh differently; and figures that were counted have none.
func (p *Profile) precision() (precision compare.Precision, known bool) {
	if p.measure.total == 0 || p.isExact() || p.Total().Samples == 0 || !p.samplesWeighAlike() {
		return compare.Precision{}, false
	}
	return compare.PrecisionOf(p.Snapshot, p.measure.by()), true
}

// intervalColumns are the interval of the share of counters that have each sample once.
var intervalColumns = columns[ccmap.Counters]{
	colIn("", "share_low,omitempty", "begin of the 95 % interval of percent, by the independent samples; missing: not known", func(p *Profile, c ccmap.Counters) *percent {
		low, _ := p.interval(c)
		return low
	}),
	colIn("", "share_high,omitempty", "end of that interval", func(p *Profile, c ccmap.Counters) *percent {
		_, high := p.interval(c)
		return high
	}),
}

func (p *Profile) interval(c ccmap.Counters) (low, high *percent) {
	precision, known := p.precision()
	if !known {
		return nil, nil
	}
	from, to := precision.Interval(c)
	return given(percent(from), true), given(percent(to), true)
}

// tie is a row whose samples do not tell it apart from the next one.
type tie struct {
	row int     // from 1
	p   float64 // the probability of such a difference, or a larger one, if both have the same share
}

var tieColumns = columns[tie]{
	col("", "row", "the first of two neighbours, from 1", func(t tie) count { return count(t.row) }),
	col("", "p", "probability of a difference like theirs, or a larger one, if their shares are the same", func(t tie) float64 { return t.p }),
}

// leadingRows are those that are looked at for ties: further down, hardly any row has enough samples.
const leadingRows = 5

// ties returns the ties among the first rows, by their flat time; nil: that is not known. Rows of hardly any samples
// are none: they have too few to tell anything.
func (p *Profile) ties(rows []MethodRow) []tie {
	precision, known := p.precision()
	if !known {
		return nil
	}
	found := []tie{}
	for i := range min(len(rows), leadingRows) - 1 {
		probability, tested := precision.Alike(rows[i].Flat, rows[i+1].Flat)
		if tested && probability >= compare.DefaultLevel {
			found = append(found, tie{i + 1, probability})
		}
	}
	return found
}

// tied says which of the first rows cannot be told apart: "" if all can.
func (v *Top) tied() string {
	switch {
	case len(v.ties) == 0, v.profile.Blind().Misleads():
		return ""
	case len(v.ties) == 1:
		row := v.ties[0].row
		return fmt.Sprintf("Rows %d and %d cannot be told apart: they have %s and %s of their own.", row, row+1,
			figure.Count(v.Rows[row-1].Flat.Samples), figure.Plural(v.Rows[row].Flat.Samples, "sample"))
	}
	last := len(v.ties) - 1
	var rows []string
	for _, t := range v.ties[:last] {
		rows = append(rows, strconv.Itoa(t.row))
	}
	return fmt.Sprintf("Rows %s and %d cannot be told apart from the row below by their samples.", strings.Join(rows, ", "), v.ties[last].row)
}
