// Package loading answers a page while its profiles are still being read: with how much of them is. So a browser starts
// beside the reading, and its user sees that it goes on.
package loading

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/ccmapd/ccmapd/daemon/client"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/internal/view"
)

const (
	held  = 250 * time.Millisecond // for which a request waits
	given = time.Second            // for the page to learn why there is nothing to show
)

// Loading is profiles that are being read. Any goroutine may call its methods.
//
//	data, err     never change once ready is closed
//	name, part    under mu
type Loading struct {
	begun func()        // closes found, once
	found chan struct{} // there is something to read
	ready chan struct{}
	data  http.Handler
	err   error

	tell func() // closes told, once
	told chan struct{}

	mu   sync.Mutex
	name string  // of what is being read
	part float64 // of all that is to be read; less than 0: not known
}

// Note takes down how much is read: a name, and the part of all, 0 to 1, or less than 0 where that is not known.
type Note func(name string, part float64)

// Begin has profiles read, which data then answers for.
func Begin(read func(Note) (data http.Handler, err error)) *Loading {
	l := &Loading{found: make(chan struct{}), ready: make(chan struct{}), told: make(chan struct{})}
	l.begun, l.tell = sync.OnceFunc(func() { close(l.found) }), sync.OnceFunc(func() { close(l.told) })
	go func() {
		defer close(l.ready)
		l.data, l.err = read(l.note)
	}()
	return l
}

func (l *Loading) note(name string, part float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.name, l.part = name, part
	l.begun()
}

// Await waits until all is read, or until a time has passed and something was found to read. It returns the error of
// reading.
func (l *Loading) Await(passed <-chan time.Time) error {
	select {
	case <-l.ready:
		return l.err
	case <-passed:
	}
	select {
	case <-l.ready:
		return l.err
	case <-l.found:
		return nil
	}
}

// Ready is closed once all is read, or cannot be.
func (l *Loading) Ready() <-chan struct{} { return l.ready }

// Err waits until all is read. After an error it gives the page time to learn of it.
func (l *Loading) Err() error {
	<-l.ready
	if l.err == nil {
		return nil
	}
	select {
	case <-l.told:
	case <-time.After(given):
	}
	return l.err
}

// Line says how much is read.
func (l *Loading) Line() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.part < 0 {
		return "Reading " + terminal.Printable(l.name)
	}
	return fmt.Sprintf("Reading %s: %.0f %%", terminal.Printable(l.name), 100*l.part)
}

func (l *Loading) progress() *float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	part := l.part
	return &part
}

// ServeHTTP answers 202 while profiles are read, so that the page asks again. Then their handler answers.
func (l *Loading) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	wait := time.NewTimer(held)
	defer wait.Stop()
	select {
	case <-l.ready:
	case <-r.Context().Done():
		return
	case <-wait.C:
		answer(w, problem{client.Problem{Title: "being read", Status: http.StatusAccepted, Detail: l.Line()}, l.progress()})
		return
	}
	if l.err == nil {
		l.data.ServeHTTP(w, r)
		return
	}
	defer l.tell()
	known := view.ErrorOf(l.err)
	answer(w, problem{Problem: client.Problem{Title: "not read", Status: known.Code.Status(), Code: known.Code, Detail: known.Error(), Hint: known.Hint}})
}

// problem is why there is no answer (RFC 9457).
type problem struct {
	client.Problem
	Progress *float64 `json:"progress,omitempty"` // 0 to 1, or less than 0; nil: there will be none
}

func answer(w http.ResponseWriter, p problem) {
	w.Header().Set("Content-Type", client.ProblemType)
	w.Header().Set("Cache-Control", "no-store")
	text, _ := terminal.LineJSON(p) // strings and numbers
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(text, '\n')) // the client may have gone
}
