// Package uplink speaks to the hub of a fleet: it sends contributions, and gets what the hub knows of a build.
//
// The hub is a foreign peer. It gets a token from a file that no other user can change, and that is read at each
// request; without TLS this machine only. Redirects lead to no other host. Each request has a deadline, each answer a
// bound, and no text of an answer is quoted: it may repeat the token.
package uplink

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/internal/fanin"
	"github.com/ccmapd/ccmapd/internal/fleet"
	"github.com/ccmapd/ccmapd/internal/safepath"
	"github.com/ccmapd/ccmapd/internal/served"
)

// Options of a Hub.
type Options struct {
	URL       string
	TokenFile string
	CAFile    string        // empty: the system's authorities
	Timeout   time.Duration // of a request; default two minutes, as a contribution may be large and the way slow
}

// Hub is the hub of a fleet, with one token. Any goroutine may call its methods.
type Hub struct {
	server  *served.Server
	token   string // file
	timeout time.Duration
}

// New returns the hub at an address, without a request.
func New(o Options) (*Hub, error) {
	secret := served.Credentials{BearerFile: o.TokenFile, Private: true}
	u, err := served.Parse(o.URL, "", secret)
	if err != nil {
		return nil, fmt.Errorf("hub %s: %w", o.URL, err)
	}
	server, err := served.New(u, served.Options{Credentials: secret, CAFile: o.CAFile})
	if err != nil {
		return nil, fmt.Errorf("hub %s: %w", o.URL, err)
	}
	if o.Timeout == 0 {
		o.Timeout = 2 * time.Minute
	}
	return &Hub{server, o.TokenFile, o.Timeout}, nil
}

// Close closes the connection.
func (h *Hub) Close() { h.server.Close() }

// Errors of the hub. Test for them with errors.Is.
var (
	ErrPoison = errors.New("the hub does not take it, now or later") // 400, 413, 422
	ErrClone  = errors.New("another machine has this instance")      // 409
	ErrOver   = errors.New("this epoch is over")                     // 410
	ErrToken  = errors.New("the token lacks the right, or is for other targets or another instance")
)

// status is an answer that is no success.
type status struct {
	code  int
	after time.Duration // that the hub asks to wait; 0: it does not
}

func (s *status) Error() string {
	return fmt.Sprintf("the hub answers %d %s", s.code, http.StatusText(s.code))
}

// Is tells the errors of this package.
func (s *status) Is(target error) bool {
	switch s.code {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return target == ErrPoison
	case http.StatusConflict:
		return target == ErrClone
	case http.StatusGone:
		return target == ErrOver
	case http.StatusUnauthorized, http.StatusForbidden:
		return target == ErrToken
	case http.StatusNotFound:
		return target == fs.ErrNotExist
	}
	return false
}

// After returns how long the hub asks to wait, by the error of a request; 0: it does not say.
func After(err error) time.Duration {
	if s := (*status)(nil); errors.As(err, &s) {
		return s.after
	}
	return 0
}

// MayHaveArrived reports whether a contribution may count although sending it failed: an answer may be lost.
func MayHaveArrived(err error) bool {
	if s := (*status)(nil); errors.As(err, &s) {
		return s.code >= http.StatusInternalServerError
	}
	o := (*net.OpError)(nil)
	return !served.IsRefusal(err) && !(errors.As(err, &o) && o.Op == "dial")
}

// Send sends a contribution. Without an error the hub has it for good.
func (h *Hub) Send(ctx context.Context, frame []byte) error {
	_, err := h.ask(ctx, http.StatusNoContent, 0, func(ctx context.Context) (*http.Response, error) {
		return h.server.Post(ctx, frame, "", "v1", "contributions")
	})
	if err != nil {
		return fmt.Errorf("send contribution: %w", err)
	}
	return nil
}

// Build is a build that the hub knows.
type Build struct {
	Target  string    `json:"target"`
	Build   string    `json:"build"`
	Unit    string    `json:"unit"` // kind/base
	Samples int64     `json:"samples"`
	Updated time.Time `json:"updated"`
}

// Bounds of answers, in bytes.
const (
	mostBuilds  = 1 << 20
	mostDeleted = 16 << 20
	mostBest    = 16 << 20 // compressed
	mostFanIn   = 8 << 20
	mostFound   = 16 << 20
	mostTag     = 128

	mostOutliers = 1 << 20
)

// Builds returns the builds of a target that the hub knows.
func (h *Hub) Builds(ctx context.Context, target string) (all []Build, err error) {
	body, err := h.Get(ctx, mostBuilds, url.Values{"target": {target}}, "builds")
	if err == nil {
		err = json.Unmarshal(body, &all)
	}
	if err != nil {
		return nil, fmt.Errorf("get builds of the hub: %w", err)
	}
	return all, nil
}

// Best returns the best profile of a build, as the hub has sent it: nothing of it was read. The error wraps
// [fs.ErrNotExist] if the hub has none.
func (h *Hub) Best(ctx context.Context, of Build) ([]byte, error) {
	body, err := h.Get(ctx, mostBest, url.Values{"target": {of.Target}, "build": {of.Build}, "unit": {of.Unit}}, "best")
	if err != nil {
		return nil, fmt.Errorf("get a profile of the hub: %w", err)
	}
	return body, nil
}

// FanIn returns the file of fan-in of a build as the hub has sent it, and its tag: nothing of it was read. Without a
// file and an error the hub has still the one of a tag that is known. The error wraps [fs.ErrNotExist] if the hub does
// not know the build.
func (h *Hub) FanIn(ctx context.Context, of Build, known string) (file []byte, tag string, err error) {
	query := url.Values{"target": {of.Target}, "build": {of.Build}, "unit": {of.Unit}}
	file, err = h.ask(ctx, http.StatusOK, mostFanIn, func(ctx context.Context) (*http.Response, error) {
		r, err := h.server.GetUnless(ctx, known, query.Encode(), "v1", "fanin")
		if err == nil {
			tag = r.Header.Get("ETag")
		}
		return r, err
	})
	if s := (*status)(nil); known != "" && errors.As(err, &s) && s.code == http.StatusNotModified {
		return nil, known, nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("get fan-in of the hub: %w", err)
	}
	if !isTag(tag) {
		tag = ""
	}
	return file, tag, nil
}

// isTag reports whether a text of an answer can be sent back as a tag.
func isTag(s string) bool {
	return len(s) <= mostTag && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

// FanInOf returns what the hub knows of some methods of a build. The caller checks the entries.
func (h *Hub) FanInOf(ctx context.Context, of Build, methods []fleet.Wanted) (found fleet.Found[fanin.Entry], err error) {
	query := url.Values{"target": {of.Target}, "build": {of.Build}, "unit": {of.Unit}}
	text, err := json.Marshal(fleet.Wanteds{Methods: methods})
	if err != nil {
		return found, err
	}
	body, err := h.ask(ctx, http.StatusOK, mostFound, func(ctx context.Context) (*http.Response, error) {
		return h.server.Post(ctx, text, query.Encode(), "v1", "fanin")
	})
	if err == nil {
		err = json.Unmarshal(body, &found)
	}
	if err != nil {
		return found, fmt.Errorf("get fan-in of the hub: %w", err)
	}
	return found, nil
}

// Outliers returns what the hub says of an instance: the builds whose others it differs from.
func (h *Hub) Outliers(ctx context.Context, instance string) (list []fleet.OutlierOf, err error) {
	body, err := h.Get(ctx, mostOutliers, url.Values{"instance": {instance}}, "outliers")
	if err == nil {
		err = json.Unmarshal(body, &list)
	}
	if err != nil {
		return nil, fmt.Errorf("get outliers of the hub: %w", err)
	}
	return list, nil
}

// Get returns the answer of a route below /v1, of at most so many bytes, as the hub has sent it. The error wraps
// [fs.ErrNotExist] if there is no such thing.
func (h *Hub) Get(ctx context.Context, most int64, query url.Values, parts ...string) ([]byte, error) {
	return h.ask(ctx, http.StatusOK, most, func(ctx context.Context) (*http.Response, error) {
		return h.server.Get(ctx, query.Encode(), "", append([]string{"v1"}, parts...)...)
	})
}

// Delete removes builds of a target from the hub, or the one that is named, and returns them.
func (h *Hub) Delete(ctx context.Context, target, build string) (list []fleet.Build, err error) {
	query := url.Values{"target": {target}}
	if build != "" {
		query.Set("build", build)
	}
	body, err := h.ask(ctx, http.StatusOK, mostDeleted, func(ctx context.Context) (*http.Response, error) {
		return h.server.Delete(ctx, query.Encode(), "v1", "builds")
	})
	if err == nil {
		err = json.Unmarshal(body, &list)
	}
	if err != nil {
		return nil, fmt.Errorf("delete builds of the hub: %w", err)
	}
	return list, nil
}

// ask does a request, and reads an answer of at most so many bytes. Any other success than the one that is wanted is
// none: something that is no hub may have answered.
func (h *Hub) ask(ctx context.Context, want int, most int64, do func(context.Context) (*http.Response, error)) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, h.timeout)
	defer cancel()
	f, err := safepath.OpenFile(h.token)
	if err != nil {
		return nil, served.Refuse(fmt.Errorf("read token: %w", err))
	}
	f.Close()
	r, err := do(ctx)
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	if r.StatusCode != want {
		seconds, _ := strconv.ParseUint(r.Header.Get("Retry-After"), 10, 16)
		return nil, &status{r.StatusCode, min(time.Duration(seconds)*time.Second, time.Hour)}
	}
	if most == 0 {
		return nil, nil
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, most+1))
	switch {
	case err != nil:
		return nil, err
	case int64(len(body)) > most:
		return nil, served.Refuse(fmt.Errorf("the answer has more than %d MiB", most>>20))
	}
	return body, nil
}
