package plot_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmapd/ccmapd/scripts/accuracy/plot"
)

var update = flag.Bool("update", false, "rewrite the golden file")

const golden = "testdata/chart.svg"

// chart has one of everything.
func chart() plot.Chart {
	return plot.Chart{
		Title: "Overlap & samples <all>",
		X:     plot.Decades("samples", 10, 100_000),
		Y:     plot.Percent("overlap, %", 0, 100, 20),
		Series: []plot.Series{
			{Name: "measured", Points: []plot.Point{{20, 30}, {200, 62.5}, {5, 50}, {2000, 101}}},
			{Name: "fitted", Line: true, Dashed: true, Shade: 1, Points: []plot.Point{{10, 10}, {100_000, 99}}},
			{Line: true, Shade: 2, Points: []plot.Point{{10, 0}, {10_000, 80}}},
		},
		Levels: []plot.Level{{Y: 67, Name: "67 %"}},
	}
}

func svg(t *testing.T) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := chart().WriteSVG(&out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestGolden(t *testing.T) {
	t.Parallel()
	got := svg(t)
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("the chart differs from %s; rewrite it with -update if that is right:\n%s", golden, diff)
	}
}

func TestIsXML(t *testing.T) {
	t.Parallel()
	d := xml.NewDecoder(bytes.NewReader(svg(t)))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}
