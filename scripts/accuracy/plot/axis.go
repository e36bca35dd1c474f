package plot

import (
	"math"
	"strconv"
)

// Axis is a scale from Min to Max, Min < Max.
type Axis struct {
	Label    string // with the unit
	Min, Max float64
	Log      bool // logarithmic; Min is over 0
	Ticks    []float64
}

// Percent returns an axis of percentages.
func Percent(label string, min, max, step float64) Axis {
	a := Axis{Label: label, Min: min, Max: max}
	for v := min; v <= max; v += step {
		a.Ticks = append(a.Ticks, v)
	}
	return a
}

// Decades returns a logarithmic axis with a tick at every power of ten.
func Decades(label string, min, max float64) Axis {
	a := Axis{Label: label, Min: min, Max: max, Log: true}
	for v := math.Pow(10, math.Ceil(math.Log10(min))); v <= max; v *= 10 {
		a.Ticks = append(a.Ticks, v)
	}
	return a
}

// at returns where a value lies, 0 at Min and 1 at Max.
func (a Axis) at(v float64) float64 {
	if a.Log {
		return math.Log(v/a.Min) / math.Log(a.Max/a.Min)
	}
	return (v - a.Min) / (a.Max - a.Min)
}

func (a Axis) has(v float64) bool { return v >= a.Min && v <= a.Max }

// figure prints a number with its thousands apart.
func figure(v float64) string {
	text := strconv.FormatFloat(v, 'f', -1, 64)
	if v < 1000 || v != math.Trunc(v) {
		return text
	}
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
