package main

import "github.com/ccmapd/ccmapd/scripts/report"

// others returns a portion's rows, if only some are measured again.
func (f *field) others(p report.Portion) ([][]string, error) {
	if f.Only == "" || f.Report == "" {
		return nil, nil
	}
	return p.Rows(f.Report)
}

// addOthers adds the old rows of programs that were not measured again.
func addOthers(t *report.Table, old [][]string, again map[string]bool) {
	for _, o := range old {
		if !again[o[0]] {
			t.Row(o...)
		}
	}
}
