package hub

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/daemon/client"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/hub/bucket"
	"github.com/ccmapd/ccmapd/internal/advice"
	"github.com/ccmapd/ccmapd/internal/contribution"
	"github.com/ccmapd/ccmapd/internal/fleet"
)

// routes has all that the hub answers. What needs a token says so.
func (h *Hub) routes(metrics prometheus.Gatherer) *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("POST /v1/contributions", h.handle(mayWrite, h.contribute))
	mux.Handle("GET /v1/builds", h.handle(mayRead, h.builds))
	mux.Handle("DELETE /v1/builds", h.handle(mayDelete, h.remove))
	mux.Handle("GET /v1/build", h.handle(mayRead, h.build))
	mux.Handle("GET /v1/outliers", h.handle(mayRead, h.outliers))
	mux.Handle("GET /v1/p/{ref...}", h.handle(mayRead, h.profile))
	mux.Handle("GET /v1/nearest", h.handle(mayRead, h.nearestToBuild))
	mux.Handle("POST /v1/nearest", h.handle(mayRead, h.nearest))
	mux.Handle("GET /v1/best", h.handle(mayRead, h.best))
	mux.Handle("GET /v1/fanin", h.handle(mayRead, h.fanin))
	mux.Handle("POST /v1/fanin", h.handle(mayRead, h.faninOfMethods))
	mux.Handle("GET /v1/methods", h.handle(mayRead, h.methods))
	mux.Handle("GET /v1/status", h.handle(mayRead, h.status))
	mux.Handle("GET /metrics", h.handle(mayRead, func(w http.ResponseWriter, r *http.Request, t token) error {
		if !t.permits("*") {
			return refuse(http.StatusForbidden, "metrics are of all targets: the token must permit *")
		}
		promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}).ServeHTTP(w, r)
		return nil
	}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok\n") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !h.working.Load() {
			http.Error(w, "the bucket does not answer", http.StatusServiceUnavailable)
			return
		}
		io.WriteString(w, "ok\n")
	})
	return mux
}

// ServeHTTP implements [http.Handler].
func (h *Hub) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.mux.ServeHTTP(w, r) }

// refusal is an answer that is no success.
type refusal struct {
	status int
	text   string

	code       advice.Code // empty: for programs, which know the status
	hint       string
	candidates []string
}

func (r *refusal) Error() string { return r.text }

func refuse(status int, format string, args ...any) error {
	return &refusal{status: status, text: fmt.Sprintf(format, args...)}
}

// handle answers requests whose token has a right. Errors of the bucket are for the log: they may name what the client
// is not to know.
func (h *Hub) handle(need right, serve func(http.ResponseWriter, *http.Request, token) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t, err := h.authorized(r, need)
		if err == nil {
			err = serve(w, r, t)
		}
		if err == nil {
			return
		}
		var is *refusal
		if !errors.As(err, &is) {
			if r.Context().Err() == nil { // the client waits
				h.Logger.Error("cannot answer", "path", r.URL.Path, "error", err)
			}
			is = &refusal{status: http.StatusServiceUnavailable, text: "the bucket does not answer: send it again later"}
		}
		h.count.refused.WithLabelValues(fmt.Sprint(is.status)).Inc()
		if need == mayWrite {
			h.count.refusedWrites.WithLabelValues(fmt.Sprint(is.status)).Inc()
		}
		if is.status == http.StatusUnauthorized || is.status == http.StatusForbidden {
			h.auditRefusal(r, t, is)
		}
		if is.status == http.StatusServiceUnavailable || is.status == http.StatusTooManyRequests {
			w.Header().Set("Retry-After", "60")
		}
		is.send(w)
	})
}

// send writes a refusal: as text, or as the daemon does where a person may read it.
func (r *refusal) send(w http.ResponseWriter) {
	if r.code == "" {
		http.Error(w, r.text, r.status)
		return
	}
	w.Header().Set("Content-Type", client.ProblemType)
	w.WriteHeader(r.status)
	json.NewEncoder(w).Encode(client.Problem{ // the client may be gone
		Title: http.StatusText(r.status), Status: r.status, Detail: r.text, Hint: r.hint, Code: r.code, Candidates: r.candidates,
	})
}

// authorized returns the token of a request, if it has a right.
func (h *Hub) authorized(r *http.Request, need right) (token, error) {
	text, found := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	t, known := h.tokens.Load().find(text)
	switch {
	case !found || !known:
		return t, refuse(http.StatusUnauthorized, "no known token: send it as Authorization: Bearer TOKEN")
	case !t.right.covers(need):
		return t, refuse(http.StatusForbidden, "the token has another right")
	}
	return t, nil
}

// contribute takes one contribution. It answers when the contribution is durable, or is in the aggregate already.
func (h *Hub) contribute(w http.ResponseWriter, r *http.Request, t token) error {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, contribution.MostBody+contribution.MostKey))
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return refuse(http.StatusRequestEntityTooLarge, "more than %d bytes", large.Limit)
	}
	if err != nil {
		return refuse(http.StatusBadRequest, "read contribution: %v", err)
	}
	f, err := contribution.One(body)
	switch {
	case errors.Is(err, contribution.ErrNewer):
		return refuse(http.StatusServiceUnavailable, "%v: update the hub", err)
	case err != nil:
		return refuse(http.StatusBadRequest, "read contribution: %v", err)
	case !t.permits(f.Key.Target) || !t.isInstance(f.Key.Instance):
		return refuse(http.StatusForbidden, "the token is for other targets or another instance")
	}
	if what := h.meter.take(f.Key.Target, f.Key.Instance, len(body), time.Now()); what != "" {
		return refuse(http.StatusTooManyRequests, "the quota of %s is used up for this hour", what)
	}
	fresh, err := h.isFresh(r.Context(), f)
	if err != nil {
		return err
	}
	if fresh {
		if err := h.inspect(r.Context(), f); err != nil {
			return err
		}
		if err := h.makeRoom(r.Context(), f); err != nil {
			return err
		}
		err := h.intake.add(r.Context(), idOf(f.Key), f.Bytes)
		if errors.Is(err, errFull) {
			return refuse(http.StatusServiceUnavailable, "%v", err)
		}
		if err != nil {
			return err
		}
	}
	h.auditWrite(r, t, f, fresh)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// isFresh asks what the aggregate has, as it was a few seconds ago: the aggregator decides.
func (h *Hub) isFresh(ctx context.Context, f contribution.Frame) (bool, error) {
	m, err := h.catalog.get(ctx, idOf(f.Key))
	if err != nil && !errors.Is(err, errNewer) {
		return false, err
	}
	if err != nil {
		return true, nil // for a later aggregator
	}
	if m.isDeleted(h.Now()) {
		return false, refuse(http.StatusUnprocessableEntity, "the build was deleted, and nothing of it is taken for %d days", int(deletedFor/(24*time.Hour)))
	}
	switch m.judge(f.Key, f.Body) {
	case duplicate:
		return false, nil
	case cloned:
		return false, refuse(http.StatusConflict, "another contribution has this number: make a new instance")
	case over:
		return false, refuse(http.StatusGone, "this epoch is over: begin another")
	}
	if m.isOld(f.Key, time.Now()) {
		return false, refuse(http.StatusGone, "this epoch is over: begin another")
	}
	return true, nil
}

// makeRoom refuses what would begin a build that is one too many.
func (h *Hub) makeRoom(ctx context.Context, f contribution.Frame) error {
	m, err := h.catalog.get(ctx, idOf(f.Key))
	if errors.Is(err, errNewer) || err == nil && m.Generation > 0 {
		return nil
	}
	room, err := h.catalog.hasRoom(ctx, idOf(f.Key), h.meter.Builds)
	if err == nil && !room {
		err = refuse(http.StatusTooManyRequests, "the hub has %d builds, which is all that it takes", h.meter.Builds)
	}
	return err
}

// inspect refuses poison before it is in a segment. Few are read at once: each takes memory.
func (h *Hub) inspect(ctx context.Context, f contribution.Frame) error {
	select {
	case h.decoding <- struct{}{}:
		defer func() { <-h.decoding }()
	case <-ctx.Done():
		return ctx.Err()
	}
	_, err := readContribution(f)
	if errors.Is(err, export.ErrVersion) {
		return refuse(http.StatusServiceUnavailable, "read profile: %v: update the hub", err)
	}
	if err != nil {
		return refuse(http.StatusUnprocessableEntity, "read profile: %v", err)
	}
	return nil
}

// permits returns which targets a token may read, of ?target= if a request names one.
func permits(r *http.Request, t token) func(target string) bool {
	target := r.URL.Query().Get("target")
	return func(of string) bool { return t.permits(of) && (target == "" || of == target) }
}

// permitted returns the builds that a token may read, of ?target= if a request names one.
func (h *Hub) permitted(r *http.Request, t token) ([]fleet.Build, error) {
	return h.catalog.builds(r.Context(), permits(r, t))
}

// wanted returns the id of the build that a request names: ?target=T&build=B&unit=cpu/nanoseconds.
func wanted(r *http.Request, t token) (string, error) {
	q := r.URL.Query()
	kind, base, found := strings.Cut(cmp.Or(q.Get("unit"), "cpu/nanoseconds"), "/")
	if q.Get("target") == "" || q.Get("build") == "" || !found {
		return "", refuse(http.StatusBadRequest, "name ?target=, &build= and perhaps &unit=KIND/BASE: GET /v1/builds has them")
	}
	if !t.permits(q.Get("target")) {
		return "", refuse(http.StatusForbidden, "the token is for other targets")
	}
	return idOf(contribution.Key{Target: q.Get("target"), Build: q.Get("build"), Kind: kind, Base: base}), nil
}

var errNoBuild = refuse(http.StatusNotFound, "no such build: GET /v1/builds has those that there are")

// answer sends a body of an aggregate, unless the client has it.
func answer(w http.ResponseWriter, r *http.Request, m *manifest, kind string, body func() ([]byte, error)) error {
	w.Header().Set("ETag", m.tag())
	if r.Header.Get("If-None-Match") == m.tag() {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	b, err := body()
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", kind)
	_, err = w.Write(b)
	if err != nil {
		return refuse(http.StatusRequestTimeout, "the client is gone")
	}
	return nil
}

// found returns the manifest of the build that a request names.
func (h *Hub) found(r *http.Request, t token) (id string, m *manifest, err error) {
	if id, err = wanted(r, t); err != nil {
		return id, nil, err
	}
	if m, err = h.catalog.get(r.Context(), id); err == nil && len(m.Parts) == 0 {
		err = errNoBuild
	}
	return id, m, err
}

// best sends the profile of the largest class of a build, or of ?class=N, as a file of the store.
func (h *Hub) best(w http.ResponseWriter, r *http.Request, t token) error {
	id, m, err := h.found(r, t)
	if err != nil {
		return err
	}
	class := largest(m.members())
	if q := r.URL.Query(); q.Has("class") {
		if class, err = strconv.Atoi(q.Get("class")); err != nil {
			return refuse(http.StatusBadRequest, "class %.20q is no number", q.Get("class"))
		}
	}
	p := m.part(partKey{Level: levelBuild, Class: class})
	if p == nil {
		return refuse(http.StatusNotFound, "the build has no class %d", class)
	}
	return h.sendParts(w, r, wantedParts{id, m, []part{*p}})
}

// advised turns errors that a client can do something about into refusals.
func advised(err error) error {
	switch {
	case errors.Is(err, bucket.ErrNotFound): // others have just replaced it
		return refuse(http.StatusServiceUnavailable, "the profile has just changed: ask again")
	case errors.Is(err, errSumFull):
		return refuse(http.StatusUnprocessableEntity, "%s: ask for one class, or for a shorter time", err)
	}
	return err
}

// build describes a build: its classes, its times, its outliers.
func (h *Hub) build(w http.ResponseWriter, r *http.Request, t token) error {
	id, m, err := h.found(r, t)
	if err != nil {
		return err
	}
	is, err := h.catalog.make(r.Context(), id, "build", m, func(m *manifest) ([]byte, error) {
		classes, err := classesOf(r.Context(), h.catalog, m)
		if err != nil {
			return nil, err
		}
		return json.Marshal(describe(id, m, classes))
	})
	if err != nil {
		return advised(err)
	}
	return answer(w, r, m, "application/json", func() ([]byte, error) { return is.body, nil })
}

// nearest lists the builds of ?target= and ?unit=, the one first that has most in common with the methods in the body.
func (h *Hub) nearest(w http.ResponseWriter, r *http.Request, t token) error {
	const most = 32 << 20
	var methods []fleet.Method
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, most)).Decode(&methods); err != nil {
		return refuse(http.StatusBadRequest, "read methods: want a list as GET /v1/methods has it: %v", err)
	}
	if r.URL.Query().Get("target") == "" {
		return refuse(http.StatusBadRequest, "name ?target=")
	}
	return h.sendNearest(w, r, t, methods, "")
}

// nearestToBuild lists the other builds of the target of the build that a request names: how much of each one's profile
// is in methods that the build has.
func (h *Hub) nearestToBuild(w http.ResponseWriter, r *http.Request, t token) error {
	id, m, err := h.found(r, t)
	if err != nil {
		return err
	}
	is, err := h.catalog.part(r.Context(), id, "methods", m, methodsOf)
	if err != nil {
		return advised(err)
	}
	var methods []fleet.Method
	if err := json.Unmarshal(is.body, &methods); err != nil {
		return fmt.Errorf("read methods of a build: %w", err)
	}
	return h.sendNearest(w, r, t, methods, id)
}

// sendNearest sends the builds of ?target= and ?unit= by what they have in common with methods, without one build.
func (h *Hub) sendNearest(w http.ResponseWriter, r *http.Request, t token, methods []fleet.Method, but string) error {
	builds, err := h.permitted(r, t)
	if err != nil {
		return err
	}
	unit := cmp.Or(r.URL.Query().Get("unit"), "cpu/nanoseconds")
	builds = slices.DeleteFunc(builds, func(b fleet.Build) bool { return b.Unit != unit || b.ID == but })
	list, err := h.catalog.nearest(r.Context(), builds, methods)
	if err != nil {
		return advised(err)
	}
	return sendJSON(w, list)
}

// servePart sends what is made of an aggregate.
func (h *Hub) servePart(w http.ResponseWriter, r *http.Request, t token, name, kind string, make func(*ccmap.Snapshot) ([]byte, error)) error {
	id, m, err := h.found(r, t)
	if err != nil {
		return err
	}
	return answer(w, r, m, kind, func() ([]byte, error) {
		is, err := h.catalog.part(r.Context(), id, name, m, make)
		return is.body, advised(err)
	})
}

func (h *Hub) methods(w http.ResponseWriter, r *http.Request, t token) error {
	return h.servePart(w, r, t, "methods", "application/json", methodsOf)
}
