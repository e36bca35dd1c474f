package api

import (
	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/moments"
)

// writeMoments answers with the moments of a profile, as files of the store have them: the map that a client gets
// beside them has their contexts.
func writeMoments(s *ccmap.Snapshot, p *params) (answer, error) {
	if err := p.check(); err != nil {
		return answer{}, err
	}
	if s.Moments() == nil {
		return answer{}, usageError("the profile has no moments: span:NAME has")
	}
	var b boundedBuffer
	if err := moments.Write(&b, s.Moments()); err != nil {
		return answer{}, err
	}
	return answer{contentType: "application/octet-stream", body: b.Bytes()}, nil
}
