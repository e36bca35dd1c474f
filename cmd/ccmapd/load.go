package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/compare"
	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/output"
	"github.com/ccmapd/ccmapd/cmd/internal/usage"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/advice"
	"github.com/ccmapd/ccmapd/internal/safepath"
	"github.com/ccmapd/ccmapd/internal/view"
)

// stdPath, as a path, means standard input or output.
const stdPath = output.StdPath

// loadProfile reads a profile from wherever it is.
func loadProfile(env *environment, path string, o export.ReadOptions) (*view.Profile, error) {
	m, err := readMap(env, path, o)
	if err != nil {
		return nil, err
	}
	p := view.New(path, m.Snapshot())
	p.Hints = hints
	return p, nil
}

// readMap reads a map from a file, standard input, or the bytes that fetch has got.
func readMap(env *environment, where string, o export.ReadOptions) (*ccmap.Map, error) {
	m, err := env.reader.Read(context.Background(), where, env.memory.bound(o))
	if err != nil {
		return nil, explainRead(err)
	}
	env.memory.hold(m)
	return m, nil
}

// fetch gets a profile that is not a file here, within the memory for profiles. A command
// that is confined cannot connect any more.
func (env *environment) fetch(ctx context.Context, where string) error {
	env.memory.boundHeap(0)
	n, err := env.reader.Fetch(ctx, where, env.memory.left())
	env.memory.held += n
	if errors.Is(err, export.ErrMemory) {
		return withHint(err, readMemoryHint)
	}
	return err
}

// explainRead adds to an error in reading a profile what to do about it, and the
// exit code where it is not the usual one.
func explainRead(err error) error {
	switch {
	case advice.CodeOf(err) != "":
		return err
	case errors.Is(err, safepath.ErrOthers):
		return err // says who can change what
	case errors.Is(err, fs.ErrPermission):
		return &advice.Error{Code: advice.CodeNotPermitted, Hint: "Run as the owner of the file, or as root.", Err: err}
	case errors.Is(err, fs.ErrNotExist):
		return withHint(err, "Check the name. It is relative to the working directory.")
	case errors.Is(err, syscall.EISDIR):
		return withHint(err, "Name one of the profiles in it.")
	case errors.Is(err, export.ErrEmpty):
		return withHint(err, "Whatever wrote it did not finish, or had nothing to say: take the profile again.")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return withHint(err, "It was cut: copy it again, or take the profile again.")
	case errors.Is(err, export.ErrMemory):
		return withHint(err, readMemoryHint)
	case errors.Is(err, export.ErrTooDeep), errors.Is(err, export.ErrTooMany):
		return withHint(err, "No profiler writes that: take the profile again.")
	case errors.Is(err, export.ErrTooLarge):
		return withHint(err, readMemoryHint)
	case errors.Is(err, export.ErrVersion), errors.Is(err, export.ErrSampleType):
		return err // says which to take
	}
	return withHint(err, "A profile is a file that 'ccmapd attach -o' or 'go tool pprof -proto' wrote, a JFR recording, or folded stacks.")
}

// checkStdinOnce refuses a list of inputs with standard input in it twice.
func checkStdinOnce(paths []string) error {
	if i := slices.Index(paths, stdPath); i >= 0 && slices.Contains(paths[i+1:], stdPath) {
		return usage.Errorf("'-' stands twice in the list: standard input can be read once")
	}
	return nil
}

// recency says which part of a run a command reads, all of it or its window of recent
// samples, and which values of a pprof profile.
type recency struct {
	recent     bool
	sampleType string
	withStored bool
	labels     labelFlags
}

func (r *recency) register(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&r.recent, "recent", false, "read the window of recent samples, in place of the whole run")
	registerSampleType(cmd, &r.sampleType)
	cmd.Flags().Var(&r.labels, "label", "read only samples with this label, `KEY=VALUE`; repeat for several")
}

// labelFlags are the labels that all samples must have.
type labelFlags []ccmap.Label

func (f *labelFlags) String() string { return "" }
func (f *labelFlags) Type() string   { return "label" }

func (f *labelFlags) Set(s string) error {
	key, value, found := strings.Cut(s, "=")
	if !found {
		return fmt.Errorf("must be KEY=VALUE, for example route=/api")
	}
	*f = append(*f, ccmap.Label{Key: key, Value: value})
	return nil
}

// choose returns the samples of a profile that have the labels.
func (f labelFlags) choose(p *view.Profile) (*view.Profile, error) {
	if len(f) == 0 {
		return p, nil
	}
	chosen := p.WithLabels(f)
	if total := chosen.Total(); total.Samples == 0 && total.Time == 0 {
		return nil, withHint(fmt.Errorf("%s has no samples with %s", p.Path, ccmap.LabelsMethod(f).Signature), "'ccmapd top --by label FILE' lists the labels.")
	}
	return chosen, nil
}

// registerSampleType adds the flags that choose the sample type of pprof files, and the events
// of recordings.
func registerSampleType(cmd *cobra.Command, sampleType *string) {
	cmd.Flags().StringVar(sampleType, "sample-type", "", "read values of this `TYPE` from pprof files, as alloc_space; default: what 'go tool pprof' shows")
	cmd.Flags().StringVar(sampleType, "event", "", "read this `EVENT` of JFR recordings (wall, native, alloc, lock, samples) or stored profiles; default: cpu")
}

func (r recency) options() export.ReadOptions { return export.ReadOptions{SampleType: r.sampleType} }

// load reads a profile, or its window if that is asked for.
func (r recency) load(env *environment, path string) (*view.Profile, error) {
	p, err := loadProfile(env, path, r.options())
	if err == nil && r.withStored {
		p, err = env.withStored(p)
	}
	if err == nil {
		p, err = r.labels.choose(p)
	}
	if err != nil || !r.recent {
		return p, err
	}
	p, err = p.RecentOnly()
	return p, explainWindow(err)
}

// explainAnswer adds advice to an error in answering a question.
func explainAnswer(err error) error {
	if advice.CodeOf(err) == advice.CodeUsage {
		return usage.Of(err)
	}
	return explainCompare(explainWindow(err))
}

// explainWindow adds to an error about a missing window where windows come from.
func explainWindow(err error) error {
	if !errors.Is(err, view.ErrNoWindow) {
		return err
	}
	return withHint(err, "A window is kept by 'attach' and 'run', unless with --window 0, and by the formats\n"+
		"pprof, XML and JSON.")
}

// explainCompare adds advice to an error in comparing profiles.
func explainCompare(err error) error {
	if errors.Is(err, compare.ErrEmpty) {
		return withHint(err, "Sample for longer, weigh by something else (--by samples, --by time) or absorb less.")
	}
	if errors.Is(err, ccmap.ErrUnlike) {
		return withHint(err, oneKind+"\n'overlap --by samples' compares with samples of tools that name no unit, --any-unit the shares of anything.")
	}
	return err
}

// oneKind is the advice about profiles that measure different things.
const oneKind = "Take profiles of one kind: --sample-type chooses what is read from pprof files that have\n" +
	"several, for example samples or alloc_space."
