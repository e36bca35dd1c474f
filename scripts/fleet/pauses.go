package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/daemon/client"
	"github.com/ccmapd/ccmapd/internal/daemon"
	"github.com/ccmapd/ccmapd/scripts/campaign"
	"github.com/ccmapd/ccmapd/scripts/report"
)

// Of daemons that are watched while they send.
const (
	sendsEach = 2 * time.Second
	slowly    = 1500 * time.Millisecond // an answer of a slow hub
	pollsEach = 20 * time.Millisecond
	patience  = time.Minute
)

// runPauses has daemons sample one program at the same time: one without a hub, and one each with a hub that takes all,
// that answers slowly, that refuses, and that never answers. Whatever a hub does, a daemon must not sample less, nor
// with longer gaps, than the one without.
func runPauses(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("fleet pauses", flag.ExitOnError)
	span := f.Duration("time", 2*time.Minute, "`TIME` that the daemons are watched")
	write := f.Bool("write", false, "write the table into docs/fleet.md")
	f.Parse(args)
	dir, err := os.MkdirTemp("", "fleet-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the programs
	p := &pauses{place: &place{dir: dir, log: os.Stderr}}
	if err := p.start(ctx); err != nil {
		return err
	}
	table, err := p.watch(ctx, *span)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("A program that computes for %v; each daemon samples it every 10 ms of CPU time, and sends every %v. %s, load %.1f.\n\n%s",
		*span, sendsEach, strings.TrimSuffix(report.Measured(time.Now()), "."), report.LoadAverage(), table)
	fmt.Print(text)
	if *write {
		return report.Portion("fleet pauses").Rewrite("../docs/fleet.md", text)
	}
	return nil
}

// pauses are daemons that sample one program.
type pauses struct {
	*place
	ccmapd  string
	target  int // its process
	daemons []*watched
}

// watched is a daemon, and what it says from one look to the next.
type watched struct {
	hub    string // what it does
	pid    int
	client client.Daemon

	first, last daemon.Figures
	cpu         time.Duration // that the daemon had used at first
	grew        time.Time     // when there were new samples last
	gaps        []time.Duration
}

// start starts the program, the hubs and the daemons, and returns when all of them sample.
func (p *pauses) start(ctx context.Context) (err error) {
	if p.program, err = buildHub(ctx, p.dir); err != nil {
		return err
	}
	p.ccmapd = p.file("ccmapd")
	if err := compile(ctx, "..", p.ccmapd, "./cmd/ccmapd"); err != nil {
		return err
	}
	if err := os.Link(p.ccmapd, p.file("web")); err != nil {
		return err
	}
	target := exec.CommandContext(ctx, p.file("web"), "demo-workload", "-mode", "spin", "-n", "1")
	if err := target.Start(); err != nil {
		return err
	}
	p.target = target.Process.Pid
	args, _, _, err := p.open(ctx, "directory")
	if err != nil {
		return err
	}
	taking, err := p.place.start(ctx, args)
	if err != nil {
		return err
	}
	for _, hub := range []struct{ does, url string }{
		{"none", ""}, {"takes all", taking.url}, {"answers after 1.5 s", answering(ctx, slowly, http.StatusNoContent)},
		{"refuses", answering(ctx, 0, http.StatusServiceUnavailable)}, {"never answers", answering(ctx, 24*time.Hour, 0)},
	} {
		if err := p.serve(ctx, hub.does, hub.url); err != nil {
			return err
		}
	}
	return p.await(ctx)
}

// answering starts a hub that gives each contribution one answer, after a while, and returns its URL.
func answering(ctx context.Context, after time.Duration, status int) (url string) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		select {
		case <-time.After(after):
			w.WriteHeader(status)
		case <-r.Context().Done():
		case <-ctx.Done():
		}
	}))
	context.AfterFunc(ctx, s.Close)
	return s.URL
}

// serve starts a daemon that samples the program, and returns when it listens.
func (p *pauses) serve(ctx context.Context, does, url string) error {
	dir := p.file(fmt.Sprintf("daemon%d", len(p.daemons)))
	text := fmt.Sprintf(`
[listen]
socket = "%[1]s/s"
group = ""
[defaults]
interval = "10ms"
tune = false
max_overhead = 0
[store]
files = true
dir = "%[1]s/store"
every = "%[2]s"
[[target]]
name = "web"
match = { exe = "%[3]s" }
rotate = "%[2]s"
`, dir, sendsEach, p.file("web"))
	if url != "" {
		text += fmt.Sprintf("[hub]\nurl = %q\ntoken_file = %q\nevery = %q\n", url, dir+"/token", sendsEach)
	}
	err := os.Mkdir(dir, 0o700)
	for name, text := range map[string]string{"ccmapd.toml": text, "token": "writer\n"} {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	if err != nil {
		return err
	}
	launch := campaign.Launch{Command: []string{p.ccmapd, "serve", "--config", dir + "/ccmapd.toml"}, Ready: listening}
	process, err := launch.Start(ctx)
	if err != nil {
		return err
	}
	p.daemons = append(p.daemons, &watched{hub: does, pid: process.PID(), client: client.Daemon{Sockets: []string{dir + "/s"}}})
	return nil
}

var listening = regexp.MustCompile("^Listening on ")

// figures asks the daemon how much it has sampled.
func (w *watched) figures(ctx context.Context) (daemon.Figures, error) {
	var answer struct {
		Targets []daemon.TargetStatus `json:"targets"`
	}
	if err := w.client.Get(ctx, &answer, "targets"); err != nil {
		return daemon.Figures{}, err
	}
	if len(answer.Targets) != 1 || answer.Targets[0].State != daemon.Sampling {
		return daemon.Figures{}, fmt.Errorf("the daemon whose hub %s does not sample: %+v", w.hub, answer.Targets)
	}
	return answer.Targets[0].Status, nil
}

// await returns when all daemons have samples.
func (p *pauses) await(ctx context.Context) error {
	deadline := time.Now().Add(patience)
	for _, w := range p.daemons {
		for {
			is, err := w.figures(ctx)
			if err == nil && is.Samples > 0 {
				break
			}
			if time.Now().After(deadline) {
				return errors.Join(err, errors.New("a daemon has no samples after a minute"))
			}
			time.Sleep(pollsEach)
		}
	}
	return nil
}

// watch polls all daemons, and tells what they have sampled meanwhile.
func (p *pauses) watch(ctx context.Context, span time.Duration) (*report.Table, error) {
	for _, w := range p.daemons {
		if err := w.begin(ctx); err != nil {
			return nil, err
		}
	}
	used, err := campaign.CPUOf(p.target)
	if err != nil {
		return nil, err
	}
	for end := time.Now().Add(span); time.Now().Before(end); time.Sleep(pollsEach) {
		for _, w := range p.daemons {
			if err := w.look(ctx); err != nil {
				return nil, err
			}
		}
	}
	after, err := campaign.CPUOf(p.target)
	if err != nil {
		return nil, err
	}
	table := &report.Table{Head: []string{
		"the hub", "contributions taken", "attempts that failed", "samples", "of the program's CPU time, %", "samples lost",
		"from new samples to new ones, ms: p50", "p99", "most", "the daemon's CPU, s",
	}}
	for _, w := range p.daemons {
		row, err := w.row(ctx, after-used)
		if err != nil {
			return nil, err
		}
		table.Row(row...)
	}
	return table, nil
}

func (w *watched) begin(ctx context.Context) (err error) {
	if w.first, err = w.figures(ctx); err != nil {
		return err
	}
	w.last, w.grew = w.first, time.Now()
	w.cpu, err = campaign.CPUOf(w.pid)
	return err
}

// look notes how long there were no new samples, once there are some.
func (w *watched) look(ctx context.Context) error {
	is, err := w.figures(ctx)
	if err != nil {
		return err
	}
	if is.Samples != w.last.Samples {
		now := time.Now()
		w.gaps = append(w.gaps, now.Sub(w.grew))
		w.grew = now
	}
	w.last = is
	return nil
}

func (w *watched) row(ctx context.Context, used time.Duration) ([]string, error) {
	var info struct{ Hub *daemon.Sending }
	if err := w.client.Get(ctx, &info, "info"); err != nil {
		return nil, err
	}
	cpu, err := campaign.CPUOf(w.pid)
	if err != nil {
		return nil, err
	}
	if info.Hub == nil {
		info.Hub = &daemon.Sending{}
	}
	lost := func(f daemon.Figures) uint64 { return f.LostSource + f.LostQueue + f.LostCorrupt + f.Orphaned }
	slices.Sort(w.gaps)
	gap := func(part float64) string {
		return report.Number(w.gaps[int(part*float64(len(w.gaps)-1))].Seconds()*1000, 0)
	}
	return []string{
		w.hub, fmt.Sprint(info.Hub.Sent), fmt.Sprint(info.Hub.Failures), report.Count(float64(w.last.Samples - w.first.Samples)),
		report.Number(100*float64(w.last.SampledNS-w.first.SampledNS)/float64(used), 1), fmt.Sprint(lost(w.last) - lost(w.first)),
		gap(0.5), gap(0.99), gap(1), report.Number((cpu - w.cpu).Seconds(), 2),
	}, nil
}
