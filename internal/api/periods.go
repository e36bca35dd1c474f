package api

import (
	"net/http"
	"slices"

	"github.com/ccmapd/ccmapd/internal/store"
)

// mostPeriods bounds the stored profiles of an answer: those of two months by the hour.
const mostPeriods = 1500

// periodsJSON is the answer of /v1/targets/NAME/periods.
type periodsJSON struct {
	Entries []store.Listed `json:"entries"` // the latest first, without the names of files
}

// periods answers which profiles of a target are stored, those that the peer may read.
func (c *call) periods() error {
	q := newParams(c.URL.Query())
	event := q.text("event", "")
	if err := q.check(); err != nil {
		return err
	}
	t, err := c.named(c.PathValue("target"))
	if err != nil {
		return err
	}
	a, err := c.shares.inTurn(c.Context(), func() (answer, error) { return writeJSON(periodsJSON{c.listed(t.Name, event)}, "") })
	if err != nil {
		return err
	}
	return c.send(http.StatusOK, a)
}

// listed returns the stored profiles of a target: out of the names of its files, the index, and what the daemon knows of
// its log.
func (c *call) listed(target, event string) []store.Listed {
	reader := c.options.Daemon.Stored()
	if reader == nil {
		return []store.Listed{}
	}
	entries := reader.List(store.Filter{Target: target, Event: event, Running: true, Visible: c.peer.mayRead}).Entries
	slices.SortStableFunc(entries, func(a, b store.Entry) int { return b.To.Compare(a.To) })
	all := store.ListedOf(entries[:min(len(entries), mostPeriods)])
	for i := range all {
		all[i].File = "" // a client has no use for it
	}
	return all
}
