package session

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/output"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/store"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/internal/view"
	"github.com/ccmapd/ccmapd/manager"
	"github.com/ccmapd/ccmapd/sampler"
)

// reportMethods is how many methods a report lists.
const reportMethods = 10

// Report prints how a session went to w, which is standard error where standard
// output belongs to the program. Of a session that an error has ended at its
// start there is nothing to report.
func (s *Session) Report(w io.Writer, r manager.Report) error {
	switch {
	case s.config.Quiet, r.Ending.Reason == "" && r.Snapshot.Total().IsZero():
		return nil
	case s.config.JSON:
		return terminal.WriteJSON(w, s.newReportJSON(r))
	}
	p := Profile(r)
	if warning := p.TakeCaution(); warning != "" {
		fmt.Fprintln(w, warning)
	}
	if r.Ending.Reason != "" {
		fmt.Fprintf(w, "%s.\n", capital(terminal.Reason(r.Ending.Reason)))
	}
	if o := r.Source.Overhead; o.Of > 0 {
		fmt.Fprintf(w, "%s.\n", capital(o.String()))
	}
	if host := r.Source.Overhead.OfHost(); host != "" && s.config.Verbose {
		fmt.Fprintf(w, "%s.\n", capital(host))
	}
	s.reportSettling(w, r)
	heaviest := s.heaviest(p)
	if s.config.Children != nil {
		s.config.Children.Text(w)
		fmt.Fprintln(w)
	}
	if err := hottest(heaviest, reportMethods).Text(w, view.TextOptions{}); err != nil {
		return err
	}
	if p.Total().IsZero() {
		fmt.Fprintln(w, unused(p.Meta().Unit))
	}
	for _, sentence := range s.next(p, r) {
		fmt.Fprintln(w, sentence)
	}
	reportTroubles(w, r.Source.Counts)
	reportRecalled(w, r.Source.Counts)
	reportPruning(w, p, r.Written)
	s.reportValues(w, r)
	printNext(w, headed(r.Written, heaviest.Path))
	return nil
}

// headed returns files with one of them in front.
func headed(files []string, first string) []string {
	if !slices.Contains(files, first) {
		return files
	}
	rest := slices.DeleteFunc(slices.Clone(files), func(f string) bool { return f == first })
	return append([]string{first}, rest...)
}

// heaviest returns the profile whose methods a report lists: the target's, unless one of its children's programs has
// used more CPU time.
func (s *Session) heaviest(own *view.Profile) *view.Profile {
	if s.config.Children == nil {
		return own
	}
	file, heaviest := s.config.Children.Heaviest()
	if heaviest == nil {
		return own
	}
	return view.New(file, heaviest)
}

// Warn prints the warnings of a report in JSON to w, for those who read no JSON. Other reports begin with them.
func (s *Session) Warn(w io.Writer, r manager.Report) {
	if s.config.Quiet || !s.config.JSON || r.Snapshot == nil {
		return
	}
	p := Profile(r)
	if caution := p.TakeCaution(); caution != "" {
		fmt.Fprintln(w, caution)
	}
	for _, warning := range p.Warnings() {
		fmt.Fprintf(w, "%s%s\n", ccmap.CommentWarning, warning)
	}
}

// unused says why a profile is empty.
func unused(u ccmap.Unit) string {
	if u == ccmap.CPUTime {
		return "The program used less CPU time than one interval while it was watched."
	}
	return fmt.Sprintf("The program had no %s while it was watched.", view.UnitName(u))
}

// capital returns a reason, which begins with an ASCII letter, as a sentence does.
func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// Profile makes a profile of the samples of a session, as if it were read from the first
// file that was written.
func Profile(r manager.Report) *view.Profile {
	file := "not written"
	if len(r.Written) > 0 {
		file = r.Written[0]
	}
	return view.New(file, r.Snapshot)
}

// hottest returns so many methods, those with the most time of their own first.
func hottest(p *view.Profile, n uint) *view.Top {
	top, _ := view.NewTop(p, view.List{Order: view.ByFlat, Limit: n}) // fails by other orders only
	return top
}

// printNext names the files, and what to do with the first of them.
func printNext(w io.Writer, files []string) {
	if len(files) == 0 {
		return
	}
	list := terminal.Printable(strings.Join(files, ", "))
	if files = named(files); len(files) == 0 {
		fmt.Fprintf(w, "\nWritten: %s.\n", list)
		return
	}
	file := terminal.ShellQuote(files[0])
	fmt.Fprintf(w, "\nWritten: %s. Next:\n", list)
	type step struct{ command, what string }
	steps := []step{
		{"ccmapd top " + file, "all methods"},
		{"ccmapd contexts " + file + " METHOD", "who calls METHOD, and from where"},
		{"ccmapd sites " + file, "call sites and the mix of their receivers"},
	}
	if i := slices.IndexFunc(files, func(f string) bool { return formatOf(f) == export.Pprof }); i >= 0 {
		steps = append(steps, step{"go tool pprof -http=: " + terminal.ShellQuote(files[i]), "flame graph and source"})
	}
	for _, s := range steps {
		fmt.Fprintf(w, "  %-*s  %s\n", len(file)+len("ccmapd contexts  METHOD"), s.command, s.what)
	}
}

// StoreName begins the name of an output that is a store, and no profile of it.
const StoreName = "the store in "

// named returns the outputs that can be read again: no streams.
func named(files []string) []string {
	return slices.DeleteFunc(slices.Clone(files), func(f string) bool {
		return f == output.Stdout || strings.HasPrefix(f, StoreName) || export.IsStream(f)
	})
}

// formatOf returns the format that the name of a file gives, 0 if it gives none. Stored profiles have one.
func formatOf(file string) export.Format {
	if store.IsReference(file) {
		return export.JSON
	}
	f, _, _ := export.FormatOf(file)
	return f
}

// ReportJSON is the report as JSON.
type ReportJSON struct {
	Profile  any           `json:"profile"` // see its row; its file is the first that was written
	Until    *untilJSON    `json:"until,omitempty"`
	Drift    bool          `json:"drift"` // the program did something else in the end than before
	Written  []string      `json:"written"`
	Source   sourceJSON    `json:"source"` // see its row
	Values   valuesJSON    `json:"values"`
	Loss     lossJSON      `json:"loss"`
	Overhead *overheadJSON `json:"overhead,omitempty"`      // where it is known
	CPU      int64         `json:"ccmapd_cpu_ns,omitempty"` // that ccmapd used; unknown where the program is part of it
	Methods  any           `json:"methods"`                 // the hottest, as in top
	Children any           `json:"children,omitempty"`      // see its row
	Next     []string      `json:"next,omitempty"`          // sentences: what to do about a profile that has not settled, and to see labels
}

// lossJSON has the fields of ccmap.Loss. Without clock_ns the time that is
// unaccounted for is not known.
type lossJSON struct {
	Source    uint64 `json:"source"`
	Queue     uint64 `json:"queue"`
	Throttled uint64 `json:"throttled"`
	Corrupt   uint64 `json:"corrupt"`
	Orphaned  uint64 `json:"orphaned"`

	Clock       time.Duration `json:"clock_ns,omitempty"`
	ClockTick   time.Duration `json:"clock_tick_ns,omitempty"`
	Unaccounted time.Duration `json:"unaccounted_ns,omitempty"`
}

// overheadJSON has the fields of sampler.Overhead.
type overheadJSON struct {
	Percent    float64       `json:"percent"` // of the program's CPU time, without interrupts_ns
	Samples    time.Duration `json:"samples_ns"`
	Interrupts time.Duration `json:"interrupts_ns"` // of busy CPUs that took no sample: other programs pay
	Switches   time.Duration `json:"switches_ns"`
	Watches    time.Duration `json:"watches_ns"`
	Verdicts   time.Duration `json:"verdicts_ns"`
	Calls      time.Duration `json:"calls_ns"`
	Recorder   time.Duration `json:"recorder_ns,omitempty"` // threads of a JVM that write a recording
	Of         time.Duration `json:"of_ns"`
	Sampled    float64       `json:"sampled_percent,omitempty"` // of the time, in windows
	Host       float64       `json:"host_percent,omitempty"`    // of each CPU, with engine bpf
	Raised     uint64        `json:"raised,omitempty"`          // intervals made longer to bound that
}

// newOverheadJSON returns nil if the overhead is not known.
func newOverheadJSON(o sampler.Overhead) *overheadJSON {
	if o.Of <= 0 {
		return nil
	}
	return &overheadJSON{o.Percent(o.Total()), o.Samples, o.Interrupts, o.Switches, o.Watches, o.Verdicts, o.Calls, o.Recorder, o.Of, 100 * o.Sampled, 100 * o.Host, o.Raised}
}

func (s *Session) newReportJSON(r manager.Report) ReportJSON {
	p := Profile(r)
	out := ReportJSON{
		Profile:  p.JSON(),
		Until:    newUntilJSON(s.config.Until, r.Reached),
		Drift:    r.Drift,
		Written:  append([]string{}, r.Written...),
		Source:   sourceJSON{s.Info(), r.Source},
		Values:   valuesJSON(r.Values),
		Loss:     lossJSON(p.Meta().Loss),
		Overhead: newOverheadJSON(r.Source.Overhead),
		CPU:      int64(r.CPU),
		Methods:  hottest(p, reportMethods).MethodsJSON(),
		Next:     s.next(p, r),
	}
	if s.config.Children != nil {
		out.Children = s.config.Children.JSON()
	}
	return out
}
