package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/cmd/internal/usage"
	"github.com/ccmapd/ccmapd/internal/feedback/gopgo"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/privilege"
	"github.com/ccmapd/ccmapd/internal/terminal"
)

const pgoReportLong = `Report says what the compiler did with a profile. OLD and NEW are binaries of one program,
built without and with it, or with an older and a newer one. Nothing of them is run. A
hot call of the profile, or one through an interface or a function value, was:

  taken         NEW inlines it, or calls by name what OLD calls indirectly
  not needed    OLD inlines it, too
  refused       it is a call as before, and the reason is said
  undone        OLD inlines it, or calls by name, what NEW does not
  no such call  NEW has none on its line: 'ccmapd pgo check' says where it is

--diagnostics FILE has what the compiler printed of NEW, which has most reasons:

  go build -pgo default.pgo -gcflags=all='-d=pgodebug=3 -m=2' -o NEW ./cmd/web 2>FILE

What it costs is below: bytes of the binary and of its code, and the stack that the
samples of a profile, which is not minimal, take in both builds.`

const pgoReportExample = `  ccmapd pgo report web.pb.gz ./web-old ./web-new
  ccmapd pgo report cmd/web/default.pgo ./web-old ./web-new --diagnostics build.txt
  ccmapd pgo report @best:web ./web-old ./web-new --build-times 41s,58s --json`

// pgoReportFlags are the flags of pgo report.
type pgoReportFlags struct {
	recency
	diagnostics string // a file; "": none
	times       []time.Duration
	asJSON      bool
}

func newPGOReportCmd(env *environment) subcommand {
	var f pgoReportFlags
	cmd := &cobra.Command{
		Use:     "report PROFILE OLD NEW",
		Short:   "Say what the compiler did with a profile, and why not more",
		Long:    pgoReportLong,
		Example: pgoReportExample,
		Args:    argCount(3, 3, "a profile and two binaries"),
		PreRunE: func(*cobra.Command, []string) error {
			if n := len(f.times); n != 0 && n != 2 {
				return usage.Errorf("--build-times wants two times, and got %d", n)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), env, args[0], args[1:])
		},
	}
	f.recency.register(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.diagnostics, "diagnostics", "", "`FILE` with what the compiler printed of NEW: it has the reasons")
	flags.DurationSliceVar(&f.times, "build-times", nil, "how long both builds took, as `OLD,NEW`, for the table")
	flags.BoolVar(&f.asJSON, "json", false, "print JSON, which has every call")
	return subcommand{cmd, func(env *environment, _ *cobra.Command, _ []string) error {
		return errors.Join(env.process.Keep(privilege.Files), env.process.NoNewPrivileges())
	}}
}

// pgoReported is the JSON of pgo report.
type pgoReported struct {
	Profile  string        `json:"profile"`
	Old      string        `json:"old"`
	New      string        `json:"new"`
	GoOld    string        `json:"go_old,omitempty"`
	GoNew    string        `json:"go_new,omitempty"`
	Unit     string        `json:"unit"` // of weights, as in pgo check
	Hot      int           `json:"hot"`  // calls
	Told     bool          `json:"told"` // there are words of the compiler
	Outcomes []pgoOutcome  `json:"outcomes"`
	Reasons  []pgoReason   `json:"reasons"` // the heaviest first
	Costs    []pgoCost     `json:"costs"`
	Frames   []gopgo.Frame `json:"frames"` // bytes; those that grew most first
	Calls    []pgoDecision `json:"calls"`  // the heaviest first
}

// pgoOutcome is what an outcome has.
type pgoOutcome struct {
	Outcome       gopgo.Outcome `json:"outcome"`
	Calls         int           `json:"calls"`
	Devirtualized int           `json:"devirtualized"` // of them
	HotWeight     int64         `json:"hot_weight"`
	HotShare      float64       `json:"hot_percent"`
}

// pgoReason is a reason, and what it has kept from the compiler.
type pgoReason struct {
	Reason    string  `json:"reason"`
	Issue     string  `json:"issue,omitempty"` // of golang/go
	Calls     int     `json:"calls"`
	HotWeight int64   `json:"hot_weight"`
	HotShare  float64 `json:"hot_percent"`
}

// pgoCost is a figure of both builds.
type pgoCost struct {
	Name string `json:"name"`
	Unit string `json:"unit"` // bytes or nanoseconds
	gopgo.Grown
}

// pgoDecision is what became of one call.
type pgoDecision struct {
	Outcome gopgo.Outcome `json:"outcome"`
	Hot     bool          `json:"hot"`
	Weight  int64         `json:"weight"`
	Caller  string        `json:"caller"`
	Callee  string        `json:"callee"`
	Line    int           `json:"line"` // of the call, from the caller's first
	Old     gopgo.Way     `json:"old"`  // inlined, direct, indirect or absent
	New     gopgo.Way     `json:"new"`
	Reason  string        `json:"reason,omitempty"`
	Issue   string        `json:"issue,omitempty"`
	Words   string        `json:"words,omitempty"` // of the compiler
}

func (f *pgoReportFlags) run(ctx context.Context, env *environment, profile string, programs []string) error {
	p, err := f.load(env, profile)
	if err != nil {
		return err
	}
	calls, err := gopgo.CallsOf(p.Snapshot)
	if err != nil {
		return explainPGO(fmt.Errorf("report on %s: %w", profile, err))
	}
	var builds [2]*gopgo.Build
	for i, path := range programs {
		if builds[i], err = gopgo.ReadBuild(ctx, path, p.Snapshot, calls.Edges); err != nil {
			return explainPGOProgram(fmt.Errorf("report on %s: %w", profile, err))
		}
	}
	said, err := f.said(calls, builds[1])
	if err != nil {
		return err
	}
	r := pgoReported{
		Profile: profile, Old: programs[0], New: programs[1], GoOld: builds[0].Go, GoNew: builds[1].Go,
		Unit: unitOfCalls(calls), Hot: calls.Hot, Told: said != nil,
		Frames: gopgo.Frames(calls, builds[0], builds[1]),
	}
	r.tally(gopgo.Report(calls, builds[0], builds[1], said))
	if r.Costs, err = costsPGO(p.Snapshot, builds, f.times); err != nil {
		return err
	}
	slices.SortStableFunc(r.Frames, func(a, b gopgo.Frame) int { return cmp.Compare(b.New-b.Old, a.New-a.Old) })
	if f.asJSON {
		return terminal.WriteJSON(env.stdout, r)
	}
	return r.print(env)
}

// said reads the compiler's words.
func (f *pgoReportFlags) said(calls gopgo.Calls, build *gopgo.Build) (*gopgo.Diagnostics, error) {
	if f.diagnostics == "" {
		return nil, nil
	}
	file, err := os.Open(f.diagnostics)
	if err != nil {
		return nil, explainRead(err)
	}
	defer file.Close()
	said, err := gopgo.ReadDiagnostics(file, calls, build)
	if errors.Is(err, gopgo.ErrNoDiagnostics) {
		err = withHint(fmt.Errorf("%s: %w", f.diagnostics, err), "Build with -pgo and -gcflags=all='-d=pgodebug=3 -m=2', and keep the standard error of 'go build'.")
	}
	return said, err
}

// tally adds up decisions.
func (r *pgoReported) tally(all []gopgo.Decision) {
	outcomes := make(map[gopgo.Outcome]*pgoOutcome)
	reasons := make(map[gopgo.Reason]*pgoReason)
	hot := int64(0)
	r.Calls, r.Reasons = []pgoDecision{}, []pgoReason{}
	for _, d := range all {
		weight := int64(0)
		if d.Hot {
			weight = d.Share
		}
		hot += weight
		o := outcomes[d.Outcome]
		if o == nil {
			o = &pgoOutcome{Outcome: d.Outcome}
			outcomes[d.Outcome] = o
		}
		o.Calls, o.HotWeight = o.Calls+1, o.HotWeight+weight
		if d.Devirtualized() {
			o.Devirtualized++
		}
		if d.Reason != (gopgo.Reason{}) {
			w := reasons[d.Reason]
			if w == nil {
				w = &pgoReason{Reason: d.Reason.Text, Issue: d.Reason.Issue}
				reasons[d.Reason] = w
			}
			w.Calls, w.HotWeight = w.Calls+1, w.HotWeight+weight
		}
		r.Calls = append(r.Calls, pgoDecision{
			d.Outcome, d.Hot, d.Share, d.Caller.Name, d.Callee.Name, int(int32(d.Offset)), d.Old, d.New, d.Reason.Text, d.Reason.Issue, d.Words,
		})
	}
	for _, name := range gopgo.Outcomes() {
		if o := outcomes[name]; o != nil {
			o.HotShare = figure.Share(o.HotWeight, hot)
			r.Outcomes = append(r.Outcomes, *o)
		}
	}
	for _, w := range reasons {
		w.HotShare = figure.Share(w.HotWeight, hot)
		r.Reasons = append(r.Reasons, *w)
	}
	slices.SortFunc(r.Reasons, func(a, b pgoReason) int {
		return cmp.Or(cmp.Compare(b.HotWeight, a.HotWeight), cmp.Compare(b.Calls, a.Calls), cmp.Compare(a.Reason, b.Reason))
	})
	slices.SortStableFunc(r.Calls, func(a, b pgoDecision) int { return cmp.Compare(b.Weight, a.Weight) })
}

// costsPGO compares what both builds take.
func costsPGO(s *ccmap.Snapshot, builds [2]*gopgo.Build, times []time.Duration) ([]pgoCost, error) {
	var files [2]int64
	for i, b := range builds {
		info, err := os.Stat(b.From)
		if err != nil {
			return nil, fmt.Errorf("read size: %w", err)
		}
		files[i] = info.Size()
	}
	costs := []pgoCost{
		{"binary", "bytes", gopgo.Grown{Old: files[0], New: files[1]}},
		{"code", "bytes", gopgo.Grown{Old: builds[0].CodeBytes, New: builds[1].CodeBytes}},
	}
	was, ok := builds[0].StackUse(s)
	if is, _ := builds[1].StackUse(s); ok {
		costs = append(costs, pgoCost{"deepest stack", "bytes", gopgo.Grown{Old: was.Deepest, New: is.Deepest}},
			pgoCost{"mean stack", "bytes", gopgo.Grown{Old: int64(was.Mean), New: int64(is.Mean)}})
	}
	if len(times) == 2 {
		costs = append(costs, pgoCost{"build", "nanoseconds", gopgo.Grown{Old: int64(times[0]), New: int64(times[1])}})
	}
	return costs, nil
}

// print prints the report for people.
func (r *pgoReported) print(env *environment) error {
	out := terminal.NewPrinter(env.stdout, false)
	out.Line("%s", r.sentence())
	if r.GoOld != r.GoNew {
		out.Line("Built with %s and with %s: builds can differ by the compiler alone.", terminal.Printable(r.GoOld), terminal.Printable(r.GoNew))
	}
	t := &terminal.Table{Columns: []terminal.Column{{Title: "outcome"}, {Title: "hot weight", Right: true}, {Title: "calls", Right: true}, {Title: "devirtualized", Right: true}}}
	for _, o := range r.Outcomes {
		t.Add(string(o.Outcome), figure.Percent(o.HotShare), figure.Count(int64(o.Calls)), figure.Count(int64(o.Devirtualized)))
	}
	out.Table("", t)
	if len(r.Reasons) > 0 {
		out.Table("Why not:", reasonsTable(r.Reasons))
	}
	const most = 10
	var left []pgoDecision
	for _, c := range r.Calls {
		if c.Reason != "" && len(left) < most {
			left = append(left, c)
		}
	}
	if len(left) > 0 {
		out.Table("The heaviest of these:", decisionsTable(left))
	}
	out.Table("", costsTable(r.Costs))
	if n := min(len(r.Frames), most); n > 0 && r.Frames[0].New > r.Frames[0].Old {
		out.Table("Frames of hot functions that grew most:", framesTable(r.Frames[:n]))
	}
	if !r.Told {
		out.Line("")
		out.Line("--diagnostics FILE tells more reasons: 'ccmapd pgo report --help' has the command.")
	}
	return out.Err()
}

// sentence is the answer in one sentence.
func (r *pgoReported) sentence() string {
	of := make(map[gopgo.Outcome]pgoOutcome)
	for _, o := range r.Outcomes {
		of[o.Outcome] = o
	}
	text := fmt.Sprintf("%s of the hot weight was taken, and %s was not needed", figure.Percent(of[gopgo.Taken].HotShare), figure.Percent(of[gopgo.NotNeeded].HotShare))
	for _, x := range []struct {
		outcome gopgo.Outcome
		words   string
	}{{gopgo.Refused, "was refused"}, {gopgo.Undone, "was undone"}, {gopgo.NoCall, "is not on its line"}} {
		if share := of[x.outcome].HotShare; share > 0 {
			text += fmt.Sprintf(", %s %s", figure.Percent(share), x.words)
		}
	}
	return text + "."
}

func reasonsTable(reasons []pgoReason) *terminal.Table {
	t := &terminal.Table{Columns: []terminal.Column{{Title: "hot weight", Right: true}, {Title: "calls", Right: true}, {Title: "reason"}, {Title: "golang/go"}}}
	for _, w := range reasons {
		t.Add(figure.Percent(w.HotShare), figure.Count(int64(w.Calls)), w.Reason, w.Issue)
	}
	return t
}

func decisionsTable(calls []pgoDecision) *terminal.Table {
	t := &terminal.Table{Columns: []terminal.Column{
		{Title: "outcome"}, {Title: "weight", Right: true}, {Title: "call", Shorten: terminal.ShortenMiddle, Least: 30},
		{Title: "the compiler says", Shorten: terminal.ShortenMiddle, Least: 20},
	}}
	for _, c := range calls {
		t.Add(string(c.Outcome), figure.Count(c.Weight), fmt.Sprintf("%s:%d → %s", c.Caller, c.Line, c.Callee), cmp.Or(c.Words, terminal.Unknown))
	}
	return t
}

func costsTable(costs []pgoCost) *terminal.Table {
	t := &terminal.Table{Columns: []terminal.Column{{Title: ""}, {Title: "old", Right: true}, {Title: "new", Right: true}, {Title: "change", Right: true}}}
	for _, c := range costs {
		print := figure.Bytes
		if c.Unit == "nanoseconds" {
			print = figure.Time
		}
		t.Add(c.Name, print(c.Old), print(c.New), changeOf(c.Grown))
	}
	return t
}

func framesTable(frames []gopgo.Frame) *terminal.Table {
	t := &terminal.Table{Columns: []terminal.Column{{Title: "old", Right: true}, {Title: "new", Right: true}, {Title: "change", Right: true}, {Title: "function", Shorten: terminal.ShortenMethod, Least: 30}}}
	for _, f := range frames {
		if f.New > f.Old {
			t.Add(figure.Bytes(f.Old), figure.Bytes(f.New), changeOf(f.Grown), f.Function)
		}
	}
	return t
}

// changeOf returns by how much something grew, in percent.
func changeOf(g gopgo.Grown) string {
	if g.Old == 0 {
		return terminal.Unknown
	}
	return fmt.Sprintf("%+.1f%%", 100*(float64(g.New)/float64(g.Old)-1))
}
