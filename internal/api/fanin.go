package api

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strings"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/fanin"
	"github.com/ccmapd/ccmapd/internal/store"
	"github.com/ccmapd/ccmapd/internal/view"
)

// fanInName is the route of what the fleet knows of the methods of a profile: from how many places each is called.
const fanInName = "fanin"

var errNoFanIn = &view.Error{Code: view.CodeNoTarget, Err: errors.New("no fan-in of a fleet is kept of this program"),
	Hint: "A daemon keeps it of programs that it samples and sends, where [hub] has url and read_token_file, and [store] files = true."}

// fanIn answers with a file of package fanin, for whom the profile exists.
//
// Other machines have counted it, and a program can bear the build id of another one. So a peer that does not see all
// targets gets the methods that its own profile has with the same code, and no other names.
func (c *call) fanIn(ref string, p *params) error {
	event := p.text("event", "")
	if err := p.check(); err != nil {
		return err
	}
	s, err := c.snapshot(ref, event)
	if err != nil {
		return err
	}
	question := fmt.Sprint(c.question(ref, fanInName), "\x00", c.peer.reads)
	a, err := c.shares.get(c.Context(), question, [2]*ccmap.Snapshot{s}, func() (a answer, err error) {
		a.contentType = "application/octet-stream"
		a.body, err = c.keptFanIn(ref, s)
		return a, err
	})
	if c.metrics.loaded(err); err != nil {
		return err
	}
	return c.send(http.StatusOK, a)
}

// keptFanIn returns what the daemon keeps of the program of a profile, as far as the peer may see it.
func (c *call) keptFanIn(ref string, s *ccmap.Snapshot) ([]byte, error) {
	target := c.targetOf(ref)
	if target == "" || c.options.Daemon == nil || s.Meta().Unit != ccmap.CPUTime {
		return nil, errNoFanIn
	}
	reader := c.options.Daemon.Stored()
	if reader == nil {
		return nil, errNoFanIn
	}
	known, err := reader.FanIn(target, s.Meta().Target.BuildID)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, errNoFanIn
	case err != nil || c.peer.reads:
		return known.File, err
	}
	return sameCode(known.File, s)
}

// targetOf returns the target of a reference that the peer may see; "" if it has none.
func (c *call) targetOf(ref string) string {
	kind, rest, _ := strings.Cut(ref, ":")
	if kind == liveKind {
		t, _, err := c.process(rest)
		if err != nil {
			return ""
		}
		return t.Name
	}
	to, err := store.ParseReference(ref)
	if err != nil {
		return ""
	}
	return to.Name
}

// sameCode returns a file of the methods that a profile has with the same code. A caller that is no such method counts
// without its name.
func sameCode(file []byte, s *ccmap.Snapshot) ([]byte, error) {
	f, err := fanin.Open(file)
	if err != nil {
		return nil, err
	}
	own, err := f.WithCode(fanin.Keys(s))
	if err != nil {
		return nil, err
	}
	return fanin.Encode(own), nil
}
