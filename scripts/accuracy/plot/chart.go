// Package plot draws charts of points and lines as SVG: scales, then marks over them,
// then a legend. Charts are text with readable diffs, and legible on light and dark
// backgrounds.
package plot

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// Point is in the units of the axes.
type Point struct{ X, Y float64 }

// Series are points of one kind. Points outside the axes are not drawn.
type Series struct {
	Name   string  // in the legend; empty: not in it
	Points []Point // in the order of the line
	Line   bool    // a line, without dots
	Dashed bool    // the line
	Shade  int     // index of a color
}

// Level is a horizontal line for comparison.
type Level struct {
	Y    float64
	Name string // written at its right end
}

// Chart is one diagram.
type Chart struct {
	Title  string
	X, Y   Axis
	Series []Series
	Levels []Level
}

const (
	width, height = 760, 440
	left, right   = 64, 576 // of the plane, in pixels; the legend is right of it
	top, bottom   = 40, 384
)

// colors are legible on white and on black.
var colors = []string{"#3b82c4", "#d9722e", "#2f9e6e", "#c2528b", "#8a6fd1", "#a98a1c", "#5b9aa0", "#b35c5c"}

const style = `text{font:12px sans-serif;fill:#57606a}` +
	`.title{font-size:14px;font-weight:bold}` +
	`.grid{stroke:#8c959f;stroke-opacity:.3}.level{stroke:#8c959f;stroke-dasharray:2 3}` +
	`.line{fill:none;stroke-width:1.5}` +
	`@media(prefers-color-scheme:dark){text{fill:#a9b3bd}}`

// WriteSVG writes the chart. Equal charts give equal text.
func (c Chart) WriteSVG(w io.Writer) error {
	d := &drawing{Chart: c}
	d.add(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img">`, width, height)
	d.add(`<title>%s</title>`, escape(c.Title))
	d.add(`<style>%s</style>`, style)
	d.text(left, 20, "start", c.Title, ` class="title"`)
	d.axes()
	for _, l := range c.Levels {
		d.level(l)
	}
	for _, s := range c.Series {
		d.series(s)
	}
	d.legend()
	d.add(`</svg>`)
	_, err := io.WriteString(w, d.String())
	return err
}

// drawing is a chart on its way to text.
type drawing struct {
	Chart
	strings.Builder
}

// add adds a line of text.
func (d *drawing) add(format string, args ...any) { fmt.Fprintf(d, format+"\n", args...) }

func (d *drawing) text(x, y float64, anchor, text, attributes string) {
	d.add(`<text x="%.1f" y="%.1f" text-anchor="%s"%s>%s</text>`, x, y, anchor, attributes, escape(text))
}

func (d *drawing) x(v float64) float64 { return left + d.X.at(v)*(right-left) }
func (d *drawing) y(v float64) float64 { return bottom - d.Y.at(v)*(bottom-top) }

// axes draws the grid with figures and labels.
func (d *drawing) axes() {
	for _, v := range d.X.Ticks {
		x := d.x(v)
		d.add(`<line class="grid" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/>`, x, top, x, bottom)
		d.text(x, bottom+18, "middle", figure(v), "")
	}
	for _, v := range d.Y.Ticks {
		y := d.y(v)
		d.add(`<line class="grid" x1="%d" y1="%.1f" x2="%d" y2="%.1f"/>`, left, y, right, y)
		d.text(left-8, y+4, "end", figure(v), "")
	}
	d.text((left+right)/2, bottom+42, "middle", d.X.Label, "")
	middle := float64(top+bottom) / 2
	d.text(16, middle, "middle", d.Y.Label, fmt.Sprintf(` transform="rotate(-90 16 %.1f)"`, middle))
}

func (d *drawing) level(l Level) {
	y := d.y(l.Y)
	d.add(`<line class="level" x1="%d" y1="%.1f" x2="%d" y2="%.1f"/>`, left, y, right, y)
	d.text(right-6, y-4, "end", l.Name, "")
}

func (s Series) color() string { return colors[s.Shade%len(colors)] }

func (d *drawing) series(s Series) {
	var path []string
	for _, p := range s.Points {
		if !d.X.has(p.X) || !d.Y.has(p.Y) {
			continue
		}
		if !s.Line {
			d.add(`<circle cx="%.1f" cy="%.1f" r="3" fill="%s" fill-opacity=".75"/>`, d.x(p.X), d.y(p.Y), s.color())
		}
		path = append(path, fmt.Sprintf("%.1f,%.1f", d.x(p.X), d.y(p.Y)))
	}
	if s.Line {
		d.add(`<polyline class="line" stroke="%s"%s points="%s"/>`, s.color(), s.dashes(), strings.Join(path, " "))
	}
}

func (s Series) dashes() string {
	if s.Dashed {
		return ` stroke-dasharray="5 4"`
	}
	return ""
}

// legend lists the series that have a name, right of the plane.
func (d *drawing) legend() {
	const x = right + 16
	y := float64(top + 8)
	for _, s := range d.Series {
		if s.Name == "" {
			continue
		}
		if s.Line {
			d.add(`<line class="line" stroke="%s"%s x1="%d" y1="%.1f" x2="%d" y2="%.1f"/>`, s.color(), s.dashes(), x, y, x+18, y)
		} else {
			d.add(`<circle cx="%d" cy="%.1f" r="4" fill="%s"/>`, x+9, y, s.color())
		}
		d.text(x+24, y+4, "start", s.Name, "")
		y += 20
	}
}

var escaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

func escape(text string) string { return escaper.Replace(text) }

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
