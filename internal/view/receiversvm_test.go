package view

import (
	"testing"

	"github.com/ccmapd/ccmapd/valueprof/pollution"
)

// A caller may have counted more calls than the site, as both stopped at different times: it had 142.7 % of
// the calls.
func TestCountedAtCallers(t *testing.T) {
	t.Parallel()
	site := pollution.Site{Calls: pollution.Evidence{Mix: pollution.Mix{Unnamed: 700}}}
	v := vmRow{Tables: []pollution.Table{{Rows: []pollution.Row{{Calls: 999}, {Calls: 1}, {Calls: -1}}}}}
	if got := v.counted(site); got != 1000 {
		t.Errorf("%d calls, want 1000", got)
	}
	if got := new(vmRow).counted(site); got != 700 {
		t.Errorf("%d calls, want 700", got)
	}
}
