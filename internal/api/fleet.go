package api

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/store"
	"github.com/ccmapd/ccmapd/internal/view"
)

// Fleet asks the hub of a fleet. Any goroutine may call it.
type Fleet interface {
	// Ask returns what 'ccmapd fleet ABOUT' prints as JSON; name is TARGET, TARGET@BUILD or "". About "fanin" it is what
	// 'ccmapd fanin @hub/build:NAME METHOD' does: no methods, if the build has none of that whole name.
	Ask(ctx context.Context, about, name, method, event string) (any, error)
	// Profile returns a profile, of at most so many bytes, in a format that ccmapd reads.
	Profile(ctx context.Context, ref, event string, most int64) ([]byte, error)
}

const (
	hubPrefix    = "@hub/"          // of references
	mostOfFleet  = 2                // requests to a hub at once
	fleetWait    = 30 * time.Second // for an answer of it
	mostFleetMap = 64 << 20         // bytes of a profile, as it is sent
)

var errNoFleet = &view.Error{Code: view.CodeNoTarget, Err: errors.New("no hub of a fleet is known here"),
	Hint: "Name its URL in CCMAPD_HUB, and the file of a token that reads in CCMAPD_HUB_TOKEN_FILE: 'ccmapd fleet --help'."}

// askFleet answers what a command of the fleet prints. A fleet is of all users of many machines.
func (c *call) askFleet() error {
	if c.options.Fleet == nil {
		return errNoFleet
	}
	q := newParams(c.URL.Query())
	name, method, event := q.text("name", ""), q.text("method", ""), q.text("event", store.Event(ccmap.CPUTime))
	if err := q.check(); err != nil {
		return err
	}
	done, err := c.turnAtHub()
	if err != nil {
		return err
	}
	defer done()
	ctx, cancel := context.WithTimeout(c.Context(), fleetWait)
	defer cancel()
	v, err := c.options.Fleet.Ask(ctx, c.PathValue("about"), name, method, event)
	if err != nil {
		return err
	}
	return c.respond(http.StatusOK, v)
}

// turnAtHub bounds the requests that clients have the server send to the hub.
func (s *Server) turnAtHub() (done func(), err error) {
	select {
	case s.fleetTurns <- struct{}{}:
		return func() { <-s.fleetTurns }, nil
	default:
		return nil, errBusy
	}
}

// isOfFleet reports whether a reference is the fleet's: a hub's, or any that the server has not itself.
func (c *call) isOfFleet(ref string) bool {
	kind, _, _ := strings.Cut(ref, ":")
	return strings.HasPrefix(ref, hubPrefix) || c.others && c.options.Fleet != nil && kind != fileKind && kind != uploadKind
}

// ofFleet returns a profile of the fleet, which the hub, a foreign peer, has sent. It is read once for all that ask for
// it soon after.
func (c *call) ofFleet(ref, event string) (*ccmap.Snapshot, error) {
	if err := c.peer.may(readers); err != nil {
		return nil, as(err, errNoRef)
	}
	if c.options.Fleet == nil {
		return nil, errNoFleet
	}
	return c.archive.get(c, strings.Join([]string{"fleet", ref, event}, "\x00"), func(ctx context.Context, l *load) (*ccmap.Snapshot, error) {
		done, err := c.turnAtHub()
		if err != nil {
			return nil, err
		}
		defer done()
		ctx, cancel := context.WithTimeout(ctx, fleetWait)
		defer cancel()
		text, err := c.options.Fleet.Profile(ctx, ref, event, min(mostFleetMap, c.uploads.mostBody()))
		if err != nil {
			return nil, err
		}
		return c.archive.read(ctx, c.shares, l, func(o export.ReadOptions) (*ccmap.Map, error) {
			m, _, err := export.Read(bytes.NewReader(text), o)
			if err != nil && !isTooLarge(err) {
				err = &view.Error{Code: view.CodeFailed, Err: fmt.Errorf("%s: what the hub sends is no profile: %w", ref, err), Hint: cmp.Or(view.ErrorOf(err).Hint, "Ask whoever runs the hub.")}
			}
			return m, err
		}, int64(len(text)))
	})
}
