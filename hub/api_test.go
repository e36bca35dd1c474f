package hub

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/hub/bucket"
	"github.com/ccmapd/ccmapd/internal/contribution"
	"github.com/ccmapd/ccmapd/internal/fanin"
	"github.com/ccmapd/ccmapd/internal/fleet"
)

// server is a hub that runs, at an address.
type server struct {
	*httptest.Server
	hub    *Hub
	bucket bucket.Bucket
}

func hash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// newServer starts a hub whose tokens write as instance 1 or as any, read, or delete.
func newServer(t *testing.T, q Quotas) *server {
	t.Helper()
	return newServerOf(t, newMemory(), q)
}

func newServerOf(t *testing.T, b bucket.Bucket, q Quotas) *server {
	t.Helper()
	return newLoggedServer(t, b, q, nil)
}

func newLoggedServer(t *testing.T, b bucket.Bucket, q Quotas, log *slog.Logger) *server {
	t.Helper()
	tokens, err := ReadTokens(strings.NewReader(fmt.Sprintf(
		"# tokens of a test\nwrite %s %032x web,web-*\nwrite %s * *\nread %s - *\nread %s - web\ndelete %s - web\n",
		hash("one"), 1, hash("any"), hash("reader"), hash("web reader"), hash("web deleter"))))
	if err != nil {
		t.Fatal(err)
	}
	h := New(Options{Bucket: b, Tokens: tokens, Logger: log, Window: time.Millisecond, Round: 20 * time.Millisecond, Quotas: q})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { h.Run(ctx); close(ended) }()
	s := &server{httptest.NewServer(h), h, b}
	t.Cleanup(func() { s.Close(); cancel(); <-ended })
	return s
}

// post sends bytes as a contribution, and returns the status and the text.
func (s *server) post(t testing.TB, token string, body []byte) (int, string) {
	return s.ask(t, "POST", "/v1/contributions", token, body, "")
}

func (s *server) ask(t testing.TB, method, path, token string, body []byte, tag string) (int, string) {
	t.Helper()
	r, err := http.NewRequest(method, s.URL+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("If-None-Match", tag)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// await waits until the sums have so many contributions.
func (s *server) await(t testing.TB, n int) []fleet.Build {
	t.Helper()
	for t.Context().Err() == nil {
		status, text := s.ask(t, "GET", "/v1/builds", "reader", nil, "")
		var list []fleet.Build
		if err := json.Unmarshal([]byte(text), &list); status != http.StatusOK || err != nil {
			t.Fatalf("status %d, %q, error %v", status, text, err)
		}
		got := uint64(0)
		for _, b := range list {
			got += b.Contributions
		}
		if got >= uint64(n) {
			return list
		}
		s.hub.catalog.forget()
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatal("the sums do not grow")
	return nil
}

// forget has the next request ask the bucket.
func (c *catalog) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.known)
	c.at = time.Time{}
}

const ofWeb = "?target=web&build=1f0c"

// TestServes: what daemons send comes back as a sum, as fan-in and as a table of methods, and not again if the client
// has it.
func TestServes(t *testing.T) {
	t.Parallel()
	s := newServer(t, Quotas{})
	r := rand.New(rand.NewPCG(1, 1))
	var all []sent
	for i := range 3 {
		for seq := range 4 {
			all = append(all, newSent(t, testKey("web", i, uint64(seq+1)), randomProfile(r, 20).Snapshot()))
		}
	}
	for _, c := range append(all, all...) { // each one twice
		if status, text := s.post(t, "any", c.frame); status != http.StatusNoContent {
			t.Fatalf("status %d: %s", status, text)
		}
	}
	list := s.await(t, len(all))
	if len(list) != 1 || list[0].Instances != 3 || list[0].Samples != 240 || list[0].Target != "web" || list[0].Unit != "cpu/nanoseconds" {
		t.Fatalf("builds %+v", list)
	}
	checkSums(t, s.bucket, all)

	status, text := s.ask(t, "GET", "/v1/best"+ofWeb, "reader", nil, "")
	sum, _, err := export.Read(strings.NewReader(text), export.ReadOptions{})
	if status != http.StatusOK || err != nil {
		t.Fatalf("status %d, error %v", status, err)
	}
	want := fanin.Of(sum.Snapshot())
	if got := bytesOf(t, sum); got != merged(t, all)[idOf(all[0].Key)] {
		t.Error("the best profile is not the offline merge")
	}
	m, err := s.hub.catalog.get(t.Context(), idOf(all[0].Key))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/v1/best", "/v1/fanin", "/v1/methods"} {
		if status, text := s.ask(t, "GET", path+ofWeb, "reader", nil, m.tag()); status != http.StatusNotModified || text != "" {
			t.Errorf("%s with the tag: status %d, %d bytes", path, status, len(text))
		}
	}

	_, text = s.ask(t, "GET", "/v1/fanin"+ofWeb, "reader", nil, "")
	file, err := fanin.Open([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range want {
		got, found, err := file.Load(e.Key)
		if err != nil || !found || got.Samples != e.Samples || got.Callers != e.Callers {
			t.Errorf("fan-in of %s: %+v, found %v, error %v", e.Name, got, found, err)
		}
		var one fanin.FanIn
		_, text := s.ask(t, "GET", "/v1/fanin"+ofWeb+"&method="+e.Name, "reader", nil, "")
		if err := json.Unmarshal([]byte(text), &one); err != nil || one.Samples != e.Samples {
			t.Errorf("fan-in of %s alone: %s, error %v", e.Name, text, err)
		}
	}
	if status, _ := s.ask(t, "GET", "/v1/fanin"+ofWeb+"&method=none", "reader", nil, ""); status != http.StatusNotFound {
		t.Errorf("fan-in of an unknown method: status %d, want none, not zeros", status)
	}
	var methods []fleet.Method
	_, text = s.ask(t, "GET", "/v1/methods"+ofWeb, "reader", nil, "")
	if err := json.Unmarshal([]byte(text), &methods); err != nil || len(methods) != len(want) || methods[0].Self < methods[1].Self {
		t.Errorf("methods %+v, error %v", methods, err)
	}
	if status, text := s.ask(t, "GET", "/metrics", "reader", nil, ""); status != 200 || !strings.Contains(text, "ccmapd_hub_merged_total 12") {
		t.Errorf("status %d, metrics %s", status, text)
	}
}

// bomb is a body that is small until it is decompressed.
func bomb(t *testing.T) []byte {
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return z.EncodeAll(append([]byte(`{"ccmap_version":1,"x":"`), make([]byte, 200<<20)...), nil)
}

// TestRefuses: what a daemon sends is not trusted, and is refused before it is in a segment.
func TestRefuses(t *testing.T) {
	t.Parallel()
	s := newServer(t, Quotas{})
	good := randomProfile(rand.New(rand.NewPCG(1, 1)), 5)
	frame := func(k contribution.Key, s *ccmap.Snapshot) []byte { return newSent(t, k, s).frame }
	raw := func(body []byte) []byte {
		b, err := contribution.Append(nil, testKey("web", 1, 1), body)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	mine := frame(testKey("web", 1, 1), good.Snapshot())
	newer := bytes.Clone(mine)
	newer[4]++
	heavy := ccmap.New(ccmap.Options{})
	id := heavy.Names().Intern(ccmap.Method{Name: "a"})
	heavy.Fold(&ccmap.Sample{Frames: []ccmap.Frame{{Method: id}}, Weight: int64(time.Hour), Fresh: ccmap.FreshUnknown})
	labelled := ccmap.New(ccmap.Options{})
	label := labelled.Names().Intern(ccmap.LabelsMethod([]ccmap.Label{{Key: "user", Value: "someone"}}))
	id = labelled.Names().Intern(ccmap.Method{Name: "a"})
	labelled.Fold(&ccmap.Sample{Frames: []ccmap.Frame{{Method: id}, {Method: label}}, Weight: 1, Fresh: ccmap.FreshUnknown})
	bytesUnit := testKey("web", 1, 1)
	bytesUnit.Kind, bytesUnit.Base = "alloc_space", "bytes"
	for _, test := range []struct {
		name, token string
		body        []byte
		want        int
	}{
		{"no token", "", mine, http.StatusUnauthorized},
		{"unknown token", "two", mine, http.StatusUnauthorized},
		{"its hash", hash("one"), mine, http.StatusUnauthorized},
		{"a reader's token", "reader", mine, http.StatusForbidden},
		{"another instance's id", "one", frame(testKey("web", 2, 1), good.Snapshot()), http.StatusForbidden},
		{"another target", "one", frame(testKey("batch", 1, 1), good.Snapshot()), http.StatusForbidden},
		{"nothing", "one", nil, http.StatusBadRequest},
		{"no frame", "one", []byte("{}"), http.StatusBadRequest},
		{"two frames", "one", append(bytes.Clone(mine), mine...), http.StatusBadRequest},
		{"a later version", "one", newer, http.StatusServiceUnavailable},
		{"too large", "one", make([]byte, contribution.MostBody+contribution.MostKey+1), http.StatusRequestEntityTooLarge},
		{"a later profile", "one", raw([]byte(`{"ccmap_version":99}`)), http.StatusServiceUnavailable},
		{"poison", "one", raw([]byte("{}")), http.StatusUnprocessableEntity},
		{"an empty body", "one", raw(nil), http.StatusUnprocessableEntity},
		{"a bomb", "one", raw(bomb(t)), http.StatusUnprocessableEntity},
		{"more time than there was", "one", frame(testKey("web", 1, 1), heavy.Snapshot()), http.StatusUnprocessableEntity},
		{"labels", "one", frame(testKey("web", 1, 1), labelled.Snapshot()), http.StatusUnprocessableEntity},
		{"another unit", "one", frame(bytesUnit, good.Snapshot()), http.StatusUnprocessableEntity},
		{"a good one", "one", mine, http.StatusNoContent},
		{"a good one of web-eu", "one", frame(testKey("web-eu", 1, 1), good.Snapshot()), http.StatusNoContent},
	} {
		if status, text := s.post(t, test.token, test.body); status != test.want {
			t.Errorf("%s: status %d (%s), want %d", test.name, status, text, test.want)
		}
	}
	if list := s.await(t, 2); len(list) != 2 || len(keysOf(t, s.bucket, badDir)) > 0 {
		t.Errorf("builds %+v, set aside %q", list, keysOf(t, s.bucket, badDir))
	}
	for path, want := range map[string]int{
		"/v1/best?target=batch&build=1f0c": http.StatusForbidden, "/v1/methods?target=batch&build=1f0c": http.StatusForbidden,
		"/v1/fanin?target=batch&build=1f0c&method=a": http.StatusForbidden, "/metrics": http.StatusForbidden,
		"/v1/best?target=web": http.StatusBadRequest, "/v1/best?target=web&build=none": http.StatusNotFound, "/v1/builds": http.StatusOK,
	} {
		status, text := s.ask(t, "GET", path, "web reader", nil, "")
		if status != want || strings.Contains(text, "web-eu") {
			t.Errorf("%s by a reader of web: status %d, want %d: %s", path, status, want, text)
		}
		if status, _ := s.ask(t, "GET", path, "any", nil, ""); status != http.StatusForbidden {
			t.Errorf("%s by a writer: status %d", path, status)
		}
	}
}

// TestQuotas: one instance, one target and all builds have bounds, and a new instance of the same token, too.
func TestQuotas(t *testing.T) {
	t.Parallel()
	good := randomProfile(rand.New(rand.NewPCG(1, 1)), 2).Snapshot()
	s := newServer(t, Quotas{Contributions: 3, Instances: 2, Builds: 2})
	send := func(target string, instance int, seq uint64) int {
		status, _ := s.post(t, "any", newSent(t, testKey(target, instance, seq), good).frame)
		return status
	}
	for seq := range uint64(5) {
		want := http.StatusNoContent
		if seq >= 3 {
			want = http.StatusTooManyRequests
		}
		if status := send("web", 1, seq+1); status != want {
			t.Errorf("contribution %d: status %d, want %d", seq+1, status, want)
		}
	}
	if first, second := send("web", 2, 1), send("web", 3, 1); first != http.StatusNoContent || second != http.StatusTooManyRequests {
		t.Errorf("the second and third instance: status %d and %d", first, second)
	}
	s.await(t, 4)
	if status := send("batch", 4, 1); status != http.StatusNoContent {
		t.Errorf("the second build: status %d", status)
	}
	if status := send("early", 5, 1); status != http.StatusTooManyRequests {
		t.Errorf("the third build, before the second is merged: status %d", status)
	}
	s.await(t, 5)
	s.hub.catalog.forget()
	if status := send("other", 5, 1); status != http.StatusTooManyRequests {
		t.Errorf("the third build: status %d", status)
	}
	if status := send("batch", 6, 1); status != http.StatusNoContent {
		t.Errorf("the second build again: status %d", status)
	}
}

// TestStolenToken: the token of one instance writes as that one to its targets, and nothing else, until its line goes.
func TestStolenToken(t *testing.T) {
	t.Parallel()
	s := newServer(t, Quotas{})
	r := rand.New(rand.NewPCG(1, 1))
	send := func(target string, instance int, seq uint64) int {
		status, _ := s.post(t, "one", newSent(t, testKey(target, instance, seq), randomProfile(r, 5).Snapshot()).frame)
		return status
	}
	if mine := send("web", 1, 1); mine != http.StatusNoContent {
		t.Errorf("as the instance: status %d", mine)
	}
	s.await(t, 1)
	if other, target := send("web", 2, 1), send("batch", 1, 1); other != http.StatusForbidden || target != http.StatusForbidden {
		t.Errorf("as another instance, and to another target: status %d and %d", other, target)
	}
	if again := send("web", 1, 1); again != http.StatusConflict { // what was counted cannot be replaced
		t.Errorf("another body for a number: status %d", again)
	}
	for _, path := range []string{"GET /v1/builds", "GET /v1/best" + ofWeb, "GET /v1/p/best:web", "GET /v1/outliers", "GET /v1/methods" + ofWeb, "GET /metrics", "DELETE /v1/builds?target=web"} {
		method, path, _ := strings.Cut(path, " ")
		if status, text := s.ask(t, method, path, "one", nil, ""); status != http.StatusForbidden || strings.Contains(text, "main.") {
			t.Errorf("%s %s: status %d: %s", method, path, status, text)
		}
	}
	without, err := ReadTokens(strings.NewReader("read " + hash("reader") + " - *"))
	if err != nil {
		t.Fatal(err)
	}
	s.hub.SetTokens(without)
	if status := send("web", 1, 2); status != http.StatusUnauthorized {
		t.Errorf("without its line: status %d", status)
	}
}

// TestManyBuilds: of 10,000 builds that one sender makes up, those beyond the bound are refused, and begin nothing.
func TestManyBuilds(t *testing.T) {
	t.Parallel()
	const most = 50
	s := newServer(t, Quotas{Contributions: 1 << 20, Bytes: 1 << 40, Builds: most})
	body, err := writeProfile(randomProfile(rand.New(rand.NewPCG(1, 1)), 2).Snapshot())
	if err != nil {
		t.Fatal(err)
	}
	taken := 0
	for i := range 10_000 {
		k := testKey("web", 1, uint64(i+1))
		k.Build = fmt.Sprintf("%032x", i)
		frame, err := contribution.Append(nil, k, body)
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest("POST", "/v1/contributions", bytes.NewReader(frame))
		r.Header.Set("Authorization", "Bearer one")
		w := httptest.NewRecorder()
		s.hub.ServeHTTP(w, r)
		switch w.Code {
		case http.StatusNoContent:
			taken++
		case http.StatusTooManyRequests:
		default:
			t.Fatalf("build %d: status %d: %s", i, w.Code, w.Body)
		}
	}
	if list := s.await(t, most); taken != most || len(list) != most {
		t.Errorf("%d builds were taken, and %d are there, want %d", taken, len(list), most)
	}
}

// TestClonedMachine: a machine that has another's instance is told to make its own.
func TestClonedMachine(t *testing.T) {
	t.Parallel()
	s := newServer(t, Quotas{})
	r := rand.New(rand.NewPCG(1, 1))
	first, second := newSent(t, testKey("web", 1, 1), randomProfile(r, 5).Snapshot()), newSent(t, testKey("web", 1, 1), randomProfile(r, 6).Snapshot())
	s.post(t, "one", first.frame)
	s.await(t, 1)
	if status, text := s.post(t, "one", second.frame); status != http.StatusConflict {
		t.Errorf("status %d: %s", status, text)
	}
	if status, _ := s.post(t, "one", first.frame); status != http.StatusNoContent {
		t.Errorf("the first again: status %d", status)
	}
}

// TestOldEpoch: an epoch that the hub met a week ago takes nothing more, whatever the daemon's clock says.
func TestOldEpoch(t *testing.T) {
	t.Parallel()
	s := newServer(t, Quotas{})
	r := rand.New(rand.NewPCG(1, 1))
	first := newSent(t, testKey("web", 1, 1), randomProfile(r, 5).Snapshot())
	s.post(t, "one", first.frame)
	s.await(t, 1)
	id := idOf(first.Key)
	m, tag, err := readManifest(t.Context(), s.bucket, id)
	if err != nil {
		t.Fatal(err)
	}
	m.Instances[first.Instance].Epochs[1].First -= int64((epochLife + time.Hour) / time.Second)
	m.advance()
	if done, err := swap(t.Context(), s.bucket, id, m, tag); !done || err != nil {
		t.Fatal(done, err)
	}
	s.hub.catalog.forget()
	k := testKey("web", 1, 2)
	k.From, k.To = time.Now().Add(-time.Minute), time.Now()
	if status, text := s.post(t, "one", newSent(t, k, randomProfile(r, 5).Snapshot()).frame); status != http.StatusGone {
		t.Errorf("the next number: status %d: %s", status, text)
	}
	k.Epoch = 2
	if status, text := s.post(t, "one", newSent(t, k, randomProfile(r, 5).Snapshot()).frame); status != http.StatusNoContent {
		t.Errorf("the next epoch: status %d: %s", status, text)
	}
	if status, text := s.post(t, "one", first.frame); status != http.StatusNoContent {
		t.Errorf("what was counted, again: status %d: %s", status, text)
	}
}

// away is a bucket that does not answer.
type away struct{ bucket.Bucket }

var errAway = errors.New("secret address of the bucket")

func (away) Put(context.Context, string, []byte, bucket.Condition) error { return errAway }

// TestBucketAway: what was not written is not acknowledged, and the client learns nothing of the bucket.
func TestBucketAway(t *testing.T) {
	t.Parallel()
	s := newServerOf(t, away{newMemory()}, Quotas{})
	status, text := s.post(t, "one", newSent(t, testKey("web", 1, 1), randomProfile(rand.New(rand.NewPCG(1, 1)), 5).Snapshot()).frame)
	if status != http.StatusServiceUnavailable || strings.Contains(text, "secret") {
		t.Errorf("status %d: %s", status, text)
	}
}

// TestTokens: lines that say nothing clear are errors, with their number.
func TestTokens(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"write", "admin " + hash("a") + " * *", "read abc - *", "read " + hash("a") + " - [", "read " + hash("b") + " - *"} {
		if _, err := ReadTokens(strings.NewReader("read " + hash("b") + " - *\n" + line)); err == nil || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("%q: %v", line, err)
		}
	}
}

func FuzzTokens(f *testing.F) {
	f.Add("read " + hash("a") + " - *\n# comment")
	f.Fuzz(func(t *testing.T, text string) {
		if tokens, err := ReadTokens(strings.NewReader(text)); err == nil {
			is, _ := tokens.find("a")
			is.permits("web")
		}
	})
}

// BenchmarkContribution has one core check contributions of so many contexts, as the hub does.
func BenchmarkContribution(b *testing.B) {
	for _, contexts := range []int{300, 1000} {
		b.Run(fmt.Sprintf("contexts=%d", contexts), func(b *testing.B) {
			f, err := contribution.One(newSent(b, testKey("web", 1, 1), wideProfile(contexts)).frame)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if _, err := readContribution(f); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(f.Bytes)), "B")
		})
	}
}

// wideProfile has so many contexts, of realistic names.
func wideProfile(contexts int) *ccmap.Snapshot {
	m := ccmap.New(ccmap.Options{})
	r := rand.New(rand.NewPCG(1, 1))
	for m.Len() < contexts {
		frames := make([]ccmap.Frame, 10)
		for i := range frames {
			n := r.IntN(3 + 3*(9-i))
			name := fmt.Sprintf("example.com/service/internal/package%02d.(*Type%d).Method%d", 9-i, n%3, n)
			file := fmt.Sprintf("/src/service/internal/package%02d/type%d.go", 9-i, n%3)
			frames[i] = ccmap.Frame{Method: m.Names().Intern(ccmap.Method{Name: name, File: file, StartLine: 10, Body: r.Uint64()})}
		}
		m.Fold(&ccmap.Sample{Frames: frames, Weight: 1e7, Fresh: ccmap.FreshUnknown})
	}
	return m.Snapshot()
}

// BenchmarkAggregate has one core merge 200 contributions of 300 contexts of one build.
func BenchmarkAggregate(b *testing.B) {
	profile := wideProfile(300)
	var all []sent
	for i := range 200 {
		all = append(all, newSent(b, testKey("web", i, 1), profile))
	}
	for b.Loop() {
		bucket := newMemory()
		putSegment(b, bucket, all...)
		if err := testAggregator(bucket).round(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(200*float64(b.N)/b.Elapsed().Seconds(), "contributions/s")
}
