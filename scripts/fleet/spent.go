package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/procfs"

	"github.com/ccmapd/ccmapd/internal/fleet"
	"github.com/ccmapd/ccmapd/scripts/campaign"
	"github.com/ccmapd/ccmapd/scripts/report"
)

// spending is what hubs have used for contributions. Two hubs with one partition both take, and one of them merges: so
// the other one tells what taking costs.
type spending struct {
	taking, merging time.Duration // CPU time of one contribution; 0: both hubs have merged, so nobody knows it apart
	both            time.Duration // of taking and merging one
	memory          uint64        // bytes, the most that a hub had resident
}

// spent says what the hubs have used so far.
func (p *place) spent(ctx context.Context) (all spending, err error) {
	var cpu time.Duration
	var taken, merged uint64
	for _, h := range p.hubs {
		used, err := campaign.CPUOf(h.Process.Pid)
		is, err2 := h.status(ctx)
		most, err3 := mostResident(h.Process.Pid)
		if err := errors.Join(err, err2, err3); err != nil {
			return all, err
		}
		all.memory = max(all.memory, most)
		if is.Merged == 0 && is.Accepted > 0 {
			all.taking = used / time.Duration(is.Accepted)
		}
		cpu, taken, merged = cpu+used, taken+is.Accepted, merged+is.Merged
	}
	if taken > 0 {
		all.both = cpu / time.Duration(taken)
	}
	if all.taking > 0 && merged > 0 {
		all.merging = (cpu - all.taking*time.Duration(taken)) / time.Duration(merged)
	}
	return all, nil
}

func mostResident(pid int) (uint64, error) {
	process, err := procfs.NewProc(pid)
	if err != nil {
		return 0, err
	}
	status, err := process.NewStatus()
	return status.VmHWM, err
}

func (s spending) row() []string {
	ms := func(d time.Duration) string { return report.Number(float64(d.Microseconds())/1000, 1) }
	memory := report.Number(float64(s.memory)/1e6, 0)
	if s.taking == 0 || s.merging == 0 {
		return []string{ms(s.both) + " for both", "", memory}
	}
	return []string{ms(s.taking), ms(s.merging), memory}
}

// awaitMerged returns when nothing waits that was sent before.
func (p *place) awaitMerged(ctx context.Context) error {
	for sent := time.Now(); ; time.Sleep(time.Second) {
		is, err := p.hubs[0].status(ctx)
		if err != nil || is.Waiting == 0 && is.Listed.After(sent) {
			return err
		}
	}
}

// status asks a hub how far it is.
func (h *hub) status(ctx context.Context) (is fleet.Status, err error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, h.url+"/v1/status", nil)
	if err != nil {
		return is, err
	}
	q.Header.Set("Authorization", "Bearer reader")
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		return is, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return is, fmt.Errorf("ask %s for its status: status %d", h.url, answer.StatusCode)
	}
	return is, json.NewDecoder(answer.Body).Decode(&is)
}
