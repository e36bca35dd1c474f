package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/ccmapd/ccmapd/internal/fleet"
)

// A build is deleted by one change of its manifest: its parts go, and a tombstone stands for them. So a kill leaves it
// whole or deleted, and of a target some builds of each: the same request deletes the rest. While the tombstone stands,
// no hub takes or merges contributions of the build. What was counted stays known, so that it does not count again
// afterwards. The objects are garbage.

// deletedFor is how long a tombstone stands: as long as an epoch takes contributions.
const deletedFor = epochLife

// bury removes what is known of a build but for the numbers of its contributions.
func (m *manifest) bury(now time.Time) {
	m.Parts, m.Outliers, m.Contributions, m.Deleted = nil, nil, 0, now
	for _, i := range m.Instances {
		i.Class, i.Look, i.Odd = 0, 0, 0
	}
}

// isDeleted reports whether a build was deleted lately.
func (m *manifest) isDeleted(now time.Time) bool {
	return !m.Deleted.IsZero() && now.Sub(m.Deleted) < deletedFor
}

// remove deletes the builds of ?target=, or the one of ?build=, in all units, and answers with them.
func (h *Hub) remove(w http.ResponseWriter, r *http.Request, t token) error {
	q := r.URL.Query()
	target, build := q.Get("target"), q.Get("build")
	if target == "" {
		return refuse(http.StatusBadRequest, "name ?target=, and perhaps &build=: GET /v1/builds has them")
	}
	if !t.permits(target) {
		return refuse(http.StatusForbidden, "the token is for other targets")
	}
	builds, err := h.permitted(r, t)
	if err != nil {
		return err
	}
	deleted := []fleet.Build{}
	for _, b := range builds {
		if build != "" && b.Build != build {
			continue
		}
		done, err := h.removeBuild(r.Context(), b.ID)
		if err != nil {
			return err
		}
		if done {
			h.auditDeletion(r, t, b)
			deleted = append(deleted, b)
		}
	}
	if len(deleted) == 0 {
		return errNoBuild
	}
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(deleted)
}

// removeBuild deletes a build. It reports false if another has done so.
func (h *Hub) removeBuild(ctx context.Context, id string) (bool, error) {
	for range mostTries {
		m, tag, err := readManifest(ctx, h.Bucket, id)
		if errors.Is(err, errNewer) {
			return false, refuse(http.StatusServiceUnavailable, "%v: update the hub", err)
		}
		if err != nil || len(m.Parts) == 0 {
			return false, err
		}
		m.advance()
		m.bury(h.Now())
		done, err := swap(ctx, h.Bucket, id, m, tag)
		if err != nil {
			return false, err
		}
		if done {
			h.catalog.drop(id)
			return true, nil
		}
	}
	return false, fmt.Errorf("delete build %s: others were faster %d times", id, mostTries)
}

// drop forgets the manifest of a build that has changed.
func (c *catalog) drop(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.known, id)
	delete(c.said, id)
}
