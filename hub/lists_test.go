package hub

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/hub/bucket"
	"github.com/ccmapd/ccmapd/internal/fleet"
)

// counting counts manifests that are read.
type counting struct {
	*memory
	reads atomic.Int64
}

func (c *counting) Get(ctx context.Context, key string, most int64) ([]byte, string, error) {
	if _, is := isManifest(key); is {
		c.reads.Add(1)
	}
	return c.memory.Get(ctx, key, most)
}

// putBuild writes a build that was last changed an hour ago, with some outliers.
func (m *memory) putBuild(t *testing.T, target string, n, outliers int) (id string) {
	t.Helper()
	k := testKey(target, 1, 1)
	k.Build = fmt.Sprintf("%040x", n)
	id = idOf(k)
	is, tag, err := readManifest(t.Context(), m, id)
	if err != nil {
		t.Fatal(err)
	}
	is.advance()
	if is.judge(k, nil) == fresh {
		is.note(k, nil, start)
	}
	is.Updated = time.Now()
	is.Parts = []part{{partKey: partKey{Level: levelBuild}, Key: aggregatesDir + id + "/commit/1-x", Samples: int64(n), Bytes: 1}}
	is.Outliers = nil
	for i := range outliers {
		is.Outliers = append(is.Outliers, fleet.Outlier{Instance: fmt.Sprintf("%032x", i)})
	}
	if err := m.Put(t.Context(), is.Parts[0].Key, []byte("."), bucket.Condition{}); err != nil {
		t.Fatal(err)
	}
	if done, err := swap(t.Context(), m, id, is, tag); err != nil || !done {
		t.Fatal(done, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	o := m.objects[manifestKey(id)]
	o.at = time.Now().Add(-time.Hour)
	m.objects[manifestKey(id)] = o
	return id
}

// page asks for a page of a list.
func page[T any](t *testing.T, s *server, route string, query url.Values) (p fleet.Page[T]) {
	t.Helper()
	status, text := s.ask(t, "GET", "/v1/"+route+"?"+query.Encode(), "reader", nil, "")
	if status != http.StatusOK || json.Unmarshal([]byte(text), &p) != nil {
		t.Fatalf("status %d: %.200s", status, text)
	}
	return p
}

// pages asks for all pages of a list, and returns what they have and how many they are.
func pages[T any](t *testing.T, s *server, route string, query url.Values, between func(page int)) (list []T, n int) {
	t.Helper()
	for {
		p := page[T](t, s, route, query)
		list, n = append(list, p.List...), n+1
		if p.Next == "" {
			return list, n
		}
		if p.Next <= query.Get("after") {
			t.Fatalf("page %d would begin at or before the one before", n)
		}
		query.Set("after", p.Next)
		if between != nil {
			between(n)
		}
	}
}

// TestPages: a list of 10,000 builds comes in pages of bounded size, for which the hub reads so many manifests at most.
// Each build that is there all the time is in one page, whatever changes meanwhile. What has not changed is not read again.
func TestPages(t *testing.T) {
	t.Parallel()
	const builds = 10_000
	b := &counting{memory: newMemory()}
	for n := range builds {
		b.putBuild(t, fmt.Sprintf("web%d", n%100), n, 0)
	}
	s := newServerOf(t, b, Quotas{})
	all, n := pages[fleet.Build](t, s, "builds", url.Values{"limit": {"700"}}, func(page int) {
		if page == 3 || page == 9 {
			b.putBuild(t, "web7", 7, 0) // updated
			s.removeOne(t, b, "web8", 8+builds*page)
			b.putBuild(t, "new", builds+page, 0)
			s.hub.catalog.forget()
		}
	})
	seen := make(map[string]bool)
	for _, is := range all {
		if seen[is.ID] {
			t.Errorf("build %s of %s is in two pages", is.Build, is.Target)
		}
		seen[is.ID] = is.Target != "new"
	}
	stayed := 0
	for _, was := range seen {
		if was {
			stayed++
		}
	}
	if stayed != builds || n < builds/700 || n > builds/700+3 {
		t.Errorf("%d pages have %d builds of %d", n, stayed, builds)
	}

	s.hub.catalog.forget()
	before := b.reads.Load()
	few, n := pages[fleet.Build](t, s, "builds", url.Values{"limit": {"100"}, "target": {"web42"}}, nil)
	if len(few) != builds/100 || n > 2 || b.reads.Load()-before > 10 {
		t.Errorf("%d pages have %d builds of a target, by %d manifests that had not changed", n, len(few), b.reads.Load()-before)
	}
	if list := page[fleet.Build](t, s, "builds", url.Values{}).List; len(list) != mostListed {
		t.Errorf("a client that knows no pages gets %d builds", len(list))
	}
	for _, query := range []string{"limit=0", "limit=x", "limit=-3", "limit="} {
		if status, text := s.ask(t, "GET", "/v1/builds?"+query, "reader", nil, ""); status != http.StatusBadRequest {
			t.Errorf("%s: status %d: %s", query, status, text)
		}
	}
	if p := page[fleet.Build](t, s, "builds", url.Values{"limit": {"99999"}, "after": {"~"}}); len(p.List) > 0 || p.Next != "" {
		t.Errorf("after the last one there are %d", len(p.List))
	}
}

// removeOne deletes a build that is not one of the test's.
func (s *server) removeOne(t *testing.T, b *counting, target string, n int) {
	t.Helper()
	if done, err := s.hub.removeBuild(t.Context(), b.putBuild(t, target, n, 0)); err != nil || !done {
		t.Fatal(done, err)
	}
}

// TestPagesReadLittle: a hub that knows nothing yet reads so many manifests for a page at most, and says where to go on,
// though nothing of the target has been found.
func TestPagesReadLittle(t *testing.T) {
	t.Parallel()
	const builds = 3500
	b := &counting{memory: newMemory()}
	for n := range builds {
		b.putBuild(t, "web", n, 0)
	}
	b.putBuild(t, "rare", 1, 3)
	s := newServerOf(t, b, Quotas{})
	last := b.reads.Load()
	list, n := pages[fleet.Build](t, s, "builds", url.Values{"limit": {"10"}, "target": {"rare"}}, func(int) {
		if now := b.reads.Load(); now-last > mostReads {
			t.Errorf("a page read %d manifests", now-last)
		} else {
			last = now
		}
	})
	if len(list) != 1 || n != 4 {
		t.Errorf("%d pages have %+v", n, list)
	}
	if outliers, n := pages[fleet.OutlierOf](t, s, "outliers", url.Values{"limit": {"10"}}, nil); len(outliers) != 3 || n != 1 {
		t.Errorf("%d pages have %d outliers", n, len(outliers))
	}
}

// TestPagesOfOutliers: pages have whole builds, and a client that knows no pages gets the beginning.
func TestPagesOfOutliers(t *testing.T) {
	t.Parallel()
	b := &counting{memory: newMemory()}
	want := 0
	for n := range 200 {
		b.putBuild(t, "web", n, n%20)
		want += n % 20
	}
	s := newServerOf(t, b, Quotas{})
	list, n := pages[fleet.OutlierOf](t, s, "outliers", url.Values{"limit": {"50"}}, nil)
	if len(list) != want || n < want/70 || n > want/50+1 {
		t.Errorf("%d pages have %d outliers of %d", n, len(list), want)
	}
	slices.SortFunc(list, func(a, b fleet.OutlierOf) int { return strings.Compare(a.Build+a.Instance, b.Build+b.Instance) })
	if len(slices.Compact(list)) != want {
		t.Error("an outlier is in two pages")
	}
	if list := page[fleet.OutlierOf](t, s, "outliers", url.Values{}).List; len(list) != mostListed {
		t.Errorf("a client that knows no pages gets %d outliers", len(list))
	}
	one, _ := pages[fleet.OutlierOf](t, s, "outliers", url.Values{"limit": {"50"}, "instance": {fmt.Sprintf("%032x", 18)}}, nil)
	if all := page[fleet.OutlierOf](t, s, "outliers", url.Values{"instance": {fmt.Sprintf("%032x", 18)}}).List; len(one) != 10 || len(all) != 10 {
		t.Errorf("one instance is an outlier of %d builds by pages, and of %d", len(one), len(all))
	}
}

// TestListsAreTrue: what a list says of a build is what its manifest says, also of one that has just changed within the
// second that the bucket's times have.
func TestListsAreTrue(t *testing.T) {
	t.Parallel()
	b := &counting{memory: newMemory()}
	id := b.putBuild(t, "web", 1, 0)
	c := newCatalog(b)
	samples := func() int64 {
		c.forget()
		list, err := c.builds(t.Context(), func(string) bool { return true })
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		return list[0].Samples
	}
	samples()
	at := time.Now().Truncate(time.Second)
	for n := range int64(5) {
		is, tag, err := readManifest(t.Context(), b, id)
		if err != nil {
			t.Fatal(err)
		}
		is.advance()
		is.Parts[0].Samples = 10 + n
		if done, err := swap(t.Context(), b, id, is, tag); err != nil || !done {
			t.Fatal(done, err)
		}
		b.mu.Lock()
		o := b.objects[manifestKey(id)]
		o.at = at
		b.objects[manifestKey(id)] = o
		b.mu.Unlock()
		if got := samples(); got != 10+n {
			t.Errorf("the list says %d samples, the manifest %d", got, 10+n)
		}
	}
}
