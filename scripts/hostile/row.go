package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/scripts/report"
)

// row is one attack, or many of a kind, and the result.
type row struct {
	cells   []string // as many as the campaign's head; the first is the name
	misses  []string // bounds that were missed
	harmed  bool     // one of them is no bound of time
	earlier bool     // from the page: an earlier run measured it
}

// miss adds a missed bound.
func (r *row) miss(format string, args ...any) {
	r.late(format, args...)
	r.harmed = true
}

// late adds a missed bound of time, which other work on the machine can make a row miss.
func (r *row) late(format string, args ...any) {
	r.misses = append(r.misses, fmt.Sprintf(format, args...))
}

// add adds a measured row.
func (h *hostile) add(r row) {
	h.Say("%s", strings.Join(append(slices.Clone(r.cells), r.misses...), " | "))
	h.put(r)
}

// put adds a row, or replaces an earlier row of its name.
func (h *hostile) put(r row) {
	same := func(o row) bool { return o.cells[0] == r.cells[0] }
	if i := slices.IndexFunc(h.rows, same); i >= 0 {
		h.rows[i] = r
	} else {
		h.rows = append(h.rows, r)
	}
}

// portion returns the campaign's part of the page.
func (k kind) portion() report.Portion { return report.Portion("scripts/hostile, " + k.name) }

// write replaces the campaign's portion of the page, or prints it without a page. With
// -only it keeps the page's other rows.
func (h *hostile) write(stdout io.Writer) error {
	if len(h.rows) == 0 || h.Quick {
		return nil
	}
	var old [][]string
	if h.Only != "" {
		var err error
		if old, err = h.old(); err != nil {
			return err
		}
	}
	body := h.table(old)
	if h.Report == "" {
		_, err := fmt.Fprintln(stdout, body)
		return err
	}
	return h.portion().Rewrite(h.Report, body)
}

// old returns the rows of the page, each as its cells.
func (h *hostile) old() ([][]string, error) {
	if h.Report == "" {
		return nil, nil
	}
	return h.portion().Rows(h.Report)
}

// table has the rows. They replace old rows with the same names.
func (h *hostile) table(old [][]string) string {
	t := &report.Table{Head: h.head, Rows: old}
	for _, r := range h.rows {
		same := func(o []string) bool { return o[0] == r.cells[0] }
		if i := slices.IndexFunc(t.Rows, same); i >= 0 {
			t.Rows[i] = r.cells
		} else {
			t.Row(r.cells...)
		}
	}
	return fmt.Sprintf("%s %s\n\n%s", report.Measured(h.began), h.caption(len(t.Rows)), strings.TrimSuffix(t.String(), "\n"))
}

// caption gives the time of the run, and the number of a table's rows that it has
// measured.
func (h *hostile) caption(rows int) string {
	took, load := report.Seconds(time.Since(h.began).Seconds()), report.Number(h.load, 1)
	measured := 0
	for _, r := range h.rows {
		if !r.earlier {
			measured++
		}
	}
	if measured == rows {
		return fmt.Sprintf("The run took %s; the load average before was %s.", took, load)
	}
	return fmt.Sprintf("%d of the %d rows are of the last run, which took %s after a load average of %s; the others are of runs before.", measured, rows, took, load)
}
