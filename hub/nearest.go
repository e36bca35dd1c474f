package hub

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/ccmapd/ccmapd/internal/fleet"
)

// mostNear bounds the builds that are compared with one that is not known: the last ones of its target.
const mostNear = 16

// nearest returns builds of a target, the one first whose weight the methods have most of. Of methods whose body one of
// the two does not know, name and signature count.
func (c *catalog) nearest(ctx context.Context, builds []fleet.Build, methods []fleet.Method) ([]fleet.Near, error) {
	builds = slices.Clone(builds)
	slices.SortFunc(builds, func(a, b fleet.Build) int { return b.Updated.Compare(a.Updated) })
	bodies := make(map[[2]string]string, len(methods))
	for _, m := range methods {
		bodies[[2]string{m.Name, m.Signature}] = m.Body
	}
	list := []fleet.Near{}
	for _, b := range builds[:min(len(builds), mostNear)] {
		m, err := c.get(ctx, b.ID)
		if err != nil {
			return nil, err
		}
		is, err := c.part(ctx, b.ID, "methods", m, methodsOf)
		if err != nil {
			return nil, err
		}
		var table []fleet.Method
		if err := json.Unmarshal(is.body, &table); err != nil {
			return nil, err
		}
		list = append(list, fleet.Near{Build: b, Kept: kept(table, bodies)})
	}
	slices.SortStableFunc(list, func(a, b fleet.Near) int {
		return cmp.Or(cmp.Compare(b.Kept, a.Kept), b.Updated.Compare(a.Updated))
	})
	return list, nil
}

// kept returns the percentage of the weight of methods that still exist.
func kept(table []fleet.Method, bodies map[[2]string]string) float64 {
	var part, all float64
	for _, m := range table {
		all += float64(m.Weight)
		body, exists := bodies[[2]string{m.Name, m.Signature}]
		if exists && (body == m.Body || body == "" || m.Body == "") {
			part += float64(m.Weight)
		}
	}
	if all == 0 {
		return 0
	}
	return 100 * part / all
}
