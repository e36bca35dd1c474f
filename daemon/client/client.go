// Package client reads profiles from wherever users name them, and asks a daemon about its
// targets.
//
//	FILE                         a file; "-" is standard input
//	KIND:NAME                    a profile that is stored here, if the reader knows a store: best:web
//	@REF                         a profile of the daemon on this machine: @web, @web:4242, @best:web
//	@hub/REF                     of the hub of the fleet, if the reader knows one: @hub/best:web
//	unix:/run/ccmapd.sock#REF    of the daemon that listens there
//	https://host/v1/p/REF/map    of a daemon elsewhere
//	http://host/any/profile      any other URL is fetched as a file
//
// REF is the name of a target, NAME:PID for one of its processes, or KIND:REST as the HTTP
// API has it. A daemon sends a whole profile, and the caller computes from it: everything
// that works on a file works on a running target.
//
// A program that reads profiles of unknown origin may give up the right to connect
// before it decodes them: [Reader.Fetch] gets the bytes first.
package client

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
)

// Reader reads profiles. The zero Reader is useful. One goroutine calls Fetch; afterwards any
// may call the other methods.
type Reader struct {
	Stdin   io.Reader // standard input; nil: os.Stdin
	Sockets []string  // to try for @REF, in order; nil: those of [Sockets]
	Event   string    // of stored profiles; "": cpu
	Stored  Stored    // profiles that are stored here; nil: none
	Hub     *Hub      // of the fleet; nil: none

	fetched map[string][]byte // by name
	moments map[string][]byte // of some of these
}

// Stored opens stored profiles by names as best:web, of an event, "" for CPU time.
type Stored interface {
	IsName(where string) bool
	Open(name, event string) (io.ReadCloser, error)
}

// Read reads a profile with the zero [Reader].
func Read(ctx context.Context, where string, o export.ReadOptions) (*ccmap.Map, error) {
	return new(Reader).Read(ctx, where, o)
}

// Read reads a profile within the bounds of the options. The bytes of a remote profile count
// as memory. Errors are those of [export.Read] and [Reader.Fetch], and name the profile.
func (r *Reader) Read(ctx context.Context, where string, o export.ReadOptions) (*ccmap.Map, error) {
	o = o.WithDefaults()
	file, err := r.Open(ctx, where, o.MaxMemory)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	o.MaxMemory -= r.heldBy(file)
	m, _, err := export.Read(file, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Name(where), err)
	}
	r.setMoments(m, where)
	return m, nil
}

// heldBy returns the memory of a profile that was fetched for one reading. What Fetch has
// fetched is counted by its caller.
func (r *Reader) heldBy(file io.ReadCloser) int64 {
	if b, ok := file.(body); ok && !b.kept {
		return b.Size()
	}
	return 0
}

// body is a remote profile.
type body struct {
	*bytes.Reader
	kept bool
}

func (body) Close() error { return nil }

// Open opens a profile for reading. A remote one that was not fetched yet is fetched, if it has at
// most limit bytes.
func (r *Reader) Open(ctx context.Context, where string, limit int64) (io.ReadCloser, error) {
	if data, ok := r.fetched[where]; ok {
		return body{bytes.NewReader(data), true}, nil
	}
	switch {
	case where == Stdin && r.Stdin != nil:
		return io.NopCloser(r.Stdin), nil
	case where == Stdin:
		return io.NopCloser(os.Stdin), nil
	case r.Stored != nil && r.Stored.IsName(where):
		return r.Stored.Open(where, r.Event)
	case !IsRemote(where):
		return os.Open(where)
	}
	data, err := r.get(ctx, where, "map", limit)
	return body{bytes.NewReader(data), false}, err
}

// Fetch gets the bytes of a remote profile and keeps them for Open and Read. It returns how
// many there are, at most limit. Of a name that is not remote it gets nothing.
func (r *Reader) Fetch(ctx context.Context, where string, limit int64) (int64, error) {
	if _, ok := r.fetched[where]; ok || !IsRemote(where) {
		return 0, nil
	}
	data, err := r.get(ctx, where, "map", limit)
	if err != nil {
		return 0, err
	}
	beside, err := r.fetchMoments(ctx, where, limit-int64(len(data)))
	if err != nil {
		return 0, err
	}
	if r.fetched == nil {
		r.fetched = make(map[string][]byte)
	}
	r.fetched[where] = data
	return int64(len(data)) + beside, nil
}

// Size returns how many bytes a profile has as it is stored, 0 if that is not known, and whether
// it can be opened again.
func (r *Reader) Size(where string) (size int64, again bool) {
	if data, ok := r.fetched[where]; ok {
		return int64(len(data)), true
	}
	info, err := os.Stat(where)
	if err != nil || !info.Mode().IsRegular() {
		return 0, false
	}
	return info.Size(), true
}

// Name names a profile in messages: "standard input" for "-", and a URL without its password.
func Name(where string) string {
	if where == Stdin {
		return "standard input"
	}
	if from, err := parse(where, nil); err == nil && IsRemote(where) {
		return from.name
	}
	return where
}
