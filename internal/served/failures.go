package served

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"time"

	"github.com/ccmapd/ccmapd/internal/refusal"
)

// Refusal is an error that further requests would meet, too.
type Refusal struct{ error }

// Unwrap returns the reason.
func (r Refusal) Unwrap() error { return r.error }

// Refuse makes an error a Refusal.
func Refuse(err error) error { return Refusal{err} }

// IsRefusal reports whether an error is a Refusal, or wraps one.
func IsRefusal(err error) bool { return errors.As(err, new(Refusal)) }

// ErrNames says that all profiles together have brought too many names.
var ErrNames = errors.New("the names of all profiles take more than permitted")

// ErrReplaced says that the server is another program than before.
var ErrReplaced = errors.New("the server runs another program now")

// unreachable tells a server that is away from other errors of a request.
func unreachable(err error) error {
	if errors.As(err, new(*net.OpError)) {
		return away{err}
	}
	return err
}

// away is the error of a server that cannot be reached: a [refusal.ErrNoProcess], which its text does not say, as the
// server may be on any machine.
type away struct{ error }

func (a away) Unwrap() []error { return []error{a.error, refusal.ErrNoProcess} }

// Failure returns the error of an answer that is not the one that was asked for. It is a [Refusal], unless
// the server may answer otherwise the next time.
func (s *Server) Failure(r *http.Response) error {
	switch status := r.StatusCode; {
	case status == http.StatusTooManyRequests, status == http.StatusRequestTimeout, status >= http.StatusInternalServerError:
		return errors.New(s.StatusText(r))
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return Refusal{fmt.Errorf("%w: %s", refusal.ErrPermission, s.StatusText(r))}
	}
	return Refusal{fmt.Errorf("%w: %s", refusal.ErrUnsupported, s.StatusText(r))}
}

// StatusText returns the status of an answer, and the beginning of its text. A server may repeat
// the credentials in its text, and in the words of its status.
func (s *Server) StatusText(r *http.Response) string {
	if s.Confidential() {
		return fmt.Sprintf("the server answers %d %s", r.StatusCode, http.StatusText(r.StatusCode))
	}
	const most = 200
	text, _ := io.ReadAll(io.LimitReader(r.Body, most))
	return fmt.Sprintf("the server answers %s: %q", r.Status, text)
}

const firstPause, lastPause = time.Second, 30 * time.Second

// BackOff returns the pause after so many failures in a row: longer each time, and within
// half of that at random, so that not all clients come back at once.
func BackOff(failures int) time.Duration {
	longest := min(firstPause<<min(failures-1, 16), lastPause)
	return longest/2 + rand.N(longest/2)
}

// Wait waits, or until ctx is done.
func Wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
