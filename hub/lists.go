package hub

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/ccmapd/ccmapd/internal/fleet"
)

// Lists are bounded. With ?limit= an answer is a page ([fleet.Page]) by ids of builds, and &after= asks for the next one.
// Without it, as clients of before ask, it is the beginning of the list.

const (
	mostListed = 1000 // builds or outliers of an answer
	mostReads  = 1000 // manifests that are read for a page
)

// pageOf returns which page a request asks for, if it asks for one.
func pageOf(r *http.Request) (after string, limit int, is bool, err error) {
	q := r.URL.Query()
	if !q.Has("limit") {
		return "", mostListed, false, nil
	}
	if limit, err = strconv.Atoi(q.Get("limit")); err != nil || limit < 1 {
		return "", 0, true, refuse(http.StatusBadRequest, "limit %.20q is no number from 1 on", q.Get("limit"))
	}
	return q.Get("after"), min(limit, mostListed), true, nil
}

func sendJSON(w http.ResponseWriter, answer any) error {
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(answer)
}

// builds lists the builds of all targets, or of ?target=. The beginning of the list has those that were updated last.
func (h *Hub) builds(w http.ResponseWriter, r *http.Request, t token) error {
	after, limit, isPage, err := pageOf(r)
	if err != nil {
		return err
	}
	if !isPage {
		list, err := h.permitted(r, t)
		if err != nil {
			return err
		}
		return sendJSON(w, list[:min(len(list), limit)])
	}
	page := fleet.Page[fleet.Build]{List: []fleet.Build{}}
	page.Next, err = h.catalog.scan(r.Context(), after, permits(r, t), func(b fleet.Build) (bool, error) {
		page.List = append(page.List, b)
		return len(page.List) < limit, nil
	})
	if err != nil {
		return err
	}
	return sendJSON(w, page)
}

// outliers lists the outliers of all builds, or of ?target=, and of one instance by ?instance=. A page has whole builds:
// it may have some more than its limit.
func (h *Hub) outliers(w http.ResponseWriter, r *http.Request, t token) error {
	after, limit, isPage, err := pageOf(r)
	if err != nil {
		return err
	}
	instance, reads := r.URL.Query().Get("instance"), 0
	page := fleet.Page[fleet.OutlierOf]{List: []fleet.OutlierOf{}}
	visit := func(b fleet.Build) (bool, error) {
		if b.Outliers == 0 {
			return true, nil
		}
		reads++
		m, err := h.catalog.get(r.Context(), b.ID)
		if err != nil {
			return false, err
		}
		for _, o := range m.Outliers {
			if instance == "" || o.Instance == instance {
				page.List = append(page.List, fleet.OutlierOf{Target: b.Target, Build: b.Build, Unit: b.Unit, Outlier: o})
			}
		}
		return len(page.List) < limit && (reads < mostReads || !isPage), nil
	}
	for {
		page.Next, err = h.catalog.scan(r.Context(), after, permits(r, t), visit)
		if err != nil {
			return err
		}
		if isPage {
			return sendJSON(w, page)
		}
		if page.Next == "" || len(page.List) >= limit {
			return sendJSON(w, page.List[:min(len(page.List), limit)])
		}
		after = page.Next
	}
}
