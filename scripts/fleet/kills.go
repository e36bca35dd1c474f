package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/ccmapd/ccmapd/scripts/report"
)

// Of hubs that are killed: they merge all the time, and what a silent hub had is soon taken over.
var killedHub = []string{"--window", "20ms", "--round", "100ms", "--lease", killedLease.String(), "--partitions", "3"}

const (
	killedLease = 300 * time.Millisecond
	longestLife = 1500 * time.Millisecond // of a hub that listens
	stoppedFor  = 3 * killedLease
	senders     = 8
	mostStarts  = 5
	seldom      = 10 // one of so many sends has its connection closed; one of so many lives has a stop
)

// runKills kills two hubs over one bucket with SIGKILL at random moments, and starts them again, while daemons send to
// them: in any order, some contributions twice, some on connections that they close before the answer. Hubs that merge
// are stopped for longer than their lease. Then the sums must be the offline merge, each object that a manifest names
// must exist, and garbage collection must remove the others.
func runKills(ctx context.Context, args []string) error {
	s := settings{daemons: 60, builds: 6, contexts: 40}
	f := flag.NewFlagSet("fleet kills", flag.ExitOnError)
	kills := f.Int("kills", 100, "`number` of kills, for each bucket")
	quick := f.Bool("quick", false, "10 kills and 30 daemons, over a directory alone")
	write := f.Bool("write", false, "write the table into docs/fleet.md")
	f.Parse(args)
	over := kinds()
	if *quick {
		*kills, s.daemons, over = 10, 30, over[:1]
	}
	dir, err := os.MkdirTemp("", "fleet-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	program, err := buildHub(ctx, dir)
	if err != nil {
		return err
	}
	table := &report.Table{Head: []string{"bucket", "kills", "stops", "contributions", "sent again", "starts that failed", "lost", "counted twice", "objects missing", "orphans", "left after an hour"}}
	for _, kind := range over {
		k := &killing{place: &place{settings: s, dir: filepath.Join(dir, kind), program: program}, kills: *kills}
		row, err := k.run(ctx, kind)
		if err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
		table.Row(row...)
	}
	text := fmt.Sprintf("%s, load %.1f.\n\n%s", strings.TrimSuffix(report.Measured(time.Now()), "."), report.LoadAverage(), table)
	fmt.Print(text)
	if *write {
		return report.Portion("fleet kills").Rewrite("../docs/fleet.md", text)
	}
	return nil
}

// killing is a place whose hubs are killed. mu guards the hubs of the place while they are.
type killing struct {
	*place
	kills int
	args  []string

	mu                    sync.Mutex
	left                  atomic.Int64 // kills
	stops, again, restart atomic.Int64
}

func (k *killing) run(ctx context.Context, kind string) ([]string, error) {
	args, objects, closes, err := k.open(ctx, kind)
	if err != nil {
		return nil, err
	}
	defer closes()
	k.args = append(args, killedHub...)
	if k.log, err = os.Create(k.file("hubs.log")); err != nil {
		return nil, err
	}
	defer k.log.Close()
	defer func() {
		for _, h := range k.hubs {
			h.Process.Kill()
		}
	}()
	for range hubs {
		h, err := k.start(ctx, k.args)
		if err != nil {
			return nil, err
		}
		k.hubs = append(k.hubs, h)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(k.kills)*2*longestLife+5*time.Minute)
	defer cancel()
	crowd, err := newCrowd(k.settings)
	if err != nil {
		return nil, err
	}
	sent, err := k.killWhileSending(ctx, kind, crowd)
	if err == nil {
		err = k.check(ctx, crowd) // nothing is lost, nothing counts twice
	}
	if err == nil {
		err = k.endAll()
	}
	orphans := 0
	if err == nil {
		orphans, err = k.collect(ctx, objects, crowd)
	}
	if err != nil {
		return nil, errors.Join(err, k.lastWords())
	}
	return []string{
		kind, fmt.Sprint(k.kills), fmt.Sprint(k.stops.Load()), report.Number(float64(sent), 0), report.Number(float64(k.again.Load()), 0), fmt.Sprint(k.restart.Load()),
		"0", "0", "0", fmt.Sprint(orphans), "0",
	}, nil
}

// lastWords returns the end of what the hubs have logged.
func (k *killing) lastWords() error {
	text, err := os.ReadFile(k.log.Name())
	const most = 4 << 10
	return errors.Join(err, fmt.Errorf("the hubs' log ends with\n%s", text[max(0, len(text)-most):]))
}

// killWhileSending returns how many contributions there are. The crowd then has them.
func (k *killing) killWhileSending(ctx context.Context, kind string, c *crowd) (sent int, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	k.left.Store(int64(k.kills))
	q := &queue{crowd: c, r: rand.New(rand.NewPCG(30, 1))}
	var killers, all sync.WaitGroup
	for i := range hubs {
		killers.Go(func() {
			if err := k.killOne(ctx, kind, i, rand.New(rand.NewPCG(30, uint64(2+i)))); err != nil {
				cancel(err)
			}
		})
	}
	for i := range senders {
		all.Go(func() {
			if err := k.sendAll(ctx, q, rand.New(rand.NewPCG(31, uint64(i)))); err != nil {
				cancel(err)
			}
		})
	}
	killers.Wait()
	q.end()
	all.Wait()
	c.periods = q.periods
	return q.periods * c.daemons, context.Cause(ctx)
}

// killOne kills a hub again and again, and starts it.
func (k *killing) killOne(ctx context.Context, kind string, i int, r *rand.Rand) error {
	for ctx.Err() == nil {
		left := k.left.Add(-1)
		if left < 0 {
			return nil
		}
		if left%25 == 0 {
			log.Printf("%s: %d kills to go; contributions were sent again %d times", kind, left, k.again.Load())
		}
		wait(ctx, time.Duration(r.Int64N(int64(longestLife))))
		h := k.hub(i)
		if r.IntN(seldom) == 0 {
			k.stop(ctx, h)
			wait(ctx, time.Duration(r.Int64N(int64(killedLease))))
		}
		h.Process.Kill()
		h.Wait()
		next, err := k.startAgain(ctx)
		if err != nil {
			return err
		}
		k.mu.Lock()
		k.hubs[i] = next
		k.mu.Unlock()
	}
	return nil
}

// startAgain starts a hub until it listens, as a manager of services does: versitygw 1.8.0 refuses a write now and then,
// when the folder of its key is removed at the same time. The hub outlives the kills.
func (k *killing) startAgain(ctx context.Context) (h *hub, err error) {
	for range mostStarts {
		if h, err = k.start(context.WithoutCancel(ctx), k.args); err == nil {
			return h, nil
		}
		k.restart.Add(1)
		wait(ctx, 100*time.Millisecond)
	}
	return nil, err
}

// stop stops a hub that merges for longer than its lease.
func (k *killing) stop(ctx context.Context, h *hub) {
	for begin := time.Now(); !merges(ctx, h); {
		if ctx.Err() != nil || time.Since(begin) > 10*time.Second {
			return // the other hub has all
		}
		wait(ctx, 10*time.Millisecond)
	}
	h.Process.Signal(syscall.SIGSTOP)
	wait(ctx, stoppedFor)
	h.Process.Signal(syscall.SIGCONT)
	k.stops.Add(1)
}

var partitionsMetric = regexp.MustCompile(`(?m)^ccmapd_hub_partitions [1-9]`)

// merges reports whether a hub says that it has a lease.
func merges(ctx context.Context, h *hub) bool {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, h.url+"/metrics", nil)
	if err != nil {
		return false
	}
	q.Header.Set("Authorization", "Bearer reader")
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	return partitionsMetric.Match(text)
}

// exist reports whether any of some files exists.
func exist(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { _, err := os.Lstat(name); return err == nil })
}

func (k *killing) hub(i int) *hub {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.hubs[i]
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// queue has what is to be sent, in random order within some periods. mu guards the rest.
type queue struct {
	*crowd
	mu      sync.Mutex
	r       *rand.Rand
	periods int
	waiting [][2]int // daemon and number
	ended   bool
}

const shuffled = 3 // periods

func (q *queue) next() (daemon, seq int, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 && !q.ended {
		for i := range shuffled * q.daemons {
			q.waiting = append(q.waiting, [2]int{i % q.daemons, q.periods + i/q.daemons})
		}
		q.r.Shuffle(len(q.waiting), func(i, j int) { q.waiting[i], q.waiting[j] = q.waiting[j], q.waiting[i] })
		q.periods += shuffled
	}
	if len(q.waiting) == 0 {
		return 0, 0, false
	}
	next := q.waiting[0]
	q.waiting = q.waiting[1:]
	return next[0], next[1], true
}

// end lets nothing more begin: what has begun is sent.
func (q *queue) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = true
}

// sendAll sends until the queue ends, and some contributions of before again.
func (k *killing) sendAll(ctx context.Context, q *queue, r *rand.Rand) error {
	client := &http.Client{Timeout: 2 * stoppedFor}
	defer client.CloseIdleConnections()
	var before []byte
	for ctx.Err() == nil {
		daemon, seq, ok := q.next()
		if !ok {
			return nil
		}
		body := q.contribution(daemon, seq)
		err := k.deliver(ctx, client, r, body)
		if before != nil && r.IntN(again) == 0 {
			err = errors.Join(err, k.deliver(ctx, client, r, before))
			k.again.Add(1)
		}
		if err != nil {
			return err
		}
		if before == nil || r.IntN(3) == 0 {
			before = body
		}
	}
	return nil
}

// deliver sends a contribution until a hub has acknowledged it. It closes some connections before the answer.
func (k *killing) deliver(ctx context.Context, client *http.Client, r *rand.Rand, body []byte) error {
	for ctx.Err() == nil {
		try, cancel := ctx, context.CancelFunc(func() {})
		if r.IntN(seldom) == 0 {
			try, cancel = context.WithTimeout(ctx, time.Duration(r.IntN(60))*time.Millisecond)
		}
		status, err := post(try, client, k.hub(r.IntN(hubs)).url, body)
		cancel()
		switch {
		case err == nil && status == http.StatusNoContent:
			return nil
		case err == nil && status != http.StatusServiceUnavailable && status != http.StatusTooManyRequests:
			return fmt.Errorf("send contribution: status %d", status)
		}
		k.again.Add(1)
		wait(ctx, 10*time.Millisecond)
	}
	return nil
}

// endAll ends the hubs gracefully.
func (k *killing) endAll() (failed error) {
	for _, h := range k.hubs {
		failed = errors.Join(failed, h.Process.Signal(syscall.SIGTERM), h.Wait())
	}
	k.hubs = nil
	return failed
}

// collect checks the objects of a bucket whose hubs have ended, has all grow older than an hour, and a hub remove those
// that no manifest names. It returns how many these were.
func (k *killing) collect(ctx context.Context, objects string, c *crowd) (orphans int, err error) {
	is, err := readObjects(objects)
	if err != nil {
		return 0, err
	}
	log.Printf("%d manifests name %d objects; %d others", is.manifests, is.named, len(is.orphans))
	if err := is.age(2 * time.Hour); err != nil {
		return 0, err
	}
	h, err := k.start(ctx, k.args)
	if err != nil {
		return 0, err
	}
	k.hubs = []*hub{h}
	for exist(is.orphans) || nothingWaits(objects) != nil { // what was sent again may wait for a round
		if ctx.Err() != nil {
			return 0, errors.Join(ctx.Err(), nothingWaits(objects))
		}
		wait(ctx, 100*time.Millisecond)
	}
	if err := errors.Join(k.check(ctx, c), k.endAll()); err != nil {
		return 0, err
	}
	_, err = readObjects(objects)
	return len(is.orphans), err
}
