package api

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/daemon/client"
	"github.com/ccmapd/ccmapd/internal/advice"
	"github.com/ccmapd/ccmapd/internal/daemon"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/internal/view"
	"github.com/ccmapd/ccmapd/sampler"
)

// problemOf returns an error as the client is told of it.
func problemOf(err error) client.Problem {
	known := coded(err)
	return client.Problem{
		Title: strings.ReplaceAll(string(known.Code), "-", " "), Status: known.Code.Status(),
		Detail: known.Error(), Hint: known.Hint, Code: known.Code, Candidates: known.Candidates,
	}
}

// reasons has what clients are told of errors of the daemon and in sampling.
var reasons = []advice.Reason{
	{Err: daemon.ErrNoTarget, Code: view.CodeNoTarget},
	{Err: sampler.ErrNoProcess, Code: view.CodeNoTarget},
	{Err: sampler.ErrNotManaged, Code: view.CodeNoTarget},
	{Err: daemon.ErrNoProfile, Code: view.CodeNoTarget, Hint: "It has no samples yet: 'ccmapd targets' says why."},
	{Err: daemon.ErrWaits, Code: view.CodeBusy, Hint: "Resume the target, raise its max, or sample the process on your own: 'ccmapd attach PID'."},
	{Err: daemon.ErrFull, Code: view.CodeBusy, Hint: "Raise budget.targets, or detach a target: DELETE /v1/targets/NAME."},
	{Err: daemon.ErrEnds, Code: view.CodeBusy},
	{Err: ccmap.ErrNotEarlier, Code: view.CodeBusy, Hint: "Its processes have changed meanwhile: ask again."},
	{Err: sampler.ErrPermission, Code: view.CodeNotPermitted},
	{Err: daemon.ErrConfigured, Code: view.CodeUsage},
	{Err: daemon.ErrNoStore, Code: view.CodeUsage},
}

// coded returns an error with its code.
func coded(err error) *view.Error {
	if known := advice.Explain(err, reasons); known != nil {
		return known
	}
	if errors.As(err, new(*http.MaxBytesError)) {
		hint, _ := advice.Of(err)
		return &view.Error{Code: view.CodeTooLarge, Hint: hint, Err: err}
	}
	return view.ErrorOf(err)
}

// fail answers with an error, and logs and counts a refusal. After the beginning of an
// answer nothing can be told any more.
func (c *call) fail(err error) {
	p := problemOf(err)
	why, hides := p.Detail, errors.As(err, new(hidden))
	if hides {
		why = "not the peer's, which is told: " + why
	}
	if hides || p.Code == view.CodeNotPermitted || p.Code == view.CodeBusy || errors.Is(err, errNoRoute) {
		c.metrics.refused.Inc()
		c.refusals.warn("request refused", "uid", c.peer.name(), "method", c.Method, "path", c.URL.Path, "why", why)
	}
	if p.Code == view.CodeBusy {
		c.w.Header().Set("Retry-After", "1")
	}
	c.w.Header().Set("Content-Type", client.ProblemType)
	text, _ := terminal.LineJSON(p) // strings and numbers
	c.deadline()
	c.w.WriteHeader(p.Status)
	c.w.Write(append(text, '\n'))
}

// unknown answers a request that no route takes.
func (c *call) unknown(mux *http.ServeMux) error {
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
		other := c.Request.Clone(c.Context())
		other.Method = method
		if _, pattern := mux.Handler(other); pattern != c.Pattern {
			allowed = append(allowed, method)
		}
	}
	err := &view.Error{Code: view.CodeNoTarget, Err: errors.New("there is no route " + c.Method + " " + c.URL.Path), Hint: "docs/daemon.md lists the routes."}
	if len(allowed) > 0 {
		c.w.Header().Set("Allow", strings.Join(allowed, ", "))
		err.Code, err.Hint = view.CodeUsage, "Allowed: "+strings.Join(allowed, ", ")+"."
	}
	return err
}

// respond answers with a value as JSON, as --json of commands prints it.
func (c *call) respond(status int, v any) error {
	var text boundedBuffer
	if err := terminal.WriteJSON(&text, v); err != nil {
		return err
	}
	return c.send(status, answer{contentType: typeJSON, body: text.Bytes()})
}

const typeJSON = "application/json"

// send sends an answer in the best encoding that the client takes.
func (c *call) send(status int, a answer) error {
	header := c.w.Header()
	header.Set("Vary", "Accept-Encoding")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set(askHeader, askAfter(c.pace.after(c.peer.name())))
	if a.tag != "" {
		header.Set("ETag", a.tag)
		header.Set("Cache-Control", "private, no-cache") // kept, and asked for again by its tag
		if isKnown(c.Request.Header.Values("If-None-Match"), a.tag) {
			c.w.WriteHeader(http.StatusNotModified)
			return nil
		}
	}
	done, err := c.shares.sending(len(a.body))
	if err != nil {
		return err
	}
	defer done()
	header.Set("Content-Type", a.contentType)
	const worthIt = 1 << 10 // bytes
	coding := ""
	if a.packed || len(a.body) > worthIt && a.contentType == typeJSON {
		coding = acceptedCoding(c.Request.Header.Get("Accept-Encoding"))
	}
	if coding != "" {
		header.Set("Content-Encoding", coding)
	}
	if !a.packed && coding == "" || a.packed && coding == codingZstd {
		header.Set("Content-Length", strconv.Itoa(len(a.body)))
	}
	c.w.WriteHeader(status)
	if c.Method == http.MethodHead {
		return nil
	}
	if err := c.copyAs(coding, a); err != nil {
		panic(http.ErrAbortHandler) // the client must not take the part for the whole
	}
	return nil
}

// isKnown reports whether a client has an answer already, by the tags of those that it has. Tags are compared weakly
// (RFC 9110, 8.8.3.2).
func isKnown(known []string, tag string) bool {
	for part := range strings.SplitSeq(strings.Join(known, ","), ",") {
		if part = strings.TrimSpace(part); part == "*" || strings.TrimPrefix(part, "W/") == strings.TrimPrefix(tag, "W/") {
			return true
		}
	}
	return false
}

// Codings of contents, by preference.
const (
	codingZstd = "zstd"
	codingGzip = "gzip"
)

// acceptedCoding returns the first of our codings that a client accepts, "" for none.
func acceptedCoding(accepted string) string {
	var names []string
	for part := range strings.SplitSeq(accepted, ",") {
		name, quality, _ := strings.Cut(part, ";")
		if q := strings.TrimSpace(quality); q != "q=0" {
			names = append(names, strings.ToLower(strings.TrimSpace(name)))
		}
	}
	for _, coding := range []string{codingZstd, codingGzip} {
		if slices.Contains(names, coding) {
			return coding
		}
	}
	return ""
}

// packedAtOnce is how long an answer may be that is packed before its first byte is sent, bytes: a graph is shorter.
const packedAtOnce = 1 << 20

// packer packs answers at once. To make an encoder for each takes as long as to pack the answer.
var packer = sync.OnceValue(func() *zstd.Encoder {
	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(mostHeavy), zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(packedAtOnce))
	if err != nil {
		panic(err) // the options are valid
	}
	return z
})

// copyAs copies an answer to the client in a coding. The CPU time of coding is the answer's.
func (c *call) copyAs(coding string, a answer) error {
	out := stalling{c, &meter{spent: func(cpu time.Duration) { c.shares.spent(c.Context(), cpu) }}}
	out.meter.start()
	defer out.meter.stop()
	if coding == codingZstd && !a.packed && len(a.body) <= packedAtOnce {
		_, err := out.Write(packer().EncodeAll(a.body, nil))
		return err
	}
	var from io.Reader = bytes.NewReader(a.body)
	if a.packed && coding != codingZstd {
		z, err := zstd.NewReader(from, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
		if err != nil {
			return err
		}
		defer z.Close()
		from = z
	}
	var to io.WriteCloser = out
	switch {
	case coding == codingGzip:
		to = gzip.NewWriter(out)
	case coding == codingZstd && !a.packed:
		z, err := zstd.NewWriter(out, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true))
		if err != nil {
			return err
		}
		to = z
	}
	if _, err := io.Copy(onlyWriter{to}, onlyReader{from}); err != nil {
		return err
	}
	return to.Close()
}

// onlyWriter and onlyReader hide shortcuts that would write all at once.
type (
	onlyWriter struct{ io.Writer }
	onlyReader struct{ io.Reader }
)

// stalling writes to a client that must take each part in time. No thread waits for the client.
type stalling struct {
	c     *call
	meter *meter
}

func (s stalling) Write(p []byte) (int, error) {
	s.meter.stop()
	defer s.meter.start()
	s.c.deadline()
	return s.c.w.Write(p)
}

func (stalling) Close() error { return nil }

// deadline gives the client time to take the next part.
func (c *call) deadline() {
	if c.embedded {
		return
	}
	// A response that has no deadlines has a bounded writer, as in tests.
	_ = http.NewResponseController(c.w).SetWriteDeadline(time.Now().Add(stallTime))
}

// progressing reads the body of a request, whose client must send each part in time, and the
// whole until the end. At its end net/http takes the deadline away.
type progressing struct {
	c   *call
	end time.Time
}

func (p progressing) Read(b []byte) (int, error) {
	next := time.Now().Add(p.c.stall)
	if next.After(p.end) {
		next = p.end
	}
	_ = http.NewResponseController(p.c.w).SetReadDeadline(next)
	return p.c.Body.Read(b)
}
