package main

import (
	"cmp"
	"io"
	"slices"
	"strings"

	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/sampler/engine"
)

// printReport prints the checks, the engines, and the choice. Without a choice it returns the
// reason.
func printReport(w io.Writer, r engine.Report, wide bool) error {
	p := terminal.NewPrinter(w, wide)
	for _, c := range r.Checks {
		p.Line("%s %s: %s", mark(c.OK), c.Name, c.Found)
		if !c.OK {
			p.Line("     wanted: %s", c.Wanted)
			printCure(p, c.Cure)
		}
	}
	for _, d := range r.Engines {
		p.Line("%s engine %s: %s", mark(d.Permitted), d.Engine, summary(d))
		if d.Note != "" {
			p.Line("     note: %s", d.Note)
		}
		printCure(p, d.Cure)
	}
	switch {
	case r.Auto == "":
	case isOfURL(r):
		p.Line("'ccmapd attach URL' can follow the program.")
	default:
		p.Line("'--engine auto' takes %s.", r.Auto)
	}
	if err := p.Err(); err != nil {
		return err
	}
	return failureOf(r)
}

// isOfURL reports whether a report is about an address, not about a process.
func isOfURL(r engine.Report) bool {
	return slices.ContainsFunc(r.Checks, func(c engine.Check) bool { return c.Name == checkEndpoint })
}

func printCure(p *terminal.Printer, cure string) {
	if cure != "" {
		p.Line("     cure: %s", cure)
	}
}

func mark(ok bool) string {
	if ok {
		return "ok  "
	}
	return "no  "
}

// summary says in one line why an engine cannot sample, or how well it can.
func summary(d engine.Diagnosis) string {
	if !d.Permitted {
		return d.Reason
	}
	took := "permitted, and took " + cmp.Or(d.Found, figure.Plural(int64(d.Samples), "sample"))
	if len(d.Features) == 0 {
		return took
	}
	return took + ", with " + strings.Join(d.Features, ", ")
}
