package api

import (
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
)

// File is a profile that has been read. Clients know it as file:1, file:2 and so on, never by its path.
type File struct {
	Name     string // for people, without folders
	Snapshot *ccmap.Snapshot
}

// LocalOptions say what a program shows of its own.
type LocalOptions struct {
	Version  string             // of the program
	Files    []File             // that it has read
	Sessions map[string]Session // that sample, by name
	Fleet    Fleet              // has all other profiles; nil: there are none
}

// Local returns the routes below /v1 that read, and uploads, for a program that shows files and sessions to its own
// user. The program has to permit requests, and to check their Host. Requests that a page of another origin has a
// browser send are refused, by Sec-Fetch-Site and Origin. The options must not change any more.
func Local(o LocalOptions) http.Handler {
	s := makeServer(hosted(o.Sessions), Options{Logger: slog.New(slog.DiscardHandler), Version: o.Version, Fleet: o.Fleet})
	s.files, s.others = o.Files, len(o.Sessions) == 0
	return s.toReaders(append(readingRoutes(), []route{
		{"GET /v1/info", anybody, (*call).localInfo},
		{"GET /v1/profiles", anybody, (*call).listFiles},
		{"GET /v1/fleet/{about}", anybody, (*call).askFleet},
		{"POST /v1/uploads", anybody, (*call).upload},
	}...))
}

// file returns the profile of a number, from 1.
func (c *call) file(number string) (*ccmap.Snapshot, error) {
	n, err := strconv.ParseUint(number, 10, 31)
	if err != nil || n == 0 || n > uint64(len(c.files)) || strconv.FormatUint(n, 10) != number {
		return nil, errNoRef
	}
	return c.files[n-1].Snapshot, nil
}

// localInfoJSON is the answer of /v1/info.
type localInfoJSON struct {
	Version string `json:"version"`
	Files   int    `json:"files"`
	Targets int    `json:"targets"`
	Limits  struct {
		UploadBytes int64 `json:"upload_bytes"`
		AnswerBytes int64 `json:"answer_bytes"`
		UploadKept  int64 `json:"upload_kept_ns"`
	} `json:"limits"`
	You identityJSON `json:"you"`
}

func (c *call) localInfo() error {
	info := localInfoJSON{Version: c.options.Version, Files: len(c.files), Targets: len(c.profiles.Targets()), You: identityJSON{May: "read"}}
	info.Limits.UploadBytes, info.Limits.AnswerBytes, info.Limits.UploadKept = c.uploads.mostBody(), mostAnswer, int64(uploadKept)
	return c.respond(http.StatusOK, info)
}

// fileJSON describes a file in the answer of /v1/profiles.
type fileJSON struct {
	Ref     string     `json:"ref"`
	Name    string     `json:"name"`
	Samples int64      `json:"samples"`
	From    *time.Time `json:"from,omitempty"`
	Program string     `json:"executable,omitempty"`
	BuildID string     `json:"build_id,omitempty"`
}

func (c *call) listFiles() error {
	var list struct {
		Profiles []fileJSON `json:"profiles"`
	}
	list.Profiles = make([]fileJSON, len(c.files))
	for i, f := range c.files {
		meta := f.Snapshot.Meta()
		one := fileJSON{
			Ref: fileKind + ":" + strconv.Itoa(i+1), Name: f.Name, Samples: f.Snapshot.Total().Samples,
			Program: meta.Target.Executable, BuildID: meta.Target.BuildID,
		}
		if !meta.Start.IsZero() {
			one.From = &meta.Start
		}
		list.Profiles[i] = one
	}
	return c.respond(http.StatusOK, list)
}
