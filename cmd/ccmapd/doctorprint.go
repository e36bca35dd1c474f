package main

import (
	"cmp"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/ccmapd/ccmapd/internal/advice"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/sampler/engine"
)

// printReport prints the checks, the engines, and the choice. Without a choice it returns the
// reason.
func printReport(w io.Writer, r engine.Report, wide bool) error {
	p := terminal.NewPrinter(w, wide)
	for _, c := range r.Checks {
		printFolded(p, mark(c.OK)+" "+c.Name+": "+c.Found)
		if !c.OK {
			printFolded(p, indent+"wanted: "+c.Wanted)
			printCure(p, c.Cure)
		}
	}
	for _, d := range r.Engines {
		printFolded(p, mark(d.Permitted)+" engine "+d.Engine+": "+summary(d))
		if d.Note != "" {
			printFolded(p, indent+"note: "+d.Note)
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
	return briefly(failureOf(r))
}

// briefly returns the error of a report that was printed, without the reasons of several engines, which it has.
func briefly(err error) error {
	coded := advice.Coded(err)
	if coded == nil || !strings.Contains(err.Error(), "\n") {
		return err
	}
	return &advice.Error{Code: coded.Code, Err: errNoEngine}
}

// errNoEngine ends a report on several engines.
var errNoEngine = errors.New("no engine can sample it, for the reasons above")

// isOfURL reports whether a report is about an address, not about a process.
func isOfURL(r engine.Report) bool {
	return slices.ContainsFunc(r.Checks, func(c engine.Check) bool { return c.Name == checkEndpoint })
}

const (
	mostColumns = 120
	indent      = "     " // as wide as a mark
)

// printFolded prints a text in lines of at most mostColumns, as far as it has spaces. Commands are not folded: they are
// to be copied.
func printFolded(p *terminal.Printer, text string) {
	for len(text) > mostColumns {
		at := strings.LastIndexByte(text[:mostColumns+1], ' ')
		if at <= len(indent) {
			break
		}
		p.Line("%s", text[:at])
		text = indent + text[at+1:]
	}
	p.Line("%s", text)
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

// withoutProcess leaves out the words that name the process, which is the same for all engines.
func withoutProcess(reason string) string {
	if number, rest, found := strings.Cut(reason, ": "); found && strings.HasPrefix(number, "attach to process ") {
		return rest
	}
	return reason
}

// summary says in one line why an engine cannot sample, or how well it can.
func summary(d engine.Diagnosis) string {
	if !d.Permitted {
		return terminal.Reason(withoutProcess(d.Reason))
	}
	took := "permitted, and took " + cmp.Or(d.Found, figure.Plural(int64(d.Samples), "sample"))
	if len(d.Features) == 0 {
		return took
	}
	return took + ", with " + strings.Join(d.Features, ", ")
}
