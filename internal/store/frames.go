package store

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/internal/store/internal/deltalog"
)

// The kinds of frames. A reader skips kinds that it does not know.
const (
	kindDelta   deltalog.Kind = 1 + iota // adds to its stream
	kindWhole                            // stands for all earlier frames of its stream, and for the marks
	kindFiling                           // what the marks mean will be in a file
	kindFiled                            // it is
	kindVoid                             // it is not, and will not be
	kindDropped                          // what the marks mean is given up
)

// mark means the frames of a stream up to a number.
type mark struct {
	Stream uint64 `json:"s"`
	Seq    uint64 `json:"n"`
}

// head is the head of a frame, in JSON. Times are Unix nanoseconds. Readers skip fields that they do not know.
type head struct {
	Target    string `json:"t,omitempty"`
	Build     string `json:"b,omitempty"`
	UnitKind  string `json:"k,omitempty"`
	UnitBase  string `json:"u,omitempty"`
	UID       int    `json:"uid,omitempty"`
	GID       int    `json:"gid,omitempty"`
	Traceable bool   `json:"tr,omitempty"`
	PID       int    `json:"pid,omitempty"`
	Started   uint64 `json:"st,omitempty"`
	From      int64  `json:"f,omitempty"`
	To        int64  `json:"e,omitempty"`
	Commit    int64  `json:"c,omitempty"` // of the build's source, Unix seconds

	// After is the last frame of the stream before this one that was acknowledged. Frames between are void: this
	// one has what they had.
	After uint64 `json:"a,omitempty"`
	Marks []mark `json:"m,omitempty"`
	Path  string `json:"p,omitempty"` // of a file, below the directory of the store
}

func newHead(k Key, p Process, from, to time.Time) head {
	return head{
		Target: k.Target, Build: k.Build, UnitKind: k.Unit.Kind(), UnitBase: k.Unit.Base(),
		UID: k.Owner.UID, GID: k.Owner.GID, Traceable: k.Owner.Traceable,
		PID: p.PID, Started: p.Started, From: from.UnixNano(), To: to.UnixNano(),
	}
}

func (h *head) key() Key {
	return Key{
		Target: h.Target, Build: h.Build, Unit: ccmap.NewUnit(h.UnitKind, h.UnitBase),
		Owner: process.Owner{UID: h.UID, GID: h.GID, Traceable: h.Traceable},
	}
}

// commit returns when the source of the build was committed; zero: not known.
func (h *head) commit() time.Time { return fromUnix(h.Commit) }

// fromUnix returns a time, zero of 0 seconds, which mean that it is not known.
func fromUnix(seconds int64) time.Time {
	if seconds == 0 {
		return time.Time{}
	}
	return time.Unix(seconds, 0).UTC()
}

// toUnix is the inverse of fromUnix.
func toUnix(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}

func (h *head) process() Process { return Process{h.PID, h.Started} }

// frame returns a frame of the log without a body.
func (h *head) frame(k deltalog.Kind) deltalog.Frame {
	text, _ := json.Marshal(h) // texts and numbers
	return deltalog.Frame{Kind: k, Head: text}
}

func parseHead(text []byte) (h head, err error) {
	if err := json.Unmarshal(text, &h); err != nil {
		return h, fmt.Errorf("read head of a frame: %w", err)
	}
	return h, nil
}
