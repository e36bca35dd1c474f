// Command fleet has simulated daemons send to two hubs over one bucket, a directory or a server of S3, and measures what
// the hubs take. Time runs faster: the daemons' period, the hubs' window and their rounds are all so many times
// shorter. The bucket's own log counts requests. The sums are compared with the offline merge of what was sent.
//
//	go run ./fleet -daemons 1000 -write
//	go run ./fleet kills -kills 500 -write    kills the hubs meanwhile: see kills.go
//	go run ./fleet kills -quick               the same over a directory, in less than a minute
//	go run ./fleet fanin -write               how fast a hub says from where methods are called: see fanin.go
//	go run ./fleet pauses -write              whether a daemon that sends samples less: see pauses.go
package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/contribution"
	"github.com/ccmapd/ccmapd/internal/versitygw"
	"github.com/ccmapd/ccmapd/scripts/report"
)

// Of the daemons and hubs that are simulated.
const (
	period = 10 * time.Minute
	window = 2 * time.Second
	round  = 5 * time.Minute
	hubs   = 2
	again  = 20 // one contribution of so many is sent twice
)

type settings struct {
	daemons, builds, contexts int
	periods                   int
	speed                     float64
}

func main() {
	log.SetFlags(0)
	other := map[string]func(context.Context, []string) error{"kills": runKills, "fanin": runFanIn, "pauses": runPauses}
	if len(os.Args) > 1 && other[os.Args[1]] != nil {
		if err := other[os.Args[1]](context.Background(), os.Args[2:]); err != nil {
			log.Fatal(err)
		}
		return
	}
	var s settings
	flag.IntVar(&s.daemons, "daemons", 1000, "`number` of daemons")
	flag.IntVar(&s.builds, "builds", 10, "`number` of builds that they run")
	flag.IntVar(&s.contexts, "contexts", 300, "`number` of contexts of a contribution, at most")
	flag.IntVar(&s.periods, "periods", 3, "`number` of contributions of each daemon, one in 10 minutes")
	flag.Float64Var(&s.speed, "speed", 20, "how many `times` faster time runs")
	write := flag.Bool("write", false, "write the table into docs/fleet.md")
	flag.Parse()
	text, err := run(context.Background(), s)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(text)
	if *write {
		if err := report.Portion("fleet").Rewrite("../docs/fleet.md", text); err != nil {
			log.Fatal(err)
		}
	}
}

func run(ctx context.Context, s settings) (string, error) {
	dir, err := os.MkdirTemp("", "fleet-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	program, err := buildHub(ctx, dir)
	if err != nil {
		return "", err
	}
	crowd, err := newCrowd(s)
	if err != nil {
		return "", err
	}
	table := &report.Table{Head: []string{
		"bucket", "contributions", "ack p50, ms", "ack p99, ms", "CPU of taking one, ms", "of merging one, ms", "hub's memory, MB", "segments", "parts", "manifests", "reads", "others", "kB written for one", "$ a day",
	}}
	for _, kind := range kinds() {
		p := &place{settings: s, dir: filepath.Join(dir, kind), program: program, log: os.Stderr}
		row, err := p.measure(ctx, kind, crowd)
		if err != nil {
			return "", fmt.Errorf("%s: %w", kind, err)
		}
		table.Row(row...)
	}
	return fmt.Sprintf("%d daemons of %d builds, %d contributions of up to %d contexts each, %d hubs; time ran %g times faster. %s, load %.1f.\n\n%s",
		s.daemons, s.builds, s.periods, s.contexts, hubs, s.speed, strings.TrimSuffix(report.Measured(time.Now()), "."), report.LoadAverage(), table), nil
}

// kinds returns the buckets that there are here.
func kinds() []string {
	if _, err := versitygw.Find(); err != nil {
		log.Printf("S3 is left out: %v", err)
		return []string{"directory"}
	}
	return []string{"directory", "S3"}
}

// buildHub builds the hub of this tree.
func buildHub(ctx context.Context, dir string) (program string, err error) {
	program = filepath.Join(dir, "ccmapd-hub")
	return program, compile(ctx, "../hub", program, "./cmd/ccmapd-hub")
}

// compile builds a command of a module.
func compile(ctx context.Context, module, program, command string) error {
	cmd := exec.CommandContext(ctx, "go", "-C", module, "build", "-o", program, command)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w: %s", command, err, out)
	}
	return nil
}

// place is where a bucket and its hubs live.
type place struct {
	settings
	dir, program string
	log          *os.File // of the hubs
	hubs         []*hub
}

type hub struct {
	*exec.Cmd
	url string
}

// open makes the bucket. It returns the flags of its hubs, and the folder that has the objects as files.
func (p *place) open(ctx context.Context, kind string) (args []string, objects string, closes func(), err error) {
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return nil, "", nil, err
	}
	tokens := fmt.Sprintf("write %x * *\nread %x - *\n", sha256.Sum256([]byte("writer")), sha256.Sum256([]byte("reader")))
	if err := os.WriteFile(p.file("tokens"), []byte(tokens), 0o600); err != nil {
		return nil, "", nil, err
	}
	if kind != "S3" {
		return []string{"--dir", p.file("bucket")}, p.file("bucket"), func() {}, nil
	}
	server := versitygw.Options{Dir: p.file("s3"), Log: p.file("log")}
	address, stop, err := versitygw.Start(ctx, server)
	return []string{"--s3", address, "--bucket", versitygw.Bucket, "--region", versitygw.Region, "--s3-insecure"}, server.Objects(), stop, err
}

func (p *place) measure(ctx context.Context, kind string, c *crowd) ([]string, error) {
	args, _, closes, err := p.open(ctx, kind)
	if err != nil {
		return nil, err
	}
	defer closes()
	for range hubs {
		h, err := p.start(ctx, append(args, "--window", p.faster(window).String(), "--round", p.faster(round).String()))
		if err != nil {
			return nil, err
		}
		defer h.Process.Kill()
		p.hubs = append(p.hubs, h)
	}
	acks, err := p.send(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := p.awaitMerged(ctx); err != nil {
		return nil, err
	}
	spent, err := p.spent(ctx)
	if err != nil {
		return nil, err
	}
	if err := p.check(ctx, c); err != nil {
		return nil, err
	}
	for _, h := range p.hubs {
		if err := errors.Join(h.Process.Signal(syscall.SIGTERM), h.Wait()); err != nil {
			return nil, err
		}
	}
	slices.Sort(acks)
	ms := func(d time.Duration) string { return report.Number(float64(d.Microseconds())/1000, 0) }
	row := append([]string{kind, fmt.Sprint(len(acks)), ms(acks[len(acks)/2]), ms(acks[len(acks)*99/100])}, spent.row()...)
	if kind != "S3" {
		return append(row, "", "", "", "", "", "", ""), nil
	}
	counted, err := countRequests(p.file("log"))
	if err != nil {
		return nil, err
	}
	return append(row, counted.row(p.settings)...), nil
}

func (p *place) file(name string) string { return filepath.Join(p.dir, name) }

// start starts a hub.
func (p *place) start(ctx context.Context, args []string) (*hub, error) {
	c := exec.CommandContext(ctx, p.program, append(args, "--tokens", p.file("tokens"), "--listen", "127.0.0.1:0")...)
	c.Env = versitygw.Environment()
	c.Stderr = p.log
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("the hub has not started: %w", errors.Join(err, c.Wait()))
	}
	fields := strings.Fields(line)
	return &hub{c, "http://" + fields[len(fields)-1]}, nil
}

func (s settings) faster(d time.Duration) time.Duration {
	return time.Duration(float64(d) / s.speed)
}

// send has each daemon send one contribution a period, jittered, to any hub. It returns how long each waited until it
// was acknowledged.
func (p *place) send(ctx context.Context, c *crowd) (acks []time.Duration, err error) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 200, MaxConnsPerHost: 200}, Timeout: time.Minute}
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range p.daemons {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 1))
			for seq := range p.periods {
				time.Sleep(time.Duration(r.Float64() * float64(p.faster(period)) / 2)) // until its moment of the half
				waited, sent := p.sendOne(ctx, client, r, c.contribution(i, seq))
				mu.Lock()
				acks, err = append(acks, waited), errors.Join(err, sent)
				mu.Unlock()
				time.Sleep(p.faster(period) / 2)
			}
		})
	}
	all.Wait()
	return acks, err
}

// sendOne sends a contribution until it is acknowledged, and now and then once more.
func (p *place) sendOne(ctx context.Context, client *http.Client, r *rand.Rand, body []byte) (time.Duration, error) {
	begin := time.Now()
	for range 1 + max(0, 1-r.IntN(again)) {
		for ctx.Err() == nil {
			status, err := post(ctx, client, p.hubs[r.IntN(hubs)].url, body)
			if err == nil && status == http.StatusNoContent {
				break
			}
			if status != http.StatusServiceUnavailable {
				return 0, fmt.Errorf("send contribution: status %d, %w", status, errors.Join(err, errors.New("not taken")))
			}
			time.Sleep(100 * time.Millisecond) // as the hub asks
		}
	}
	return time.Since(begin), ctx.Err()
}

func post(ctx context.Context, client *http.Client, url string, body []byte) (int, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/contributions", bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	q.Header.Set("Authorization", "Bearer writer")
	answer, err := client.Do(q)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode, err
}

// check awaits the sum of each build, and compares it with the offline merge.
func (p *place) check(ctx context.Context, c *crowd) error {
	for b := range p.builds {
		want, err := c.merged(b)
		if err != nil {
			return err
		}
		for {
			m, err := p.sumOf(ctx, b)
			if err == nil && m.Snapshot().Total().Samples == want.Snapshot().Total().Samples {
				if err := equal(m, want); err != nil {
					return fmt.Errorf("build %d: %w", b, err)
				}
				break
			}
			if err == nil && m.Snapshot().Total().Samples > want.Snapshot().Total().Samples {
				return fmt.Errorf("build %d: something counts twice", b)
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			time.Sleep(time.Second) // until it has merged
		}
	}
	return nil
}

func (p *place) sumOf(ctx context.Context, build int) (*ccmap.Map, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s/v1/p/build:%s", p.hubs[0].url, targetOf(build)), nil)
	if err != nil {
		return nil, err
	}
	q.Header.Set("Authorization", "Bearer reader")
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	m, _, err := export.Read(answer.Body, export.ReadOptions{})
	return m, err
}

func equal(a, b *ccmap.Map) error {
	var texts [2]bytes.Buffer
	for i, m := range []*ccmap.Map{a, b} {
		*m.Meta() = ccmap.Meta{}
		if err := export.Write(&texts[i], export.JSON, m.Snapshot()); err != nil {
			return err
		}
	}
	if texts[0].String() != texts[1].String() {
		return errors.New("the sum is not the offline merge")
	}
	return nil
}

func targetOf(build int) string { return fmt.Sprintf("web%d", build) }

// keyOf returns the key of a daemon's contribution. One clock of 25 is a day wrong.
func keyOf(s settings, daemon, seq int) contribution.Key {
	at := time.Now()
	switch daemon % 50 {
	case 1:
		at = at.Add(24 * time.Hour)
	case 2:
		at = at.Add(-24 * time.Hour)
	}
	return contribution.Key{
		Target: targetOf(daemon % s.builds), Build: "1f0c", Kind: ccmap.CPUTime.Kind(), Base: ccmap.CPUTime.Base(),
		Instance: fmt.Sprintf("%032x", sha256.Sum256(fmt.Append(nil, daemon)))[:32], Epoch: 1, Seq: uint64(seq + 1),
		From: at.Add(-period), To: at, CPUs: 1,
	}
}
