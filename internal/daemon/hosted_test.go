package daemon

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/daemon/config"
)

// vms is a program that hosts VMs, one session each. It answers as api.Handler does, which package api tests
// together with the daemon.
type vms struct {
	mu       sync.Mutex
	sessions map[string]*ccmap.Map
	asked    int // for maps
}

// startVMs returns a program that starts now.
func startVMs(build string, names ...string) *vms {
	v := &vms{sessions: make(map[string]*ccmap.Map)}
	for _, name := range names {
		m := ccmap.New(ccmap.Options{})
		*m.Meta() = ccmap.Meta{
			Start: time.Now(), Target: ccmap.Target{PID: 1, Executable: "/srv/billing", BuildID: build}, Engine: "managed",
			Interval: []ccmap.IntervalChange{{Interval: 10 * time.Millisecond}},
		}
		v.sessions[name] = m
	}
	return v
}

// run has a session take n samples of a method, half of them repetitions, lose one, and catch n calls.
func (v *vms) run(session, method string, n int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	m := v.sessions[session]
	id := m.Names().Intern(ccmap.Method{Name: method})
	for range n {
		m.Fold(&ccmap.Sample{Frames: []ccmap.Frame{{Method: id, Offset: 1}}, Thread: 1, Weight: 1e7, Fresh: ccmap.FreshUnknown})
	}
	m.AddPoint(ccmap.Point{
		Origin: ccmap.OriginBurst, Kind: ccmap.PointCall, Method: id, Count: int64(n), Nulls: ccmap.NullsUnknown,
		Values: []ccmap.PointValue{{Value: uint64(id), Count: int64(n)}},
	})
	meta := m.Meta()
	meta.Known += uint64(n)
	meta.Repeated += uint64(n / 2)
	meta.Loss.Source++
	meta.Loss.Corrupt++
}

func (v *vms) looked() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.asked
}

func (v *vms) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if r.URL.Path == hostedPath+"/v1/targets" {
		var all []string
		for name := range v.sessions {
			all = append(all, fmt.Sprintf(`{"name": %q, "hosted": true, "processes": [{"exe": "/srv/billing"}]}`, name))
		}
		fmt.Fprintf(w, `{"targets": [%s]}`, strings.Join(all, ","))
		return
	}
	for name, m := range v.sessions {
		if r.URL.Path == hostedPath+"/v1/p/live:"+name+"/map" {
			v.asked++
			z := gzip.NewWriter(w)
			if err := errors.Join(export.Write(z, export.JSON, m.Snapshot()), z.Close()); err != nil {
				panic(err)
			}
			return
		}
	}
	http.NotFound(w, r)
}

const hostedPath = "/debug/ccmapd"

// hostedConfig has one target, which follows the program of the tests.
func hostedConfig(change ...func(*config.Target)) *config.Config {
	return billingConfig(append(change, func(one *config.Target) { one.Match.URL = "http://" + billingAt + hostedPath })...)
}

// awaitLooks waits until a program was looked at so many times more.
func awaitLooks(t *testing.T, v *vms, n int) {
	t.Helper()
	n += v.looked()
	for range 900 {
		if v.looked() >= n {
			time.Sleep(time.Second) // on the test's own clock: the answer arrives meanwhile
			return
		}
		time.Sleep(time.Second)
	}
	t.Fatal("looks are awaited in vain")
}

// TestHosted: a target has what the sessions of a program count while it is followed, with the breaks in which nothing
// answers, and all of a program that was started again. A pause is left out.
func TestHosted(t *testing.T) {
	t.Parallel()
	inDaemon(t, hostedConfig(), func(t *testing.T, h *fakeHost, d *Daemon) {
		v := startVMs("", "scripts", "guests")
		v.run("scripts", "old", 1000)
		end := h.network.listen(t, v)
		await(t, d, Sampling, "")
		awaitLooks(t, v, 2)
		v.run("scripts", "f", 10)
		v.run("guests", "g", 6)
		awaitLooks(t, v, 2)
		want := map[string]int64{"f": 10, "g": 6}
		if got := samplesOf(t, d, "billing", 0); !maps.Equal(got, want) {
			t.Errorf("after two looks %v, want %v", got, want)
		}
		status := mustTarget(t, d, "billing")
		if p := status.Processes[0]; p.Engine != "hosted" || p.Exe != "/srv/billing" || status.Status.IntervalNS != int64(10*time.Millisecond) || status.Status.Known != 16 {
			t.Errorf("%+v", status)
		}

		end()
		await(t, d, Waiting, "connection refused")
		v.run("guests", "away", 4)
		end = h.network.listen(t, v)
		await(t, d, Sampling, "")
		awaitLooks(t, v, 2)
		end()
		v = startVMs("", "scripts")
		v.run("scripts", "again", 8)
		h.network.listen(t, v)
		awaitLooks(t, v, 1)
		want["away"], want["again"] = 4, 8
		if got := samplesOf(t, d, "billing", 0); !maps.Equal(got, want) {
			t.Errorf("after a break and a restart %v, want %v", got, want)
		}

		if err := d.Pause("billing"); err != nil {
			t.Fatal(err)
		}
		v.run("scripts", "last", 2) // before the last look, or after it: the program is not told of a pause
		await(t, d, Paused, "")
		time.Sleep(time.Minute)
		v.run("scripts", "paused", 100)
		if err := d.Resume("billing"); err != nil {
			t.Fatal(err)
		}
		await(t, d, Sampling, "")
		awaitLooks(t, v, 1)
		got := samplesOf(t, d, "billing", 0)
		delete(got, "last")
		if !maps.Equal(got, want) {
			t.Errorf("after a pause %v, want %v", got, want)
		}

		s, err := d.Snapshot(t.Context(), "billing", 0)
		if err != nil {
			t.Fatal(err)
		}
		calls := make(map[string]int64)
		for _, p := range s.Points() {
			calls[s.Names().At(p.Method).Name] += p.Count
		}
		delete(calls, "last")
		if !maps.Equal(calls, want) {
			t.Errorf("calls %v, want %v", calls, want)
		}
		meta := s.Meta()
		if meta.Known < 28 || meta.Known > 30 || meta.Repeated != meta.Known/2 || meta.Loss.Source < 4 || meta.Loss.Source > 5 || meta.Loss.Corrupt != meta.Loss.Source {
			t.Errorf("%d of %d repeated, lost %+v", meta.Repeated, meta.Known, meta.Loss)
		}
	})
}

// TestHostedShrinks: a session that goes on with an older state of its map counts nothing twice.
func TestHostedShrinks(t *testing.T) {
	t.Parallel()
	inDaemon(t, hostedConfig(), func(t *testing.T, h *fakeHost, d *Daemon) {
		v := startVMs("", "scripts")
		start := v.sessions["scripts"].Meta().Start
		end := h.network.listen(t, v)
		await(t, d, Sampling, "")
		awaitLooks(t, v, 1)
		v.run("scripts", "f", 10)
		awaitLooks(t, v, 2)
		end()
		v = startVMs("", "scripts")
		v.sessions["scripts"].Meta().Start = start
		v.run("scripts", "f", 7)
		h.network.listen(t, v)
		awaitLooks(t, v, 1)
		v.run("scripts", "f", 5)
		awaitLooks(t, v, 2)
		if got := samplesOf(t, d, "billing", 0); got["f"] != 15 {
			t.Errorf("%v, want 10 and 5", got)
		}
	})
}

// TestHostedOfAnotherBuild: another program at the address gets a map of its own, with all that it has counted.
func TestHostedOfAnotherBuild(t *testing.T) {
	t.Parallel()
	inDaemon(t, hostedConfig(), func(t *testing.T, h *fakeHost, d *Daemon) {
		v := startVMs("one", "scripts")
		end := h.network.listen(t, v)
		await(t, d, Sampling, "")
		awaitLooks(t, v, 1)
		v.run("scripts", "f", 10)
		awaitLooks(t, v, 2)
		time.Sleep(longLife)
		end()
		v = startVMs("two", "scripts")
		v.run("scripts", "g", 7)
		h.network.listen(t, v)
		if got := awaitSamples(t, d, "g"); !maps.Equal(got, map[string]int64{"g": 7}) {
			t.Errorf("%v", got)
		}
		if build := mustTarget(t, d, "billing").Processes[0].BuildID; build != "two" {
			t.Errorf("build %q", build)
		}
	})
}

// TestHostedRefuses: what a server answers in place of sessions and maps is the reason. It is asked again, and
// followed once it serves its maps.
func TestHostedRefuses(t *testing.T) {
	t.Parallel()
	instead := func(answer string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/targets") {
				io.WriteString(w, `{"targets": [{"name": "scripts", "hosted": true}]}`)
				return
			}
			io.WriteString(w, answer)
		}
	}
	other := startVMs("", "scripts")
	if err := other.sessions["scripts"].SetUnit(ccmap.Instructions); err != nil {
		t.Fatal(err)
	}
	other.run("scripts", "f", 1)
	many := `{"targets": [{"name": "a", "hosted": true}` + strings.Repeat(`,{"name": "a", "hosted": true}`, 100) + `]}`
	for name, c := range map[string]struct {
		answer       http.Handler
		reason, cure string
	}{
		"no routes":   {http.NotFoundHandler(), "404", "match.url"},
		"daemon":      {http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"targets": [{"name": "web"}]}`) }), "a daemon of ccmapd answers", ""},
		"no sessions": {http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"targets": []}`) }), "no session", ""},
		"many":        {http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, many) }), "101 sessions", ""},
		"unit":        {other, "not of CPU time", ""},
		"text":        {instead("a;b 7\n"), "not JSON", ""},
		"other JSON":  {instead(`{"a": 1}`), "no dump of a map", ""},
		"large":       {instead(strings.Repeat(" ", mostBody+1)), "more than 8 MiB", ""},
		"silent": {http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/targets") {
				instead("")(w, r)
				return
			}
			<-r.Context().Done()
		}), "deadline exceeded", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inDaemon(t, hostedConfig(), func(t *testing.T, h *fakeHost, d *Daemon) {
				end := h.network.listen(t, c.answer)
				s := await(t, d, Refused, c.reason)
				if !strings.Contains(s.Cure, c.cure) || s.NextTry == nil || s.Failures == 0 {
					t.Errorf("%+v", s)
				}
				end()
				v := startVMs("", "scripts")
				h.network.listen(t, v)
				await(t, d, Sampling, "")
				awaitLooks(t, v, 1)
				v.run("scripts", "f", 3)
				awaitSamples(t, d, "f")
			})
		})
	}
}

// TestOneSession: a name after the URL follows one session, and one that is missing is the reason.
func TestOneSession(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]map[string]int64{"guests": {"g": 2}, "none": nil} {
		c := hostedConfig()
		c.Targets[0].Match.URL += "#" + name
		inDaemon(t, c, func(t *testing.T, h *fakeHost, d *Daemon) {
			v := startVMs("", "scripts", "guests")
			h.network.listen(t, v)
			if want == nil {
				await(t, d, Refused, `no session "none"; it has ["guests" "scripts"]`)
				return
			}
			await(t, d, Sampling, "")
			awaitLooks(t, v, 1)
			v.run("scripts", "f", 1)
			v.run("guests", "g", 2)
			awaitLooks(t, v, 2)
			if got := samplesOf(t, d, "billing", 0); !maps.Equal(got, want) {
				t.Errorf("%v, want %v", got, want)
			}
		})
	}
}

// TestCredentialsOfHosted: the secret goes with each request, and is told nowhere, even if the server repeats it in
// place of an answer.
func TestCredentialsOfHosted(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, answer := range []string{`{"targets": "%s"}`, `{"targets": [{"name": "%s"}]}`, `{"targets": [{"name": "%[1]s", "hosted": true}]}`, `{"%s`} {
		var log lockedBuffer
		c := hostedConfig(func(one *config.Target) { one.Auth = config.Auth{BearerFile: file} })
		inLoggingDaemon(t, c, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})), func(t *testing.T, h *fakeHost, d *Daemon) {
			end := h.network.listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
				if strings.HasSuffix(r.URL.Path, "/targets") {
					fmt.Fprintf(w, answer, token)
				} else {
					fmt.Fprintf(w, `{"ccmap_version": 1, "%s": 7`, token)
				}
			}))
			s := await(t, d, Refused, "")
			if all := fmt.Sprintf("%+v\n%+v\n%s", s, d.Targets(), log.String()); strings.Contains(all, secret) {
				t.Errorf("the secret is told:\n%s", all)
			}
			end()
			v := startVMs("", "scripts")
			h.network.listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") == "Bearer "+secret {
					v.ServeHTTP(w, r)
				} else {
					w.WriteHeader(http.StatusUnauthorized)
				}
			}))
			await(t, d, Sampling, "")
			awaitLooks(t, v, 1)
		})
	}
}

// TestKindOfEndpoint: what answers at an address may change. Each kind is followed as it is.
func TestKindOfEndpoint(t *testing.T) {
	t.Parallel()
	inDaemon(t, billingConfig(func(one *config.Target) { one.Match.URL = "http://" + billingAt }), func(t *testing.T, h *fakeHost, d *Daemon) {
		end := h.network.serve(t, taking(canned(t, "main.bill", "")))
		awaitSamples(t, d, "main.bill")
		end()
		v := startVMs("", "scripts")
		h.network.listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.URL.Path = hostedPath + r.URL.Path
			v.ServeHTTP(w, r)
		}))
		awaitLooks(t, v, 1)
		v.run("scripts", "f", 3)
		if got := awaitSamples(t, d, "f"); got["main.bill"] == 0 {
			t.Errorf("%v", got)
		}
	})
}

// TestReadMapBounds: a map that takes more memory than it may is refused.
func TestReadMapBounds(t *testing.T) {
	t.Parallel()
	v := startVMs("", "scripts")
	v.run("scripts", strings.Repeat("f", 1<<20), 1)
	var text bytes.Buffer
	if err := export.Write(&text, export.JSON, v.sessions["scripts"].Snapshot()); err != nil {
		t.Fatal(err)
	}
	if _, err := readMap(&text, 1<<20); !errors.Is(err, export.ErrMemory) {
		t.Error(err)
	}
}
