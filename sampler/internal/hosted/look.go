package hosted

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/served"
	"github.com/ccmapd/ccmapd/sampler"
)

// Last has the maps of the last look that was delivered. The zero Last is of a program that nothing is known
// of. It belongs to one Source at a time.
type Last struct {
	sessions map[string]session
	looked   bool
}

// session is a session of the program, as a look has found it.
type session struct {
	start    time.Time
	build    string
	snapshot *ccmap.Snapshot
}

// look is one look at all sessions.
type look struct {
	*Source
	now      map[string]session
	sum      *ccmap.Map // the gains of all sessions
	bytes    int64      // of the maps, as they came
	memory   int64      // of the maps
	target   ccmap.Target
	interval time.Duration
	loss     ccmap.Loss
	samples  int64
}

const (
	// mostSessions bounds the requests of a look, mostList the bytes of the list of sessions.
	mostSessions = 64
	mostList     = 1 << 20
	// mostText bounds the description of the target, bytes.
	mostText = 64 << 10
)

// codings are those that Options.Read undoes.
const codings = "zstd, gzip"

// look asks for the maps of all sessions, and finds out their gains.
func (s *Source) look(ctx context.Context) (*look, error) {
	s.mu.Lock()
	s.counts.looks++
	s.mu.Unlock()
	sessions, err := s.list(ctx)
	if err != nil {
		return nil, err
	}
	l := &look{Source: s, now: make(map[string]session), sum: ccmap.New(ccmap.Options{Names: s.o.Sink.Names})}
	for _, name := range sessions.names() {
		if err := l.fetchMap(ctx, name); err != nil {
			return nil, err
		}
	}
	if err := l.checkBuilds(); err != nil {
		return nil, err
	}
	if s.o.Sink.Names.Bytes() > s.o.MaxNames {
		return nil, served.Refuse(fmt.Errorf("%w: %d MiB", served.ErrNames, s.o.MaxNames>>20))
	}
	meta := l.sum.Meta()
	l.loss, l.samples = meta.Loss, l.sum.Snapshot().Total().Samples
	*meta = ccmap.Meta{Unit: ccmap.CPUTime, Known: meta.Known, Repeated: meta.Repeated, Pruned: meta.Pruned}
	return l, nil
}

// isEmpty reports whether the sessions have gained nothing that a map holds.
func (l *look) isEmpty() bool {
	s := l.sum.Snapshot()
	return s.Total().IsZero() && len(s.Points()) == 0 && s.Meta().Known == 0
}

// listed are the sessions of a program, by the JSON of its routes.
type listed struct {
	Targets []listedSession `json:"targets"`
}

type listedSession struct {
	Name      string `json:"name"`
	Hosted    bool   `json:"hosted"`
	Processes []struct {
		Exe     string `json:"exe"`
		Runtime string `json:"runtime"`
	} `json:"processes"`
}

// names returns the names of the sessions in order, each once.
func (l listed) names() []string {
	var names []string
	for _, t := range l.Targets {
		names = append(names, t.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

var errNoList = fmt.Errorf("%w: the answer is not a list of sessions", ErrNotHosted)

// list asks for the sessions that are followed.
func (s *Source) list(ctx context.Context) (listed, error) {
	ctx, cancel := context.WithTimeout(ctx, served.Patience)
	defer cancel()
	r, err := s.server.Get(ctx, "", "", "v1", "targets")
	if err != nil {
		return listed{}, err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		return listed{}, answered{s.server.Failure(r)}
	}
	text, err := io.ReadAll(io.LimitReader(r.Body, mostList))
	if err != nil {
		return listed{}, err
	}
	var l listed
	if err := json.Unmarshal(text, &l); err != nil || l.Targets == nil { // the error may repeat the credentials
		return listed{}, served.Refuse(errNoList)
	}
	return s.followed(l)
}

// answered is the error of an answer that is not a list of sessions.
type answered struct{ error }

func (a answered) Unwrap() error { return a.error }

// followed returns the sessions of a program that are followed.
func (s *Source) followed(l listed) (listed, error) {
	for _, t := range l.Targets {
		if !t.Hosted {
			return listed{}, unsupported("a daemon of ccmapd answers, which keeps its profiles itself: read them by URL/v1/p/live:NAME/map")
		}
	}
	has := l.names()
	if s.name != "" {
		l.Targets = slices.DeleteFunc(l.Targets, func(t listedSession) bool { return t.Name != s.name })
	}
	switch n := len(l.Targets); {
	case n == 0 && s.name != "":
		return listed{}, unsupported("the program has no session %q%s", s.name, s.quoted("; it has %.200q", has))
	case n == 0:
		return listed{}, unsupported("the program has no session")
	case n > mostSessions:
		return listed{}, unsupported("the program has %d sessions, more than %d: name one by #NAME after the URL", n, mostSessions)
	}
	return l, nil
}

// unsupported returns an error that further looks would meet, too.
func unsupported(format string, args ...any) error {
	return served.Refuse(fmt.Errorf("%w: %s", sampler.ErrUnsupported, fmt.Sprintf(format, args...)))
}

// quoted formats something out of an answer, unless it may repeat the credentials.
func (s *Source) quoted(format string, args ...any) string {
	if s.server.Confidential() {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

// fetchMap asks for the map of a session, and adds its gain.
func (l *look) fetchMap(ctx context.Context, name string) error {
	body, err := l.fetch(ctx, name)
	if err != nil {
		return err
	}
	done, err := l.o.Turn(ctx)
	if err != nil {
		return err
	}
	defer done()
	m, err := l.read(body)
	if err != nil {
		return err
	}
	if unit := m.Meta().Unit; unit != ccmap.CPUTime && !m.Snapshot().Total().IsZero() {
		return unsupported("a session is not of CPU time%s: name another one by #NAME after the URL", l.quoted(": %.100q is of %.100q", name, unit))
	}
	return l.add(name, m)
}

// fetch returns the map of a session as it comes.
func (l *look) fetch(ctx context.Context, name string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, served.Patience)
	defer cancel()
	r, err := l.server.Get(ctx, "format=json", codings, "v1", "p", "live:"+name, "map")
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		return nil, l.server.Failure(r)
	}
	left := l.o.MaxBytes - l.bytes
	body, err := io.ReadAll(io.LimitReader(r.Body, left+1))
	switch {
	case err != nil:
		return nil, err
	case int64(len(body)) > left:
		return nil, fmt.Errorf("the maps of all sessions have more than %d MiB", l.o.MaxBytes>>20)
	}
	l.bytes += int64(len(body))
	return body, nil
}

// read reads a map, without what is the session's own: phases and a window.
func (l *look) read(body []byte) (*ccmap.Map, error) {
	left := l.o.MaxMemory - l.memory
	if left <= 0 {
		return nil, fmt.Errorf("the maps of all sessions take more than %d MiB of memory", l.o.MaxMemory>>20)
	}
	m, err := l.o.Read(bytes.NewReader(body), left)
	switch {
	case err != nil && l.server.Confidential():
		return nil, unquoted{err}
	case err != nil:
		return nil, fmt.Errorf("read map: %w", err)
	}
	m.SetWindow(0)
	points := ccmap.SumPhases(m.Snapshot().Points())
	for _, origin := range []ccmap.Origin{ccmap.OriginSampled, ccmap.OriginBurst, ccmap.OriginImported, ccmap.OriginVM} {
		m.SetPoints(origin, slices.DeleteFunc(slices.Clone(points), func(p ccmap.Point) bool { return p.Origin != origin }))
	}
	l.memory += memoryOf(m)
	return m, nil
}

// memoryOf returns the memory that a map counts for: the map, and the names in its own table and in the
// tables of a comparison.
func memoryOf(m *ccmap.Map) int64 { return 2*m.Bytes() + 3*m.Names().Bytes() }

// unquoted is an error in reading an answer that may repeat the credentials.
type unquoted struct{ error }

func (unquoted) Error() string {
	return "read map: the answer is not a map that can be read within the bounds; it is not quoted, as it may repeat the credentials"
}

func (u unquoted) Unwrap() error { return u.error }

// add adds the gain of a session.
func (l *look) add(name string, m *ccmap.Map) error {
	meta, now := m.Meta(), m.Snapshot()
	l.now[name] = session{start: meta.Start, build: strings.Clone(meta.Target.BuildID), snapshot: now}
	if l.target.Executable == "" {
		l.target = targetOf(meta.Target)
	}
	if n := len(meta.Interval); n > 0 {
		if is := meta.Interval[n-1].Interval; is > 0 && (l.interval == 0 || is < l.interval) {
			l.interval = is
		}
	}
	gained, err := l.gained(name, now)
	if err != nil || gained == nil {
		return err
	}
	if l.o.NoLabels {
		gained = gained.WithoutLabels()
	}
	return l.sum.Merge(gained)
}

// gained returns the gain of a session since the last look, nil for none.
func (l *look) gained(name string, now *ccmap.Snapshot) (*ccmap.Snapshot, error) {
	was, known := l.last.sessions[name]
	start := now.Meta().Start
	switch {
	case !l.last.looked:
		return nil, nil // it was counted before anything followed the program
	case !known, !was.start.Equal(start):
		return now, nil
	}
	d, err := ccmap.Delta(was.snapshot, now)
	switch {
	case errors.Is(err, ccmap.ErrNotEarlier) && start.IsZero():
		return now, nil // nothing else tells that the session is another one
	case errors.Is(err, ccmap.ErrNotEarlier):
		return nil, nil // a restart has restored an older state
	case err != nil:
		return nil, err
	}
	return d.Snapshot(), nil
}

// targetOf returns the description of the program: without its process, which may be anywhere, and without
// a command line that is too long.
func targetOf(t ccmap.Target) ccmap.Target {
	is := ccmap.Target{Executable: shortened(t.Executable), BuildID: shortened(t.BuildID), Runtime: shortened(t.Runtime)}
	length := 0
	for _, word := range t.CommandLine {
		length += len(word)
	}
	if length <= mostText && len(t.CommandLine) <= mostText/16 {
		for _, word := range t.CommandLine {
			is.CommandLine = append(is.CommandLine, strings.Clone(word))
		}
	}
	return is
}

// shortened returns a copy of a text that has no more bytes than a path.
func shortened(text string) string {
	const longestPath = 4096 // PATH_MAX of the kernel
	return strings.Clone(text[:min(len(text), longestPath)])
}

// checkBuilds finds out whether the program is another one than before, and which build it is. The next
// Source may follow the other one.
func (l *look) checkBuilds() error {
	build, same := "", true
	for name, now := range l.now {
		if was := l.last.sessions[name]; was.build != "" && now.build != "" && was.build != now.build {
			l.last.forgetBuilds()
			return served.ErrReplaced
		}
		if now.build != "" {
			same = same && (build == "" || build == now.build)
			build = now.build
		}
	}
	if !same {
		build = "" // the builds of VMs, not of the program
	}
	if l.o.Build != "" && build != "" && l.o.Build != build {
		return served.ErrReplaced
	}
	l.target.BuildID = cmp.Or(shortened(build), l.o.Build)
	return nil
}

// forgetBuilds forgets which program the maps are of.
func (l *Last) forgetBuilds() {
	for name, was := range l.sessions {
		was.build = ""
		l.sessions[name] = was
	}
}

// describe asks for the sessions for the first time.
func (s *Source) describe(ctx context.Context) error {
	l, err := s.list(ctx)
	switch {
	case errors.As(err, new(answered)), errors.Is(err, served.ErrRedirect):
		return fmt.Errorf("%w: %w", ErrNotHosted, err)
	case err != nil:
		return err
	}
	s.counts.target = ccmap.Target{BuildID: s.o.Build}
	for _, t := range l.Targets {
		for _, p := range t.Processes {
			s.counts.target.Executable, s.counts.target.Runtime = shortened(p.Exe), shortened(p.Runtime)
		}
	}
	return nil
}
