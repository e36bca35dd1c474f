package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
)

// A line a day has the day's least coverage, and a map that was never pruned is
// said to prove little.
func TestTable(t *testing.T) {
	t.Parallel()
	for _, pruned := range []uint64{0, 3} {
		var out bytes.Buffer
		table := newTable(&out)
		for i, top := range []float64{1, 0.97, 0.99} {
			table.add(checkpoint{
				at:       time.Duration(i+1) * 12 * time.Hour,
				coverage: coverage{hot: 1, top: top, right: 1},
				prunes:   ccmap.PruneStats{Times: pruned},
			})
		}
		table.end()
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if !strings.HasPrefix(lines[1], "  1 ") || !strings.Contains(lines[1], " 97.0%") || !strings.HasPrefix(lines[2], "all ") {
			t.Errorf("table:\n%s", &out)
		}
		if noted := strings.HasPrefix(lines[len(lines)-1], "nothing was pruned"); noted != (pruned == 0) {
			t.Errorf("pruned %d times:\n%s", pruned, &out)
		}
	}
}
