package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/ccmapd/ccmapd/internal/daemon"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/internal/view"
	"github.com/ccmapd/ccmapd/sampler"
)

// healthz answers whether the daemon samples.
func (c *call) healthz() error {
	err := c.options.Daemon.Healthy()
	if err != nil && !c.peer.reads {
		err = errors.New("a session is stuck") // which may be another user's
	}
	return c.state(err)
}

// readyz answers whether the daemon has looked at all processes once.
func (c *call) readyz() error { return c.state(c.options.Daemon.Ready()) }

func (c *call) state(err error) error {
	c.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	text := "ok"
	if err != nil {
		c.w.WriteHeader(http.StatusServiceUnavailable)
		text = err.Error()
	}
	c.deadline()
	fmt.Fprintln(c.w, text)
	return nil
}

// infoJSON is the answer of /v1/info.
type infoJSON struct {
	Version string       `json:"version"`
	Engines []string     `json:"engines"` // best first
	Targets int          `json:"targets"` // that the caller may see
	Ready   bool         `json:"ready"`   // the first look for processes is done
	Healthy bool         `json:"healthy"` // no session is stuck
	Loaded  bool         `json:"loaded"`  // the last reload took effect
	Limits  limitsJSON   `json:"limits"`
	You     identityJSON `json:"you"`

	Hub *daemon.Sending `json:"hub,omitempty"` // for readers of all targets: how what is filed gets there
}

type limitsJSON struct {
	Connections       int   `json:"connections"`
	ConnectionsOfUser int   `json:"connections_of_user"`
	Heavy             int   `json:"heavy_views"`
	UploadBytes       int64 `json:"upload_bytes"`
	AnswerBytes       int64 `json:"answer_bytes"`
	UploadKept        int64 `json:"upload_kept_ns"`
}

// identityJSON names the caller and its rights.
type identityJSON struct {
	UID  *uint32 `json:"uid,omitempty"`  // on a socket
	User string  `json:"user,omitempty"` // of the web configuration
	May  string  `json:"may"`            // "everything", "read" or "own": see the processes that they may trace, and attach to them
}

func (c *call) info() error {
	d := c.options.Daemon
	info := infoJSON{
		Version: c.options.Version, Engines: []string{}, Targets: len(c.visibleTargets()), You: identityJSON{User: c.peer.user, May: "own"},
		Ready: d.Ready() == nil, Healthy: d.Healthy() == nil, Loaded: d.LastReload() == nil,
	}
	for _, e := range c.options.Engines {
		info.Engines = append(info.Engines, e.Name)
	}
	info.Limits = limitsJSON{mostConnections, mostOfOneUser, mostHeavy, c.uploads.mostBody(), mostAnswer, int64(uploadKept)}
	switch {
	case c.peer.master:
		info.You.May = "everything"
	case c.peer.reads:
		info.You.May = "read"
	}
	if k, keeps := d.Keeping(); keeps && c.peer.reads {
		info.Hub = k.Hub
	}
	if !c.peer.tcp {
		info.You.UID = &c.peer.uid
	}
	return c.respond(http.StatusOK, info)
}

// visibleTargets returns the targets that the peer may see.
func (c *call) visibleTargets() []daemon.TargetStatus {
	var seen []daemon.TargetStatus
	for _, t := range c.profiles.Targets() {
		if c.seesNow(&t) {
			seen = append(seen, t)
		}
	}
	return seen
}

// targetsJSON is the answer of /v1/targets.
type targetsJSON struct {
	Targets []daemon.TargetStatus `json:"targets"`
}

func (c *call) targets() error {
	return c.respond(http.StatusOK, targetsJSON{append([]daemon.TargetStatus{}, c.visibleTargets()...)})
}

func (c *call) target() error {
	t, err := c.named(c.PathValue("target"))
	if err != nil {
		return err
	}
	return c.respond(http.StatusOK, t)
}

// mostAttached bounds the processes that a user without all rights attaches to: there must be room for
// others, and for the targets of the configuration.
const mostAttached = 16

// mostCommand bounds the body of a request that changes something, bytes.
const mostCommand = 4 << 10

// attach attaches to a process of the peer, a master to any.
func (c *call) attach() error {
	var asked struct {
		PID int `json:"pid"`
	}
	body := json.NewDecoder(http.MaxBytesReader(c.w, io.NopCloser(progressing{c, time.Now().Add(c.stall)}), mostCommand))
	body.DisallowUnknownFields()
	if err := body.Decode(&asked); err != nil || asked.PID <= 0 {
		return usageError(`the body must be {"pid": N}`)
	}
	if err := c.mayAttach(asked.PID); err != nil {
		return err
	}
	name, err := c.options.Daemon.Attach(c.Context(), asked.PID)
	if err != nil {
		c.note("a client could not attach", "pid", asked.PID, "error", err)
		return err
	}
	c.note("a client has attached", "target", name, "pid", asked.PID)
	t, err := c.visible(name)
	if err != nil { // the process has changed its owner, or another has its number
		c.options.Daemon.Detach(name) // unless it is of the configuration
		return as(err, noProcess(asked.PID))
	}
	c.w.Header().Set("Location", "/v1/targets/"+url.PathEscape(name))
	return c.respond(http.StatusCreated, t)
}

// mayAttach returns an error if a process is not the peer's, by the rules of the kernel.
func (c *call) mayAttach(pid int) error {
	switch {
	case c.peer.master:
		return nil
	case c.peer.tcp:
		return errNotPermitted
	}
	owner, err := process.OwnerOf(pid)
	switch {
	case err != nil:
		return noProcess(pid)
	case c.peer.access(owner) == process.NoAccess:
		return hidden{noProcess(pid)}
	}
	own := 0
	for _, t := range c.options.Daemon.Targets() {
		switch sees := c.seesNow(&t); {
		case sees && t.Has(pid):
			return nil
		case t.Has(pid):
			return &view.Error{Code: view.CodeNotPermitted, Err: fmt.Errorf("attach to %d: the daemon samples it with processes of others", pid),
				Hint: "Sample it on your own: ccmapd attach " + strconv.Itoa(pid)}
		case sees && t.Attached:
			own++
		}
	}
	if own >= mostAttached {
		return &view.Error{Code: view.CodeBusy, Err: fmt.Errorf("attach to %d: you have attached to %d processes, and no user may to more", pid, own),
			Hint: "DELETE /v1/targets/NAME gives one up; one whose process has ended goes after an hour."}
	}
	return nil
}

func noProcess(pid int) error {
	return &view.Error{Code: view.CodeNoTarget, Err: fmt.Errorf("attach to %d: %w", pid, sampler.ErrNoProcess)}
}

// detach ends a target that was attached to by a request.
func (c *call) detach() error {
	if c.peer.tcp && !c.peer.master {
		return errNotPermitted
	}
	t, err := c.named(c.PathValue("target"))
	if err != nil {
		return err
	}
	if err := c.options.Daemon.Detach(t.Name); err != nil {
		return err
	}
	c.note("a client has detached", "target", t.Name)
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// act pauses, resumes or rotates a target.
func (c *call) act() (err error) {
	t, err := c.named(c.PathValue("target"))
	if err != nil {
		return err
	}
	action := c.PathValue("action")
	switch action {
	case "pause":
		err = c.options.Daemon.Pause(t.Name)
	case "resume":
		err = c.options.Daemon.Resume(t.Name)
	case "rotate":
		err = c.options.Daemon.Rotate(c.Context(), t.Name)
	default:
		err = &view.Error{Code: view.CodeNoTarget, Err: fmt.Errorf("there is no action %q", action), Hint: "There are pause, resume and rotate."}
	}
	if err == nil {
		c.note("a client has changed a target", "target", t.Name, "action", action)
	}
	return c.accepted(err)
}

func (c *call) reload() error {
	err := c.options.Daemon.Reload()
	c.note("a client reloads the configuration", "loaded", err == nil)
	if err != nil {
		return &view.Error{Code: view.CodeUsage, Err: err, Hint: "The configuration of before is still in force."}
	}
	return c.accepted(nil)
}

func (c *call) accepted(err error) error {
	if err == nil {
		c.w.WriteHeader(http.StatusAccepted)
	}
	return err
}

// heartbeat is how often an idle stream of events shows that it goes on.
const heartbeat = 15 * time.Second

// events streams the events that the peer may see, as server-sent events (the EventSource of
// the HTML standard).
func (c *call) events() error {
	p := newParams(c.URL.Query())
	since := p.text("since", c.Request.Header.Get("Last-Event-ID"))
	follows := p.text("follow", "true") != "false"
	last, err := strconv.ParseUint("0"+since, 10, 64)
	if err = errors.Join(p.check(), err); err != nil {
		return usageError("since=%s is not the number of an event", since)
	}
	leave, ok := c.streams.enter(c.peer)
	if !ok {
		return errBusy
	}
	defer leave()
	events, cancel := c.options.Daemon.Events(last)
	defer cancel()
	c.w.Header().Set("Content-Type", "text/event-stream")
	c.w.Header().Set("Cache-Control", "no-store")
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	if err := c.push(": ccmapd\n\n"); err != nil {
		return nil
	}
	for !follows {
		select {
		case e, ok := <-events:
			if !ok || c.pushEvent(e) != nil {
				return nil
			}
		default:
			return nil
		}
	}
	for {
		select {
		case e, ok := <-events:
			if !ok || c.pushEvent(e) != nil {
				return nil
			}
		case <-beat.C:
			if c.push(":\n\n") != nil {
				return nil
			}
		case <-c.ending.Done():
			return nil
		case <-c.Context().Done():
			return nil
		}
	}
}

// pushEvent sends an event, if it is the peer's, and its target has become no others' meanwhile.
func (c *call) pushEvent(e daemon.Event) error {
	if c.peer.scope = c.scope(); !c.hearsNow(e) {
		return nil
	}
	text, err := terminal.LineJSON(e)
	if err != nil {
		return err
	}
	return c.push(fmt.Sprintf("id: %d\nevent: %s\ndata: %s\n\n", e.Seq, e.Kind, text))
}

// hearsNow reports whether the peer hears an event, by the owners that its target has now. A target that is no
// more leaves the owner of the event.
func (c *call) hearsNow(e daemon.Event) bool {
	if !c.peer.hears(e) || c.peer.reads {
		return c.peer.hears(e)
	}
	now, err := c.options.Daemon.Recheck(e.Target)
	return err != nil || c.peer.sees(now)
}

// push sends a part of a stream at once.
func (c *call) push(text string) error {
	c.deadline()
	if _, err := c.w.Write([]byte(text)); err != nil {
		return err
	}
	return http.NewResponseController(c.w).Flush()
}
