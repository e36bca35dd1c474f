package view

import (
	"fmt"
	"reflect"
	"strconv"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/figure"
)

// Figures. Their types are their units.
type (
	weight      ccmap.Counters // the profile's unit: CPU time for example
	samples     int64
	activations int64
	count       int64
	percent     float64
	bits        float64
)

// MarshalJSON writes the weight alone.
func (w weight) MarshalJSON() ([]byte, error) { return strconv.AppendInt(nil, w.Time, 10), nil }

// units has the names of units, for the schema.
var units = map[reflect.Type]string{
	reflect.TypeFor[weight]():      "the profile's unit",
	reflect.TypeFor[samples]():     "samples",
	reflect.TypeFor[activations](): "calls",
	reflect.TypeFor[percent]():     "%",
	reflect.TypeFor[*percent]():    "%",
	reflect.TypeFor[bits]():        "bits",
}

// cell prints a value in a table.
func (p *Profile) cell(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case weight:
		return p.measure.format(ccmap.Counters(v))
	case samples:
		return p.formatSamples(int64(v))
	case activations:
		return p.formatActivations(int64(v))
	case count:
		return figure.Count(int64(v))
	case percent:
		return figure.Percent(float64(v))
	case bits:
		return formatBits(float64(v))
	}
	return fmt.Sprint(value)
}

func formatBits(bits float64) string { return strconv.FormatFloat(bits, 'f', 2, 64) }

// amountColumns are counters without activations, and counterColumns have them.
var (
	amountColumns = columns[ccmap.Counters]{
		col("samples", "samples", "samples taken there", func(c ccmap.Counters) samples { return samples(c.Samples) }),
		col("cum", "time_ns", "weight, CPU time for example", func(c ccmap.Counters) weight { return weight(c) }),
		colIn("of-all", "percent", "share of the whole profile, by time, or by samples where it has no time", ofAll),
	}
	counterColumns = append(amountColumns[:3:3],
		col("activations", "activations", "calls that samples have seen; ≥ marks a lower bound", func(c ccmap.Counters) activations { return activations(c.Activations) }))
)

func ofAll(p *Profile, c ccmap.Counters) percent {
	return percent(figure.Share(p.measure.of(c), p.measure.total))
}

// part is a part of a call or of a context, with the whole that it is a share of.
type part struct {
	ccmap.Counters
	whole ccmap.Counters
}

// shareOf declares the column for the share of a part.
func shareOf[R any](key string, get func(*Profile, R) part) column[R] {
	return colIn("share", key, "share of the listed method, call or path", func(p *Profile, r R) percent {
		x := get(p, r)
		return percent(figure.Share(p.measure.of(x.Counters), p.measure.of(x.whole)))
	})
}

// partColumns are the figures of a row that is in text only.
var partColumns = append(inline(counterColumns, func(_ *Profile, r part) *ccmap.Counters { return &r.Counters }),
	shareOf("", func(_ *Profile, r part) part { return r }))
