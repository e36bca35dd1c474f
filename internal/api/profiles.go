package api

import (
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/advice"
	"github.com/ccmapd/ccmapd/internal/daemon"
	"github.com/ccmapd/ccmapd/internal/store"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/internal/view"
	"github.com/ccmapd/ccmapd/sampler/engine"
)

const (
	liveKind   = "live"
	uploadKind = "up"
	fileKind   = "file"
)

var errNoRef = &view.Error{Code: view.CodeNoTarget, Err: errors.New("there is no such profile"), Hint: "'ccmapd targets' lists the targets and their processes: @NAME or @NAME:PID, in the API live:NAME or live:NAME:PID."}

// snapshot returns the profile of a reference and an event, "" for any of what is live, if the peer may see it.
func (c *call) snapshot(ref, event string) (s *ccmap.Snapshot, err error) {
	kind, rest, _ := strings.Cut(ref, ":")
	switch {
	case c.isOfFleet(ref):
		return c.ofFleet(ref, event)
	case kind == liveKind:
		s, err = c.live(rest, isOfWaits(event))
	case kind == uploadKind:
		s, err = c.uploads.get(rest, c.peer)
	case kind == fileKind:
		s, err = c.file(rest)
	case store.IsReference(ref):
		return c.stored(ref, event)
	default:
		return nil, errNoRef
	}
	if err == nil && event != "" {
		err = isOf(event, ref, s)
	}
	return s, err
}

// isOf returns an error if a profile is not of an event.
func isOf(event, ref string, s *ccmap.Snapshot) error {
	if is := store.Event(s.Meta().Unit); is != event {
		return &view.Error{Code: view.CodeNoTarget, Err: fmt.Errorf("%s has no profile of event %s, but of %s", ref, event, is),
			Candidates: []string{is}, Hint: "Stored profiles may have it: best:NAME, recent:NAME, period:NAME or build:NAME."}
	}
	return nil
}

// isOfWaits reports whether an event is of what goroutines wait for.
func isOfWaits(event string) bool { return event == engine.Wait.Kind() || event == engine.Wall.Kind() }

// live returns the profile of NAME or NAME:PID: of CPU time, or of waits.
func (c *call) live(ref string, waits bool) (*ccmap.Snapshot, error) {
	t, pid, err := c.process(ref)
	if err != nil {
		return nil, err
	}
	s, err := c.recent.get(c.Context(), subject{t.Name, pid, c.peer.part(), c.peer.seesLabels(), waits && t.Waits != nil})
	if err != nil {
		return nil, err
	}
	if _, err := c.visible(t.Name); err != nil { // meanwhile it has got processes of others
		return nil, as(err, errNoRef)
	}
	return s, nil
}

// process returns the target and the process that NAME or NAME:PID means; process 0: all.
func (c *call) process(ref string) (t daemon.TargetStatus, pid int, err error) {
	if t, err = c.visible(ref); err == nil {
		return t, 0, nil
	}
	cut := strings.LastIndexByte(ref, ':')
	if cut < 0 {
		return t, 0, c.suggest(as(err, errNoRef), ref)
	}
	if t, err = c.visible(ref[:cut]); err != nil {
		return t, 0, c.suggest(as(err, errNoRef), ref[:cut])
	}
	if pid, err = strconv.Atoi(ref[cut+1:]); err != nil {
		return t, 0, errNoRef
	}
	return t, pid, has(t, pid)
}

// has returns an error if a process is not one of a target's.
func has(t daemon.TargetStatus, pid int) error {
	if t.Has(pid) {
		return nil
	}
	return &view.Error{Code: view.CodeNoTarget, Err: fmt.Errorf("target %s has no process %d", t.Name, pid), Hint: "'ccmapd targets -v' lists its processes."}
}

// onlyPID returns the reference for one process of a target, if the parameter pid asks for one.
func (c *call) onlyPID(ref string, q *params) (string, error) {
	given := q.values.Get("pid") != ""
	pid := int(q.number("pid", 0))
	if q.err != nil || !given {
		return ref, q.err
	}
	kind, rest, _ := strings.Cut(ref, ":")
	if kind != liveKind {
		return "", usageError("pid=%d is for the profile of a target, live:NAME, and the profile is %s", pid, ref)
	}
	t, named, err := c.process(rest)
	switch {
	case err != nil:
		return "", err
	case named != 0 && named != pid:
		return "", usageError("the profile is of process %d already, and pid=%d asks for another one", named, pid)
	}
	return fmt.Sprintf("%s:%s:%d", liveKind, t.Name, pid), has(t, pid)
}

// visible returns a target that the peer may see.
func (c *call) visible(name string) (daemon.TargetStatus, error) {
	err := error(&view.Error{Code: view.CodeNoTarget, Err: fmt.Errorf("there is no target %q", name), Hint: "'ccmapd targets' lists them."})
	t, missing := c.profiles.Target(name)
	switch {
	case missing != nil:
		return daemon.TargetStatus{}, err
	case !c.seesNow(&t):
		return daemon.TargetStatus{}, hidden{err}
	}
	return t, nil
}

// named returns a target that the peer may see. The error of an unknown one has the names that were perhaps meant.
func (c *call) named(name string) (daemon.TargetStatus, error) {
	t, err := c.visible(name)
	if err != nil {
		err = c.suggest(err, name)
	}
	return t, err
}

// mostSuggested bounds the names that an error suggests.
const mostSuggested = 3

// suggest adds to the error of an unknown target the names that are like it, of targets that the peer sees. So the
// error about a target that is hidden from the peer is the same as if there were no such target.
func (c *call) suggest(err error, name string) error {
	var seen []string
	for _, t := range c.visibleTargets() {
		seen = append(seen, t.Name)
	}
	near := advice.NearText(seen, name)
	if len(near) == 0 {
		return err
	}
	known := *coded(err)
	known.Candidates = near[:min(len(near), mostSuggested)]
	known.Hint = fmt.Sprintf("Did you mean %s?\n%s", terminal.OrList(known.Candidates), known.Hint)
	return as(err, &known)
}

// seesNow reports whether the peer sees a target, whose processes are looked at again unless the peer sees all.
func (c *call) seesNow(t *daemon.TargetStatus) bool {
	if !c.peer.sees(*t) || c.peer.reads {
		return c.peer.sees(*t)
	}
	now, err := c.options.Daemon.Recheck(t.Name)
	*t = now
	return err == nil && c.peer.sees(now)
}

// recent keeps the latest snapshot of each target for a moment, so that all requests
// see the same one. Any goroutine may call get.
type recent struct {
	profiles Profiles
	mu       sync.Mutex
	of       map[subject]*latest
}

// subject is a target or one of its processes, as some peers see it.
type subject struct {
	target string
	pid    int
	part   string
	labels bool
	waits  bool // the profile of waits, beside that of CPU time
}

// waiting has profiles of what goroutines wait for, beside others.
type waiting interface {
	WaitsOf(ctx context.Context, target string, pid int) (*ccmap.Snapshot, error)
}

// read returns the profile, published after the call.
func (of subject) read(ctx context.Context, p Profiles) (*ccmap.Snapshot, error) {
	if w, has := p.(waiting); has && of.waits {
		return w.WaitsOf(ctx, of.target, of.pid)
	}
	return p.Snapshot(ctx, of.target, of.pid)
}

// latest is a snapshot that is there, or is asked for.
type latest struct {
	ready    chan struct{}
	snapshot *ccmap.Snapshot
	err      error
	until    time.Time
}

// snapshotKept is how long a snapshot is the latest.
const snapshotKept = time.Second

func newRecent(p Profiles) *recent { return &recent{profiles: p, of: make(map[subject]*latest)} }

// snapshotWait bounds the wait for a snapshot.
const snapshotWait = 10 * time.Second

// get returns a snapshot that is not older than snapshotKept. The first caller gets it for all, even if
// its client leaves.
func (r *recent) get(ctx context.Context, of subject) (*ccmap.Snapshot, error) {
	one, first := r.find(of)
	if first {
		all, cancel := context.WithTimeout(context.WithoutCancel(ctx), snapshotWait)
		one.snapshot, one.err = of.read(all, r.profiles)
		cancel()
		if one.err == nil && !of.labels {
			one.snapshot = one.snapshot.WithoutLabels()
		}
		close(one.ready)
		if one.err != nil {
			r.forget(of, one)
		}
	}
	select {
	case <-one.ready:
		return one.snapshot, one.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (r *recent) find(of subject) (one *latest, first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for other, one := range r.of {
		if now.After(one.until) {
			delete(r.of, other) // which may hold a large map
		}
	}
	if one, ok := r.of[of]; ok {
		return one, false
	}
	one = &latest{ready: make(chan struct{}), until: now.Add(snapshotKept)}
	r.of[of] = one
	return one, true
}

func (r *recent) forget(of subject, one *latest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of[of] == one {
		delete(r.of, of)
	}
}

// formats have their media types.
var formats = map[export.Format]string{
	export.JSON: typeJSON, export.XML: "application/xml", export.Folded: "text/plain; charset=utf-8", export.Pprof: "application/octet-stream",
}

// writeMap returns the whole profile in a format.
func writeMap(ref string, s *ccmap.Snapshot, p *params) (answer, error) {
	word := p.text("format", export.JSON.String())
	recent := p.flag("recent")
	if err := p.check(); err != nil {
		return answer{}, err
	}
	at := slices.IndexFunc(export.Formats(), func(f export.Format) bool { return f.String() == word })
	if at < 0 {
		return answer{}, usageError("there is no format %q: take %v", word, export.Formats())
	}
	if recent {
		window, ok := s.Recent()
		if !ok {
			return answer{}, fmt.Errorf("%s has %w", ref, view.ErrNoWindow)
		}
		s = window
	}
	format := export.Formats()[at]
	var b boundedBuffer
	z, err := zstd.NewWriter(&b, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return answer{}, err
	}
	err = export.Write(z, format, s)
	if err = cmp.Or(err, z.Close()); err != nil {
		return answer{}, err
	}
	return answer{contentType: formats[format], packed: true, body: b.Bytes()}, nil
}

// writePprof returns the profile as a file for pprof.
func writePprof(s *ccmap.Snapshot) (answer, error) {
	var b boundedBuffer
	z := gzip.NewWriter(&b)
	err := export.Write(z, export.Pprof, s)
	if err = cmp.Or(err, z.Close()); err != nil {
		return answer{}, err
	}
	return answer{contentType: "application/octet-stream", body: b.Bytes()}, nil
}

// pgoName is the route of the profile for Go's compiler.
const pgoName = "default.pgo"

// pgo answers with the minimal profile for 'go build -pgo'. A client that has it already, by its ETag, gets 304.
func (c *call) pgo(ref string, p *params) error {
	event := p.text("event", "")
	if err := p.check(); err != nil {
		return err
	}
	s, err := c.snapshot(ref, event)
	if err != nil {
		return err
	}
	a, err := c.shares.get(c.Context(), c.question(ref, pgoName), [2]*ccmap.Snapshot{s}, func() (answer, error) {
		var b boundedBuffer
		if err := daemon.WritePGO(&b, s); err != nil {
			return answer{}, &view.Error{Code: view.CodeUsage, Err: fmt.Errorf("%s: %w", ref, err)}
		}
		return answer{contentType: "application/octet-stream", body: b.Bytes()}, nil
	})
	if err != nil {
		return err
	}
	return c.send(http.StatusOK, a)
}

// Bounds of the time that a client waits for a profile of the next time.
const (
	longestProfile = time.Hour
	longestOverTCP = 10 * time.Minute
)

var (
	errLongWait = &view.Error{Code: view.CodeUsage, Err: fmt.Errorf("seconds is more than %.0f, the most over TCP", longestOverTCP.Seconds()),
		Hint: fmt.Sprintf("Ask for %.0f at most, or on the daemon's socket, for %.0f at most.", longestOverTCP.Seconds(), longestProfile.Seconds())}
	errManyWait = &view.Error{Code: view.CodeBusy, Err: fmt.Errorf("%d requests over TCP, or %d of this user, wait for samples already", mostWaits, mostWaitsOfUser),
		Hint: "Ask again when they have ended, or on the daemon's socket."}
)

// pprof answers with the profile for pprof, or with the samples of the next seconds.
func (c *call) pprof(ref string, p *params) error {
	seconds := p.number("seconds", 0)
	p.text("timeout", "") // pprof's own
	event := p.text("event", "")
	if err := p.check(); err != nil {
		return err
	}
	leave, err := c.mayWait(time.Duration(seconds) * time.Second)
	if err != nil {
		return err
	}
	defer leave()
	before, err := c.snapshot(ref, event)
	if err != nil {
		return err
	}
	after, of := before, [2]*ccmap.Snapshot{before}
	if seconds > 0 {
		if err := c.wait(time.Duration(seconds) * time.Second); err != nil {
			return err
		}
		if after, err = c.snapshot(ref, event); err != nil {
			return err
		}
		of[1] = after
	}
	a, err := c.shares.get(c.Context(), c.question(ref, "pprof"), of, func() (answer, error) {
		if seconds == 0 {
			return writePprof(after)
		}
		added, err := ccmap.Delta(before, after)
		if err != nil {
			return answer{}, err
		}
		return writePprof(added.Snapshot())
	})
	if err != nil {
		return err
	}
	return c.send(http.StatusOK, a)
}

// mayWait counts a request that waits for samples of the next time. It returns an error if that is too long, or
// too many wait.
func (c *call) mayWait(d time.Duration) (leave func(), err error) {
	switch {
	case d > longestProfile:
		return nil, usageError("seconds=%.0f is more than %.0f", d.Seconds(), longestProfile.Seconds())
	case d == 0, !c.peer.tcp:
		return func() {}, nil
	case d > longestOverTCP:
		return nil, errLongWait
	}
	leave, ok := c.waits.enter(c.peer)
	if !ok {
		return nil, errManyWait
	}
	return leave, nil
}

// wait waits as the client has asked, unless the client goes away or the server ends.
func (c *call) wait(d time.Duration) error {
	defer func(began time.Time) { noteWait(c.Context(), time.Since(began)) }(time.Now())
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-c.ending.Done():
		return &view.Error{Code: view.CodeBusy, Err: errors.New("the daemon ends")}
	case <-c.Context().Done():
		return c.Context().Err()
	}
}
