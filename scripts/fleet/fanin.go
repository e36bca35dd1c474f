package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/contribution"
	"github.com/ccmapd/ccmapd/internal/fanin"
	"github.com/ccmapd/ccmapd/internal/fleet"
	"github.com/ccmapd/ccmapd/scripts/report"
)

// runFanIn asks a hub for the fan-in of one large build, in each way that there is, and measures how long its answers
// take; then how long a look-up takes in the file here, and how large the file is.
func runFanIn(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("fleet fanin", flag.ExitOnError)
	q := asking{build: build{methods: 20_000}}
	f.IntVar(&q.methods, "methods", q.methods, "`number` of methods of the build")
	f.StringVar(&q.profile, "profile", "", "`file` with a profile, in place of methods that are made up")
	f.IntVar(&q.requests, "requests", 2000, "`number` of requests of each kind and number of clients")
	write := f.Bool("write", false, "write the table into docs/fleet.md")
	f.Parse(args)
	dir, err := os.MkdirTemp("", "fleet-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	program, err := buildHub(ctx, dir)
	if err != nil {
		return err
	}
	sum, err := q.build.sampled()
	if err != nil {
		return err
	}
	table := &report.Table{Head: []string{"bucket", "request", "answer, kB", "p50, ms", "p99, ms", "p50 of 8 clients, ms", "p99 of 8 clients, ms"}}
	for _, kind := range kinds() {
		p := &place{dir: filepath.Join(dir, kind), program: program, log: os.Stderr}
		rows, err := q.measure(ctx, p, kind, sum)
		if err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
		for _, row := range rows {
			table.Row(row...)
		}
	}
	local, err := lookUp(sum)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("%s %s, load %.1f.\n\n%s", local, strings.TrimSuffix(report.Measured(time.Now()), "."), report.LoadAverage(), table)
	fmt.Print(text)
	if *write {
		return report.Portion("fleet fanin").Rewrite("../docs/fleet.md", text)
	}
	return nil
}

// build is a program whose fan-in is asked for.
type build struct {
	methods int
	profile string
}

// sampled returns the profile of a build: of a file, or of methods that are called from one random place each, with a
// random hash of their code.
func (b build) sampled() (*ccmap.Snapshot, error) {
	if b.profile != "" {
		m, _, err := export.ReadFile(b.profile, export.ReadOptions{})
		if err != nil {
			return nil, err
		}
		return m.Snapshot().WithoutLabels(), nil
	}
	m, r := ccmap.New(ccmap.Options{}), rand.New(rand.NewPCG(1, 30))
	ids := make([]ccmap.MethodID, b.methods)
	for i := range ids {
		name := fmt.Sprintf("example.com/service/internal/package%03d.(*Type%d).Method%d", i%300, i%7, i)
		ids[i] = m.Names().Intern(ccmap.Method{Name: name, Body: r.Uint64()})
	}
	for _, id := range ids {
		caller := ccmap.Frame{Method: ids[r.IntN(len(ids))], Offset: uint32(r.IntN(50))}
		m.Fold(&ccmap.Sample{Frames: []ccmap.Frame{{Method: id}, caller}, Weight: 1, Fresh: ccmap.FreshUnknown})
	}
	return m.Snapshot(), nil
}

// lookUp says how large a file of fan-in is, and how long a look-up takes.
func lookUp(s *ccmap.Snapshot) (string, error) {
	list := fanin.Of(s)
	file := fanin.Encode(list)
	f, err := fanin.Open(file)
	if err != nil {
		return "", err
	}
	callers := 0
	for _, e := range list {
		callers += len(e.Listed)
	}
	took := make([]time.Duration, len(list))
	for i, at := range rand.Perm(len(list)) {
		begin := time.Now()
		_, found, err := f.Load(list[at].Key)
		if took[i] = time.Since(begin); err != nil || !found {
			return "", fmt.Errorf("look up %s: found %v, %w", list[at].Name, found, errors.Join(err, fanin.ErrDamaged))
		}
	}
	slices.Sort(took)
	return fmt.Sprintf("A build of %s methods, with %.1f callers each: %.1f bytes a method. A look-up in the file takes %.1f µs, 99 of 100 at most %.1f µs.",
		report.Count(float64(len(list))), float64(callers)/float64(len(list)), float64(len(file))/float64(len(list)),
		float64(took[len(took)/2].Nanoseconds())/1e3, float64(took[len(took)*99/100].Nanoseconds())/1e3), nil
}

// asking has the requests that a hub is measured with.
type asking struct {
	build
	requests int
}

func (q asking) measure(ctx context.Context, p *place, kind string, s *ccmap.Snapshot) (rows [][]string, err error) {
	args, _, closes, err := p.open(ctx, kind)
	if err != nil {
		return nil, err
	}
	defer closes()
	h, err := p.start(ctx, append(args, "--window", "20ms", "--round", "200ms"))
	if err != nil {
		return nil, err
	}
	defer func() { h.Process.Kill(); h.Wait() }()
	if err := sendBuild(ctx, h.url, s); err != nil {
		return nil, err
	}
	tag, err := awaitFanIn(ctx, h.url)
	if err != nil {
		return nil, err
	}
	list := fanin.Of(s)
	for _, kindOf := range questions(h.url, tag, list) {
		row := []string{kind, kindOf.name, ""}
		for _, clients := range []int{1, 8} {
			took, size, err := kindOf.ask(ctx, clients, q.requests)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", kindOf.name, err)
			}
			row[2] = report.Number(float64(size)/1000, 1)
			row = append(row, milliseconds(took[len(took)/2]), milliseconds(took[len(took)*99/100]))
		}
		log.Printf("%s: %s", kind, strings.Join(row[1:], ", "))
		rows = append(rows, row)
	}
	return rows, nil
}

func milliseconds(d time.Duration) string { return report.Number(float64(d.Microseconds())/1000, 2) }

// askedBuild is the key of the build, as a contribution has it.
var askedBuild = contribution.Key{
	Target: "web", Build: "1f0c", Kind: ccmap.CPUTime.Kind(), Base: ccmap.CPUTime.Base(), Instance: strings.Repeat("30", 16), Epoch: 1, Seq: 1, CPUs: 4,
}

// sendBuild sends a profile, as one contribution of a day.
func sendBuild(ctx context.Context, url string, s *ccmap.Snapshot) error {
	var body bytes.Buffer
	z, err := zstd.NewWriter(&body)
	if err != nil {
		return err
	}
	if err := errors.Join(export.Write(z, export.JSON, s), z.Close()); err != nil {
		return err
	}
	k := askedBuild
	k.To = time.Now()
	k.From = k.To.Add(-24 * time.Hour)
	frame, err := contribution.Append(nil, k, body.Bytes())
	if err != nil {
		return err
	}
	status, err := post(ctx, http.DefaultClient, url, frame)
	if err == nil && status != http.StatusNoContent {
		err = fmt.Errorf("send the build: status %d", status)
	}
	return err
}

const fanInPath = "/v1/fanin?target=web&build=1f0c"

// awaitFanIn waits until a hub has the build, and returns the tag of its fan-in.
func awaitFanIn(ctx context.Context, url string) (tag string, err error) {
	for ctx.Err() == nil {
		q := question{method: http.MethodGet, url: url + fanInPath}
		answer, _, err := q.once(ctx, http.DefaultClient, nil)
		if err != nil {
			return "", err
		}
		if answer.StatusCode == http.StatusOK {
			return answer.Header.Get("ETag"), nil
		}
		time.Sleep(100 * time.Millisecond) // until it has merged
	}
	return "", ctx.Err()
}

// question is a kind of requests. Each is about other methods.
type question struct {
	name, method, url, tag string
	want                   int
	at                     func(r *rand.Rand) (suffix string, body []byte) // nil: all are the same
}

func questions(at, tag string, list fanin.List) []question {
	some := func(n int) func(r *rand.Rand) (string, []byte) {
		return func(r *rand.Rand) (string, []byte) {
			var all fleet.Wanteds
			for range n {
				all.Methods = append(all.Methods, fleet.Wanted{Method: list[r.IntN(len(list))].Name})
			}
			body, err := json.Marshal(all)
			if err != nil {
				panic(err) // it is a list of texts
			}
			return "", body
		}
	}
	one := func(r *rand.Rand) (string, []byte) {
		k := list[r.IntN(len(list))].Key
		return fmt.Sprintf("&method=%s&signature=%s&body=%x", url.QueryEscape(k.Name), url.QueryEscape(k.Signature), k.Body), nil
	}
	return []question{
		{"`GET`, the file", http.MethodGet, at + fanInPath, "", http.StatusOK, nil},
		{"`GET`, the file is known", http.MethodGet, at + fanInPath, tag, http.StatusNotModified, nil},
		{"`GET`, a method", http.MethodGet, at + fanInPath, "", http.StatusOK, one},
		{"`POST`, a method", http.MethodPost, at + fanInPath, "", http.StatusOK, some(1)},
		{"`POST`, 20 methods", http.MethodPost, at + fanInPath, "", http.StatusOK, some(20)},
	}
}

// ask sends so many requests from so many clients, one after the other each, and returns how long they took, in order,
// and how large the last answer was.
func (q question) ask(ctx context.Context, clients, requests int) (took []time.Duration, size int, err error) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}, Timeout: time.Minute}
	defer client.CloseIdleConnections()
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			r := rand.New(rand.NewPCG(30, uint64(i)))
			for range requests / clients {
				t, n, failed := q.timed(ctx, client, r)
				mu.Lock()
				took, size, err = append(took, t), n, errors.Join(err, failed)
				mu.Unlock()
				if failed != nil {
					return
				}
			}
		})
	}
	all.Wait()
	slices.Sort(took)
	return took, size, err
}

func (q question) timed(ctx context.Context, client *http.Client, r *rand.Rand) (time.Duration, int, error) {
	var body []byte
	if q.at != nil {
		var suffix string
		suffix, body = q.at(r)
		q.url += suffix
	}
	begin := time.Now()
	answer, size, err := q.once(ctx, client, body)
	took := time.Since(begin)
	if err == nil && answer.StatusCode != q.want {
		err = fmt.Errorf("status %d", answer.StatusCode)
	}
	return took, size, err
}

// once sends a request, and reads the answer.
func (q question) once(ctx context.Context, client *http.Client, body []byte) (answer *http.Response, size int, err error) {
	r, err := http.NewRequestWithContext(ctx, q.method, q.url, bytes.NewReader(body))
	if err != nil {
		return nil, 0, err
	}
	r.Header.Set("Authorization", "Bearer reader")
	r.Header.Set("If-None-Match", q.tag)
	if answer, err = client.Do(r); err != nil {
		return nil, 0, err
	}
	defer answer.Body.Close()
	n, err := io.Copy(io.Discard, answer.Body)
	return answer, int(n), err
}
