package api

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	heap "runtime/metrics"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/profiletest"
	"github.com/ccmapd/ccmapd/internal/view"
)

// unread is a body that nobody may read.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, io.EOF
}

// TestLongUploadIsRefusedAtOnce: a length that is over the limit is refused without a look at the body, and takes no
// turn.
func TestLongUploadIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	s := newServer(t, newFake(), Options{})
	for range uploadsAtOnce {
		s.uploads.turns <- struct{}{}
	}
	r := httptest.NewRequest(http.MethodPost, "/v1/uploads", unread{t})
	r.ContentLength = s.uploads.mostBody() + 1
	if w := ask(s, master, r); w.Code != http.StatusRequestEntityTooLarge || !strings.Contains(w.Body.String(), "more than 67108864 bytes") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	r = httptest.NewRequest(http.MethodPost, "/v1/uploads", unread{t})
	r.ContentLength = s.uploads.mostBody()
	if w := ask(s, master, r); w.Code != http.StatusServiceUnavailable {
		t.Errorf("one of the length that is permitted, while there is no turn: %d %s", w.Code, w.Body)
	}
}

// pattern is a text that is repeated, without being held.
type pattern struct {
	text []byte
	left int
}

func repeat(text string, bytes int) *pattern {
	return &pattern{[]byte(strings.Repeat(text, 4096/len(text))), bytes}
}

func (r *pattern) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), r.left)], r.text)
	r.text = append(r.text[n:len(r.text):len(r.text)], r.text[:n]...)
	r.left -= n
	return n, nil
}

// packed compresses a text that goes on for long.
func packed(t *testing.T, to func(io.Writer) io.WriteCloser, r io.Reader) io.Reader {
	t.Helper()
	var b bytes.Buffer
	z := to(&b)
	if _, err := io.Copy(z, r); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return &b
}

func inGzip(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }

func inZstd(w io.Writer) io.WriteCloser {
	z, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
	if err != nil {
		panic(err) // of an option
	}
	return z
}

// mostLive collects the garbage again and again until stop is called, which returns the most that was in use, bytes.
func mostLive() (stop func() int64) {
	ended, most := make(chan struct{}), make(chan int64)
	go func() {
		highest := int64(0)
		for {
			runtime.GC()
			live := []heap.Sample{{Name: "/gc/heap/live:bytes"}}
			heap.Read(live)
			highest = max(highest, int64(live[0].Value.Uint64()))
			select {
			case <-ended:
				most <- highest
				return
			default:
			}
		}
	}()
	return func() int64 {
		close(ended)
		return <-most
	}
}

// TestUploadsTakeTheirMemory sends bodies that are made to take memory and time, as large as they may be. Each is
// refused, with the limit in the answer, and in no moment the server holds more than uploads may take. The test does
// not run beside others, which have heaps, too.
func TestUploadsTakeTheirMemory(t *testing.T) {
	const memory, beside = 256 << 20, 16 << 20 // the latter is for buffers, and for Go's own
	s := newServer(t, newFake(), Options{Memory: memory})
	most := s.uploads.most
	strings30M := func() io.Reader { return repeat("\x32\x00", 60_000_000) }
	spaces := func() io.Reader { return repeat(" ", 1<<28) }
	xml := `<ccmap version="1"><meta>`
	json := `{"ccmap_version":1,"meta":{"comments":[""`
	for name, in := range map[string]io.Reader{
		"pprof, 30 M empty strings":    strings30M(),
		"the same in gzip":             packed(t, inGzip, strings30M()),
		"the same in zstd":             packed(t, inZstd, strings30M()),
		"xml, empty comments":          packed(t, inGzip, io.MultiReader(strings.NewReader(xml), repeat("<comment/>", 60_000_000))),
		"json, empty strings":          packed(t, inGzip, io.MultiReader(strings.NewReader(json), repeat(`,""`, 60_000_000))),
		"folded, a line":               packed(t, inGzip, repeat("a;", 60_000_000)),
		"a bomb of white space":        packed(t, inGzip, spaces()),
		"a bomb in a bomb":             packed(t, inGzip, packed(t, inGzip, spaces())),
		"pprof, functions in no order": packed(t, inGzip, io.MultiReader(strings.NewReader("\x32\x00"), repeat("\x2a\x00", 60_000_000))),
	} {
		t.Run(name, func(t *testing.T) {
			runtime.GC()
			before := []heap.Sample{{Name: "/gc/heap/live:bytes"}}
			heap.Read(before)
			stop := mostLive()
			w := ask(s, userOf(1000), httptest.NewRequest(http.MethodPost, "/v1/uploads", in))
			took := stop() - int64(before[0].Value.Uint64())
			if took > most+beside {
				t.Errorf("it takes %d MiB, and all uploads may take %d", took>>20, most>>20)
			}
			if w.Code != http.StatusRequestEntityTooLarge && w.Code != http.StatusServiceUnavailable && w.Code != http.StatusBadRequest {
				t.Errorf("%d %s", w.Code, w.Body)
			}
			if w.Code != http.StatusBadRequest && !strings.Contains(w.Body.String(), "more than") {
				t.Errorf("the limit is not named: %s", w.Body)
			}
			if s.uploads.memory != 0 {
				t.Errorf("%d bytes count after the end", s.uploads.memory)
			}
		})
	}
}

// TestUploadsHaveOneAccount: what is kept and all that is being loaded have one bound together.
func TestUploadsHaveOneAccount(t *testing.T) {
	t.Parallel()
	one := profiletest.Thicket(1)
	takes := export.MapMemory(one)
	u := newUploads(time.Now, uploadsShare*(takes+3000), 0)
	if _, _, err := u.add(one, master); err != nil {
		t.Fatal(err)
	}
	a, b := &load{uploads: u}, &load{uploads: u}
	if err := errors.Join(a.set(1000, 0), b.set(0, 1000), a.set(500, 1500)); err != nil {
		t.Fatal(err)
	}
	if err := b.set(0, 1001); coded(err).Code != view.CodeBusy || !strings.Contains(err.Error(), "more than") || u.memory != takes+3000 {
		t.Errorf("a byte too many: %v, %d bytes are taken", err, u.memory)
	}
	if a.end(); a.most != 2000 {
		t.Errorf("the first one took %d bytes at most", a.most)
	}
	if err := b.set(0, 3000); err != nil {
		t.Errorf("after the end of the first one: %v", err)
	}
	if b.end(); u.memory != takes {
		t.Errorf("%d bytes are taken, and %d are kept", u.memory, takes)
	}
	if u.close(); u.memory != 0 {
		t.Errorf("%d bytes are taken at the end", u.memory)
	}
}

// TestBodyLetsGo: a body takes memory for what is not read yet.
func TestBodyLetsGo(t *testing.T) {
	t.Parallel()
	u := newUploads(time.Now, 0, 0)
	b := &body{load: &load{uploads: u}}
	content := strings.Repeat("profile", bodyPiece/2)
	if err := b.receive(strings.NewReader(content)); err != nil || b.Len() != len(content) || u.memory < int64(len(content)) {
		t.Fatalf("%d bytes of %d, which take %d: %v", b.Len(), len(content), u.memory, err)
	}
	got, err := io.ReadAll(b)
	if err != nil || string(got) != content || b.Len() != 0 || u.memory >= bodyPiece {
		t.Errorf("%d bytes were read, %d are left and take %d: %v", len(got), b.Len(), u.memory, err)
	}
	broken := errors.New("broken")
	if err := (&body{load: &load{uploads: u}}).receive(io.MultiReader(strings.NewReader("a"), failing{broken})); !errors.Is(err, broken) {
		t.Errorf("a broken body: %v", err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// TestUploadsCountInTheBudget: the CPU time of an upload is not told as time for answers, so that it counts in the
// budget. Uploads that have taken more than their part of it have to wait.
func TestUploadsCountInTheBudget(t *testing.T) {
	t.Parallel()
	var told time.Duration
	s := newServer(t, newFake(), Options{CPU: 0.5})
	s.shares.spent = func(_ context.Context, cpu time.Duration) { told += cpu }
	now := s.uploads.now()
	s.uploads.now = func() time.Time { return now }
	upload := func() *httptest.ResponseRecorder {
		text := strings.NewReader(strings.Repeat("a;b 1\n", 10_000))
		return ask(s, userOf(1000), httptest.NewRequest(http.MethodPost, "/v1/uploads", text))
	}
	if w := upload(); w.Code != http.StatusCreated {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	spent := cpuBurst - s.uploads.cpu.left
	if spent <= 0 {
		t.Errorf("it took %v of CPU time", spent)
	}
	// The answer itself is some bytes of JSON.
	if told >= spent {
		t.Errorf("%v were told as time for answers, and reading took %v", told, spent)
	}
	s.uploads.spend(cpuBurst)
	if w := upload(); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "budget.cpu") {
		t.Errorf("after too much CPU time: %d %s", w.Code, w.Body)
	}
	now = now.Add(time.Duration(float64(spent) / 0.5 * uploadsCPUShare))
	if w := upload(); w.Code != http.StatusCreated {
		t.Errorf("after the time that makes up for it: %d %s", w.Code, w.Body)
	}
}
