package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/scripts/report"
)

// The campaign programs attaches to foreign programs.
const programsPortion report.Portion = "scripts/field, programs"

// target is a measured program.
type target struct {
	name    string
	quick   bool // measured in CI
	measure func(ctx context.Context, f *field, name string) (row, error)
	server  *server // that it measures; nil: another kind of program
}

func runPrograms(ctx context.Context, f *field) error {
	began, load := time.Now(), report.LoadAverage()
	var rows []row
	var failed error
	for _, t := range targets() {
		if !f.Wants(t.name) || f.Quick && !t.quick {
			continue
		}
		r, err := t.measure(ctx, f, t.name)
		if err != nil {
			f.Say("%s: %v", t.name, err)
			failed = errors.Join(failed, fmt.Errorf("%s: %w", t.name, err))
			continue
		}
		f.Say("%s: %s", t.name, strings.Join(r.cells(), " | "))
		rows = append(rows, r)
	}
	if f.Quick {
		return errors.Join(failed, grossMisses(rows))
	}
	var others [][]string
	if f.Only != "" && f.Report != "" {
		var err error
		if others, err = programsPortion.Rows(f.Report); err != nil {
			return errors.Join(failed, err)
		}
	}
	return errors.Join(failed, f.Write(programsPortion, programsTable(rows, others, began, load)))
}

// grossMisses returns an error for each row that chance cannot explain.
func grossMisses(rows []row) error {
	var all error
	for _, r := range rows {
		for _, miss := range r.missesGrossly() {
			all = errors.Join(all, fmt.Errorf("%s: %s", r.name, miss))
		}
	}
	return all
}

// programsTable has the rows, in place of the old ones of the same programs.
func programsTable(rows []row, old [][]string, began time.Time, load float64) string {
	t := &report.Table{Head: rowHead, Rows: old}
	for _, r := range rows {
		cells := r.cells()
		same := func(o []string) bool { return o[0] == cells[0] }
		if i := slices.IndexFunc(t.Rows, same); i >= 0 {
			t.Rows[i] = cells
		} else {
			t.Row(cells...)
		}
	}
	return fmt.Sprintf("%s The last run took %s; the load average before was %s.\n\n%s", report.Measured(began),
		report.Seconds(time.Since(began).Seconds()), report.Number(load, 1), strings.TrimSuffix(t.String(), "\n"))
}
