package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ccmapd/ccmapd/scripts/accuracy/plot"
)

// plotFolder is beside the report.
const plotFolder = "plots"

// drawn are the programs in the plots: the studied and the real ones.
var drawn = append(slices.Clone(studied), "compile", "gojq", "fortio")

func (r *results) writePlots(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for k := range allKinds {
		if err := writePlot(filepath.Join(folder, k.plotName()), r.sizePlot(k)); err != nil {
			return err
		}
	}
	if err := writePlot(filepath.Join(folder, "shorter.svg"), r.shorterPlot()); err != nil {
		return err
	}
	return writePlot(filepath.Join(folder, "floors.svg"), r.floorPlot())
}

// plotName returns the name of the file with the plot of overlaps of the kind.
func (k kind) plotName() string {
	return "overlap-" + strings.ReplaceAll(k.String(), " ", "-") + ".svg"
}

func writePlot(path string, c plot.Chart) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := c.WriteSVG(f); err != nil {
		return err
	}
	return f.Close()
}

func toPoints(all []sized) []plot.Point {
	points := make([]plot.Point, len(all))
	for i, s := range all {
		points[i] = plot.Point{X: s.samples, Y: s.overlap}
	}
	return points
}

var sampleAxis = plot.Decades("samples of each run", 20, 50_000)

// sizePlot has measurements as points, and the laws as lines.
func (r *results) sizePlot(k kind) plot.Chart {
	chart := plot.Chart{
		Title: "Overlap of " + k.String() + ": measured (points) and 100 − scale·n^exponent (lines)",
		X:     sampleAxis,
		Y:     plot.Percent("overlap, %", 0, 100, 10),
	}
	if k == contexts || k == managed {
		chart.Levels = []plot.Level{{Y: 67, Name: "paper: stringbuilder 67 %"}, {Y: 77, Name: "paper: enum 75, console 77 %"}, {Y: 97, Name: "paper: int32 97 %"}}
	}
	for shade, name := range drawn {
		c := r.curves[name]
		if c == nil {
			continue
		}
		var line []plot.Point
		for n := sampleAxis.Min; n < sampleAxis.Max; n *= 1.2 {
			line = append(line, plot.Point{X: n, Y: c.law[k].at(n)})
		}
		chart.Series = append(chart.Series,
			plot.Series{Name: name, Points: toPoints(c.points[k]), Shade: shade},
			plot.Series{Line: true, Points: line, Shade: shade})
	}
	return chart
}

// shorterPlot has thinned runs as lines, and shorter runs as points.
func (r *results) shorterPlot() plot.Chart {
	chart := plot.Chart{
		Title: "Overlap of contexts: shorter runs (points), and whole runs thinned out (lines)",
		X:     sampleAxis,
		Y:     plot.Percent("overlap, %", 0, 100, 10),
	}
	for shade, name := range studied {
		c := r.curves[name]
		if c == nil {
			continue
		}
		chart.Series = append(chart.Series,
			plot.Series{Name: name, Points: toPoints(c.shorter[contexts]), Shade: shade},
			plot.Series{Line: true, Points: toPoints(c.points[contexts]), Shade: shade})
	}
	return chart
}

func (r *results) floorPlot() plot.Chart {
	chart := plot.Chart{
		Title: "Two halves of one run (floor), and two whole runs (overlap)",
		X:     plot.Percent("floor, %", 0, 100, 10),
		Y:     plot.Percent("overlap, %", 0, 100, 10),
	}
	for k := range allKinds {
		var points []plot.Point
		for _, a := range slices.Concat(r.agreementsAt(tenMillis), r.agreementsAt(oneMilli)) {
			points = append(points, plot.Point{X: a.floor[k], Y: a.overlap[k]})
		}
		chart.Series = append(chart.Series, plot.Series{Name: k.String(), Points: points, Shade: int(k)})
	}
	for _, line := range []struct {
		name     string
		exponent float64
		dashed   bool
	}{{"100 − (100 − floor)/√2", squareRoot, false}, {"100 − (100 − floor)/∛2", cubeRoot, true}, {"overlap = floor", 0, false}} {
		chart.Series = append(chart.Series, plot.Series{
			Name: line.name, Line: true, Dashed: line.dashed, Shade: 5,
			Points: []plot.Point{{X: 0, Y: foretold(0, line.exponent)}, {X: 100, Y: 100}},
		})
	}
	return chart
}
