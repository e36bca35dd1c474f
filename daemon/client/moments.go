package client

import (
	"bytes"
	"context"
	"strings"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/moments"
)

// A time of a target, @span:NAME, is its map and the moments of its samples, which the daemon sends apart.

// hasMoments reports whether a name is of a time of a daemon's target.
func hasMoments(where string) bool {
	_, ref, isSocket := strings.Cut(where, "#")
	if after, ok := strings.CutPrefix(where, "@"); ok {
		ref, isSocket = after, true
	}
	return isSocket && IsRemote(where) && !strings.Contains(where, "://") && strings.HasPrefix(ref, "span:")
}

// fetchMoments gets the moments of a profile that was fetched, and returns their bytes.
func (r *Reader) fetchMoments(ctx context.Context, where string, limit int64) (int64, error) {
	if !hasMoments(where) {
		return 0, nil
	}
	data, err := r.get(ctx, where, "moments", limit)
	if err != nil {
		return 0, err
	}
	if r.moments == nil {
		r.moments = make(map[string][]byte)
	}
	r.moments[where] = data
	return int64(len(data)), nil
}

// setMoments gives a map its moments, if they were fetched.
func (r *Reader) setMoments(m *ccmap.Map, where string) {
	if data, ok := r.moments[where]; ok {
		m.SetMoments(func(yield func(ccmap.Moment) bool) {
			_, _ = moments.Read(bytes.NewReader(data), yield) // the daemon has said what is damaged
		})
	}
}
