package main

import (
	"context"
	"fmt"

	"github.com/ccmapd/ccmapd/scripts/campaign"
)

// keepBusy starts so many processes that spin, until stop is called. They are in the campaign's session,
// as the programs that it watches, so the scheduler treats all of their threads alike.
func (f *field) keepBusy(ctx context.Context, processes int) (stop func(), err error) {
	var all []*campaign.Process
	stop = func() {
		for _, p := range all {
			p.Stop()
		}
	}
	for range processes {
		p, err := campaign.Launch{Command: []string{f.Path("clocked"), "spin"}}.Start(ctx)
		if err != nil {
			stop()
			return nil, fmt.Errorf("keep CPUs busy: %w", err)
		}
		all = append(all, p)
	}
	return stop, nil
}
