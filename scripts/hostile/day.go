package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"sync"
	"time"

	"github.com/ccmapd/ccmapd/internal/daemon"
)

const (
	hoursOfDay     = 24
	restartsAnHour = 42 // of one program, all at a time: over 1,000 a day
	lifeInDay      = 8 * time.Second
)

// compressed gives all processes that restart a place, and files each hour.
func (s *stage) compressed() order {
	return order{rotate: rotation, store: s.store, defaults: fmt.Sprintf("max = %d\n", 2*restartsAnHour)}
}

// day is a day of the daemon in minutes. Each hour many processes of a program start and end, the
// configuration is loaded again, a target is paused and resumed, and all counts are filed.
func (s *stage) day(ctx context.Context) (string, error) {
	if err := s.link("restarted"); err != nil {
		return "", err
	}
	c := s.webClient(rootUser)
	defer c.CloseIdleConnections()
	for hour := range hoursOfDay {
		if err := s.hour(ctx, c, s.members[hour%s.programs()].name); err != nil {
			return "", fmt.Errorf("hour %d: %w", hour, err)
		}
	}
	const all = hoursOfDay * restartsAnHour
	err := s.served.awaits(ctx, "sample all processes to their end", []string{"restarted"}, func(t daemon.TargetStatus) bool { return t.Restarts >= all })
	return fmt.Sprintf("%d restarts, %d reloads, %d pauses", all, hoursOfDay, hoursOfDay), errors.Join(err, s.goesOn(ctx))
}

func (s *stage) hour(ctx context.Context, c *webClient, rests string) error {
	var all sync.WaitGroup
	defer all.Wait()
	for range restartsAnHour {
		cmd := exec.CommandContext(ctx, s.executable("restarted"), "eases", "for", lifeInDay.String())
		if err := cmd.Start(); err != nil {
			return err
		}
		all.Go(func() { cmd.Wait() })
	}
	for _, path := range []string{"/v1/targets/" + rests + "/pause", "/v1/reload", "/v1/targets/" + rests + "/resume"} {
		if _, err := c.want(ctx, http.StatusAccepted, http.MethodPost, path); err != nil {
			return err
		}
	}
	return s.served.awaits(ctx, "sample all processes", []string{"restarted"}, func(t daemon.TargetStatus) bool {
		n := 0
		for _, p := range t.Processes {
			if p.State == daemon.Sampling {
				n++
			}
		}
		return n >= restartsAnHour
	})
}
