package loading

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/internal/view"
)

// passed is a time that has passed.
func passed() <-chan time.Time {
	c := make(chan time.Time)
	close(c)
	return c
}

// asked is what a page reads of an answer.
type asked struct {
	Detail, Hint, Code string
	Progress           *float64
}

func ask(t *testing.T, l *Loading) (status int, a asked) {
	t.Helper()
	w := httptest.NewRecorder()
	l.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/profiles", nil))
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil && w.Code != http.StatusNoContent {
		t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	return w.Code, a
}

// TestLoading: nobody waits for more than the beginning of what is read. Until its end a page is told how much there is,
// and then it gets the answers.
func TestLoading(t *testing.T) {
	t.Parallel()
	notes, end := make(chan float64), make(chan struct{})
	l := Begin(func(note Note) (http.Handler, error) {
		for part := range notes {
			note("a\x1b", part)
		}
		<-end
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }), nil
	})
	goes := make(chan error, 1)
	go func() { goes <- l.Await(passed()) }()
	notes <- -1
	if err := <-goes; err != nil {
		t.Error(err)
	}
	if status, a := ask(t, l); status != http.StatusAccepted || a.Detail != "Reading a\ufffd" || a.Progress == nil || *a.Progress != -1 {
		t.Errorf("%d %+v", status, a)
	}
	notes <- 0.425
	close(notes)
	for status, a := ask(t, l); *a.Progress != 0.425; status, a = ask(t, l) { // the note may be on its way
		if status != http.StatusAccepted {
			t.Fatal(status)
		}
	}
	if line := l.Line(); line != "Reading a\ufffd: 42 %" {
		t.Errorf("the line is %q", line)
	}
	close(end)
	<-l.Ready()
	if status, _ := ask(t, l); status != http.StatusNoContent || l.Err() != nil {
		t.Errorf("%d, %v", status, l.Err())
	}
}

// TestNotRead: what cannot be read at all is never shown; what cannot be read to its end is told to the page.
func TestNotRead(t *testing.T) {
	t.Parallel()
	why := &view.Error{Code: view.CodeTooLarge, Err: errors.New("too large"), Hint: "Raise it."}
	if err := Begin(func(Note) (http.Handler, error) { return nil, why }).Await(passed()); !errors.Is(err, why) {
		t.Errorf("error %v", err)
	}
	end := make(chan struct{})
	l := Begin(func(note Note) (http.Handler, error) {
		note("a", 0.5)
		<-end
		return nil, fmt.Errorf("read: %w", why)
	})
	if err := l.Await(passed()); err != nil {
		t.Error(err)
	}
	close(end)
	<-l.Ready()
	if status, a := ask(t, l); status != view.CodeTooLarge.Status() || a.Progress != nil || a.Hint != "Raise it." || a.Code != string(view.CodeTooLarge) {
		t.Errorf("%d %+v", status, a)
	}
	if err := l.Err(); !errors.Is(err, why) {
		t.Errorf("error %v", err)
	}
}
