package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/output"
	"github.com/ccmapd/ccmapd/cmd/internal/usage"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/feedback/gopgo"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/gosym"
	"github.com/ccmapd/ccmapd/internal/privilege"
	"github.com/ccmapd/ccmapd/internal/terminal"
)

const pgoCheckLong = `Check says how much of a profile for 'go build -pgo' still fits a newer program: PROGRAM
is a binary, or a directory with the source of a module or of its main package. Nothing of
it is run. The compiler finds a call by the names of caller and callee, and by its line in
the caller. Each call of the profile has one of these classes:

  same body   the caller's machine code is the same (binaries, profiles with bodies)
  on its line the caller has changed, or its code is not known; the call is on its line
  indirect    a call is on the line whose callee the program does not tell
  moved       the caller does the call on another line
  renamed     the caller or the callee has another name and the same machine code
  gone        the caller does not do the call any more, or is gone
  not told    packages that are not there, and in a source what the compiler adds; not counted

The first three fit. --heal FILE writes the profile with moved calls on their new lines and
renamed ones by their names. --min 80% exits with 1 if less of the hot weight fits.`

const pgoCheckExample = `  ccmapd pgo check default.pgo ./web
  ccmapd pgo check cmd/web/default.pgo . --min 80% --format github
  ccmapd pgo check @best:web ./web --heal default.pgo`

// pgoCheckFlags are the flags of pgo check.
type pgoCheckFlags struct {
	recency
	format usage.Choice
	min    string
	least  float64 // percent, of min
	heal   string  // a file; "": none
	asJSON bool
}

func newPGOCheckCmd(env *environment) subcommand {
	f := pgoCheckFlags{format: usage.Choice{Value: "text", From: []string{"text", "github"}}}
	cmd := &cobra.Command{
		Use:     "check PROFILE PROGRAM",
		Short:   "Say how much of a profile still fits a program",
		Long:    pgoCheckLong,
		Example: pgoCheckExample,
		Args:    argCount(2, 2, "a profile and a binary or directory"),
		PreRunE: func(*cobra.Command, []string) error { return f.check() },
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), env, args[0], args[1])
		},
	}
	f.recency.register(cmd)
	f.format.Register(cmd, "format", "print as `WHAT`: "+terminal.OrList(f.format.From)+", annotations of a GitHub Action")
	flags := cmd.Flags()
	flags.StringVar(&f.min, "min", "", "exit with 1 if less than `PERCENT` of the hot weight fits")
	flags.StringVar(&f.heal, "heal", "", "write the profile with calls where they are now to `FILE`, named *.pgo")
	flags.BoolVar(&f.asJSON, "json", false, "print JSON, which has every call that does not fit")
	return subcommand{cmd, func(env *environment, _ *cobra.Command, _ []string) error {
		return errors.Join(env.process.Keep(privilege.Files), env.process.NoNewPrivileges())
	}}
}

func (f *pgoCheckFlags) check() error {
	if f.min != "" {
		var err error
		f.least, err = strconv.ParseFloat(strings.TrimSuffix(f.min, "%"), 64)
		if err != nil || !(f.least >= 0 && f.least <= 100) {
			return usage.Errorf("--min %s is not from 0 to 100 percent", f.min)
		}
	}
	switch {
	case f.heal != "" && !export.IsPGO(f.heal):
		return usage.Errorf("--heal %s: name it *.pgo, as default.pgo", f.heal)
	case f.asJSON && f.format.Value != "text":
		return usage.Errorf("--json and --format github exclude each other")
	}
	return nil
}

// pgoChecked is the JSON of pgo check.
type pgoChecked struct {
	Profile   string          `json:"profile"`
	Program   string          `json:"program"`
	GoOld     string          `json:"go_of_profile,omitempty"`
	GoNew     string          `json:"go_of_program,omitempty"`
	Unit      string          `json:"unit"` // of weights: samples, or nanoseconds of a minimal profile
	Calls     int             `json:"calls"`
	Hot       int             `json:"hot"`
	FitsHot   float64         `json:"fits_hot_percent"`
	Fits      float64         `json:"fits_percent"`
	Classes   []pgoClass      `json:"classes"`
	Healed    string          `json:"healed,omitempty"` // the file
	Unfitting []pgoUnfitting  `json:"unfitting"`        // the heaviest first
	checked   []gopgo.Checked // all
}

// pgoClass is what a class has.
type pgoClass struct {
	Class     gopgo.Class `json:"class"`
	Calls     int         `json:"calls"`
	HotWeight int64       `json:"hot_weight"`
	Weight    int64       `json:"weight"`
	HotShare  float64     `json:"hot_percent"` // of all classes that are told; of unread: of everything
	Share     float64     `json:"percent"`
}

// pgoUnfitting is a call that does not fit.
type pgoUnfitting struct {
	Class     gopgo.Class `json:"class"`
	Hot       bool        `json:"hot"`
	Weight    int64       `json:"weight"`
	Caller    string      `json:"caller"`
	Callee    string      `json:"callee"`
	Line      int         `json:"line"` // of the call, from the caller's first
	File      string      `json:"file,omitempty"`
	NowLine   *int        `json:"now_line,omitempty"`
	NowCaller string      `json:"now_caller,omitempty"`
	NowCallee string      `json:"now_callee,omitempty"`
	Why       string      `json:"why,omitempty"`
}

func (f *pgoCheckFlags) run(ctx context.Context, env *environment, profile, program string) error {
	p, err := f.load(env, profile)
	if err != nil {
		return err
	}
	calls, err := gopgo.CallsOf(p.Snapshot)
	if err != nil {
		return explainPGO(fmt.Errorf("check %s: %w", profile, err))
	}
	info, err := os.Stat(program)
	if err != nil {
		return fmt.Errorf("check %s: %w", profile, err)
	}
	read := gopgo.Binary
	if info.IsDir() {
		read = gopgo.Source
	}
	now, err := read(ctx, program, calls.Edges)
	if err != nil {
		return explainPGOProgram(fmt.Errorf("check %s: %w", profile, err))
	}
	result := tallyPGO(calls, gopgo.Check(calls, now))
	result.Profile, result.Program, result.GoOld, result.GoNew = profile, program, p.Meta().Target.Runtime, now.Go
	if f.heal != "" {
		result.Healed = f.heal
		if _, err := writeEdges(f.heal, calls.Heal(result.checked, p.Meta())); err != nil {
			return output.Explain(err)
		}
	}
	if err := f.print(env, result); err != nil {
		return err
	}
	if f.min != "" && result.FitsHot < f.least {
		return withHint(fmt.Errorf("%s of the hot weight fits %s, less than --min %v%%", figure.Percent(result.FitsHot), program, f.least), "%s", advicePGO(result))
	}
	return nil
}

// unitOfCalls returns the unit of the weights of calls for people.
func unitOfCalls(calls gopgo.Calls) string {
	if calls.Ranks {
		return "nanoseconds"
	}
	return "samples"
}

// tallyPGO adds up what became of calls.
func tallyPGO(calls gopgo.Calls, checked []gopgo.Checked) pgoChecked {
	hot, all := gopgo.TallyOf(checked, true), gopgo.TallyOf(checked, false)
	r := pgoChecked{
		Unit: unitOfCalls(calls), Calls: len(checked), Hot: calls.Hot, checked: checked, Unfitting: []pgoUnfitting{},
		FitsHot: figure.Share(hot.Fits(), hot.Total), Fits: figure.Share(all.Fits(), all.Total),
	}
	for _, class := range gopgo.Classes() {
		c := pgoClass{Class: class, HotWeight: hot.Of[class], Weight: all.Of[class]}
		ofHot, ofAll := hot.Total, all.Total
		if class == gopgo.Unread {
			ofHot, ofAll = ofHot+c.HotWeight, ofAll+c.Weight
		}
		c.HotShare, c.Share = figure.Share(c.HotWeight, ofHot), figure.Share(c.Weight, ofAll)
		for _, one := range checked {
			if one.Class == class {
				c.Calls++
			}
		}
		r.Classes = append(r.Classes, c)
	}
	for _, c := range checked {
		if !c.Class.Fits() && c.Class != gopgo.Unread {
			r.Unfitting = append(r.Unfitting, unfittingPGO(c))
		}
	}
	slices.SortStableFunc(r.Unfitting, func(a, b pgoUnfitting) int { return cmp.Compare(b.Weight, a.Weight) })
	return r
}

func unfittingPGO(c gopgo.Checked) pgoUnfitting {
	u := pgoUnfitting{
		Class: c.Class, Hot: c.Hot, Weight: c.Share, Caller: c.Caller.Name, Callee: c.Callee.Name,
		Line: int(int32(c.Offset)), File: c.Caller.File, Why: c.Why,
	}
	if c.Now.Offset != c.Offset {
		now := int(int32(c.Now.Offset))
		u.NowLine = &now
	}
	if c.Now.Caller != c.Caller {
		u.NowCaller = c.Now.Caller.Name
	}
	if c.Now.Callee != c.Callee {
		u.NowCallee = c.Now.Callee.Name
	}
	return u
}

// sharePGO returns the percentage of the hot weight in a class.
func (r pgoChecked) sharePGO(class gopgo.Class) float64 {
	for _, c := range r.Classes {
		if c.Class == class {
			return c.HotShare
		}
	}
	return 0
}

// Limits of the advice, percent of the hot weight.
const (
	fresh     = 95
	worthHeal = 1
)

// advicePGO says what to do.
func advicePGO(r pgoChecked) string {
	healable := r.sharePGO(gopgo.Moved) + r.sharePGO(gopgo.Renamed)
	switch {
	case r.FitsHot >= fresh:
		return "Keep it."
	case r.Healed == "" && healable >= worthHeal && healable > r.sharePGO(gopgo.Gone):
		return "--heal FILE finds calls that moved; a new profile is better."
	}
	return "Take a new profile of this program."
}

// sentencePGO is the answer in one sentence.
func sentencePGO(r pgoChecked) string {
	text := fmt.Sprintf("%s of the hot weight still fits", figure.Percent(r.FitsHot))
	for _, c := range []struct {
		class gopgo.Class
		word  string
	}{{gopgo.Moved, "moved"}, {gopgo.Renamed, "has another name"}, {gopgo.Gone, "is gone"}} {
		if share := r.sharePGO(c.class); share > 0 {
			text += fmt.Sprintf(", %s %s", figure.Percent(share), c.word)
		}
	}
	return text + "."
}

func (f *pgoCheckFlags) print(env *environment, r pgoChecked) error {
	switch {
	case f.asJSON:
		return terminal.WriteJSON(env.stdout, r)
	case f.format.Value == "github":
		return f.printGitHub(env, r)
	}
	out := terminal.NewPrinter(env.stdout, false)
	out.Line("%s %s", sentencePGO(r), advicePGO(r))
	if r.GoOld != "" && r.GoNew != "" && r.GoOld != r.GoNew {
		out.Line("Built with %s; the profile is of %s: code can differ by the compiler alone.", terminal.Printable(r.GoNew), terminal.Printable(r.GoOld))
	}
	out.Table("", classesTable(r))
	const most = 10
	if n := len(r.Unfitting); n > 0 {
		out.Table(fmt.Sprintf("The heaviest of %s that do not fit:", figure.Plural(int64(n), "call")), unfittingTable(r.Unfitting[:min(n, most)]))
	}
	if r.Healed != "" {
		out.Line("%s: the profile with calls where they are now.", terminal.Printable(r.Healed))
	}
	return out.Err()
}

// wordsOfClass are the classes for people.
var wordsOfClass = map[gopgo.Class]string{
	gopgo.SameBody: "same body", gopgo.OnLine: "on its line", gopgo.Indirect: "indirect", gopgo.Moved: "moved",
	gopgo.Renamed: "renamed", gopgo.Gone: "gone", gopgo.Unread: "not told",
}

func classesTable(r pgoChecked) *terminal.Table {
	t := &terminal.Table{Columns: []terminal.Column{{Title: "class"}, {Title: "hot weight", Right: true}, {Title: "all", Right: true}, {Title: "calls", Right: true}}}
	for _, c := range r.Classes {
		if c.Calls > 0 {
			t.Add(wordsOfClass[c.Class], figure.Percent(c.HotShare), figure.Percent(c.Share), figure.Count(int64(c.Calls)))
		}
	}
	return t
}

func unfittingTable(list []pgoUnfitting) *terminal.Table {
	t := &terminal.Table{Columns: []terminal.Column{
		{Title: "weight", Right: true}, {Title: "call", Shorten: terminal.ShortenMiddle, Least: 30}, {Title: "what became of it"},
	}}
	for _, u := range list {
		t.Add(figure.Count(u.Weight), fmt.Sprintf("%s:%d → %s", u.Caller, u.Line, u.Callee), u.fate())
	}
	return t
}

// fate says what became of a call.
func (u pgoUnfitting) fate() string {
	switch {
	case u.NowLine != nil && u.Class == gopgo.Moved:
		return fmt.Sprintf("moved by %s", figure.Plural(int64(*u.NowLine-u.Line), "line"))
	case u.NowCaller != "":
		return "the caller is " + u.NowCaller
	case u.NowCallee != "":
		return "the callee is " + u.NowCallee
	case u.Why != "":
		return wordsOfClass[u.Class] + ": " + u.Why
	}
	return wordsOfClass[u.Class]
}

// printGitHub prints workflow commands (docs.github.com, "Workflow commands for GitHub Actions"). GitHub shows ten
// annotations of a step.
func (f *pgoCheckFlags) printGitHub(env *environment, r pgoChecked) error {
	out := terminal.NewPrinter(env.stdout, false)
	level := "notice"
	if f.min != "" && r.FitsHot < f.least {
		level = "error"
	}
	out.Line("::%s title=ccmapd pgo check::%s", level, githubText(sentencePGO(r)+" "+advicePGO(r)))
	const most = 9
	shown := 0
	for _, u := range r.Unfitting {
		if !u.Hot || shown == most {
			continue
		}
		shown++
		where := ""
		if file := fileHere(u.File); file != "" {
			where = "file=" + githubProperty(file) + ","
		}
		out.Line("::warning %stitle=stale call of the profile::%s", where,
			githubText(fmt.Sprintf("%s, line %+d → %s: %s", u.Caller, u.Line, u.Callee, u.fate())))
	}
	return out.Err()
}

// fileHere returns the path of a file of the profile below the working directory, "" if it is not there.
func fileHere(file string) string {
	dir, err := os.Getwd()
	if err != nil || file == "" {
		return ""
	}
	if rel, err := filepath.Rel(dir, file); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	for rest := file; rest != ""; { // built elsewhere, or with -trimpath
		if _, err := os.Stat(rest); err == nil && filepath.IsLocal(rest) {
			return rest
		}
		_, rest, _ = strings.Cut(rest, "/")
	}
	return ""
}

// githubText escapes a message, githubProperty a property.
func githubText(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(terminal.Printable(s))
}

func githubProperty(s string) string {
	return strings.NewReplacer(":", "%3A", ",", "%2C").Replace(githubText(s))
}

// explainPGOProgram adds advice to an error about a program.
func explainPGOProgram(err error) error {
	switch {
	case errors.Is(err, gopgo.ErrOtherProgram):
		return withHint(err, "Name the program that was sampled, or its main package's directory.")
	case errors.Is(err, gopgo.ErrNoModule):
		return withHint(err, "Name a directory of a Go module, or a binary.")
	case errors.Is(err, gopgo.ErrNoLines):
		return withHint(err, "Go 1.20 and later write them.")
	case errors.Is(err, gosym.ErrNotGo):
		return withHint(err, "Name a Go program for Linux on amd64. Without symbols (-s -w) it will do, without its table of functions it will not.")
	case errors.Is(err, gosym.ErrUnsupported):
		return withHint(err, "Go 1.20 to 1.27 on amd64 are known. Name its source.")
	case errors.Is(err, gosym.ErrTooMuch):
		return withHint(err, "Name its source.")
	}
	return err
}
