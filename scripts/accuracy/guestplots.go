package main

import (
	"os"
	"path/filepath"

	"github.com/ccmapd/ccmapd/scripts/accuracy/plot"
)

// guestPlot draws the overlap of every guest's contexts against the number of
// what the profiles rest on, in one shape.
type guestPlot struct {
	file, title string
	axis        plot.Axis
	shape       shape
	curve       func(shaped) []truth
}

var guestPlots = []guestPlot{
	{"guests-time.svg", "Contexts against the exact profile, by weight: one sample every millisecond",
		plot.Decades("samples", 50, 100_000), denseShape, func(s shaped) []truth { return s.timeCurve }},
	{"guests-calls.svg", "Contexts against the exact profile, by calls: bursts of 64 safe points every 10 ms",
		plot.Decades("calls found", 500, 1_000_000), burstShape, func(s shaped) []truth { return s.callsCurve }},
}

func (r *guestResults) writePlots(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for _, p := range guestPlots {
		if err := writePlot(filepath.Join(folder, p.file), p.chart(r.guests)); err != nil {
			return err
		}
	}
	return nil
}

// chart has the goal of the design as a level.
func (p guestPlot) chart(guests []guestResult) plot.Chart {
	chart := plot.Chart{
		Title:  p.title,
		X:      p.axis,
		Y:      plot.Percent("overlap, %", 0, 100, 10),
		Levels: []plot.Level{{Y: 85, Name: "85 %"}},
	}
	for shade, g := range guests {
		for _, s := range g.shaped {
			if s.shape != p.shape {
				continue
			}
			points := make([]plot.Point, len(p.curve(s)))
			for i, t := range p.curve(s) {
				points[i] = plot.Point{X: t.things, Y: t.contexts.Percent}
			}
			chart.Series = append(chart.Series,
				plot.Series{Name: g.Name, Points: points, Shade: shade},
				plot.Series{Line: true, Points: points, Shade: shade})
		}
	}
	return chart
}
