package daemon

import (
	"io"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/feedback/gopgo"
)

// WritePGO writes what 'go build -pgo' reads of a profile, as small as it can be. Equal profiles have equal bytes.
func WritePGO(w io.Writer, s *ccmap.Snapshot) error { return gopgo.Serve(w, s) }
