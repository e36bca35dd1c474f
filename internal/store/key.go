package store

import (
	"cmp"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/process"
)

// Key names the program and the weights of a stored profile. Profiles of one key add up.
type Key struct {
	Target string
	Build  string     // id; empty: unknown
	Unit   ccmap.Unit // of the weights
	Owner  process.Owner
}

// Process is a process that a stream is of, as [process.Facts] has it.
type Process struct {
	PID     int
	Started uint64 // since boot, in ticks of 10 ms
}

// Event returns the kind of a unit in paths and references, for example "cpu" or "alloc_space".
func Event(u ccmap.Unit) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '_':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '_'
	}, u.Kind())
	return cmp.Or(name[:min(len(name), mostChars)], "_")
}

// Names below the directory of a store.
const (
	targetsDir = "targets"
	logDir     = "log"
	lockName   = "lock"
	formatName = "format"
	indexName  = "index"
	mergeName  = "merging"
	tempName   = ".writing" // one writer holds the lock
	tempType   = ".tmp"     // of a hidden file that Add writes

	periodTime = "20060102T150405.000Z"
	fileType   = ".json.zst"
	momentType = ".moments"
	bestStem   = "best"
	phaseStem  = "phase-"
	fleetStem  = "fleet"

	buildChars = 12 // of a build id
	mostChars  = 64 // of an event, and of a target's name in a path: longer ones are refused
)

// BuildName returns a build id as the name of a directory.
func BuildName(build string) string {
	if build == "" {
		return "unknown"
	}
	name := strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, build)
	return name[:min(len(name), buildChars)]
}

// isName reports whether a text may be the name of a directory of the store.
func isName(s string) bool {
	return s != "" && len(s) <= 255 && s[0] != '.' && !strings.ContainsFunc(s, func(r rune) bool {
		return r < ' ' || r == '/' || r == 0x7f
	})
}

// dir returns the directory of a key's files.
func (k Key) dir() string { return path.Join(targetsDir, k.Target, BuildName(k.Build), Event(k.Unit)) }

// fileName is the name of a file, taken apart.
type fileName struct {
	best     bool
	fleet    bool      // of a best file: a hub knows it, and it was not sampled here
	phase    int       // of a best file: the phase that it is the best of; 0: the one that is offered
	from, to time.Time // of a period
	level    Level
	owner    process.Owner
}

// String returns the name.
func (n fileName) String() string {
	stem := bestStem
	switch {
	case n.fleet:
		stem = fleetStem
	case n.best && n.phase > 0:
		stem = phaseStem + strconv.Itoa(n.phase)
	case !n.best:
		stem = n.from.UTC().Format(periodTime) + "-" + n.to.UTC().Format(periodTime)
		if n.level != LevelPeriod {
			stem += "." + n.level.String()
		}
	}
	return stem + ownerMark(n.owner) + fileType
}

// ownerMark names an owner whose profile other users than masters may see: its own user.
func ownerMark(o process.Owner) string {
	if !o.Traceable || o.UID < 0 || o.GID < 0 {
		return ""
	}
	return fmt.Sprintf(".u%dg%d", o.UID, o.GID)
}

// parseFileName reads the name of a file of the store.
func parseFileName(name string) (n fileName, ok bool) {
	stem, ok := strings.CutSuffix(name, fileType)
	if !ok {
		return n, false
	}
	stem, n.owner, ok = cutOwner(stem)
	if !ok {
		return n, false
	}
	if stem == bestStem || stem == fleetStem {
		n.best, n.fleet = true, stem == fleetStem
		return n, true
	}
	if number, isPhase := strings.CutPrefix(stem, phaseStem); isPhase {
		phase, err := strconv.ParseUint(number, 10, 16)
		n.best, n.phase = true, int(phase)
		return n, err == nil && phase > 0 && strconv.Itoa(n.phase) == number
	}
	for l := LevelHour; l <= LevelDay; l++ {
		if of, is := strings.CutSuffix(stem, "."+l.String()); is {
			stem, n.level = of, l
			break
		}
	}
	from, to, found := strings.Cut(stem, "-")
	if !found {
		return n, false
	}
	var err, err2 error
	n.from, err = time.Parse(periodTime, from)
	n.to, err2 = time.Parse(periodTime, to)
	return n, err == nil && err2 == nil
}

// cutOwner cuts the mark of an owner from the end of a name.
func cutOwner(stem string) (string, process.Owner, bool) {
	at := strings.LastIndex(stem, ".u")
	if at < 0 {
		return stem, process.Unowned, true
	}
	uid, gid, found := strings.Cut(stem[at+2:], "g")
	u, err := strconv.ParseUint(uid, 10, 31)
	g, err2 := strconv.ParseUint(gid, 10, 31)
	o := process.Owner{UID: int(u), GID: int(g), Traceable: true}
	return stem[:at], o, found && err == nil && err2 == nil && ownerMark(o) == stem[at:]
}
