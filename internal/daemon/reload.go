package daemon

import (
	"fmt"

	"github.com/ccmapd/ccmapd/internal/daemon/config"
)

// read reads and checks a configuration, and makes its targets.
func (m *means) read(load func() (*config.Config, error)) (*config.Config, []*target, error) {
	c, err := load()
	if err != nil {
		return nil, nil, err
	}
	var targets []*target
	for _, one := range c.Targets {
		rule, err := one.Match.Rule()
		if err != nil {
			return nil, nil, fmt.Errorf("target %s: %w", one.Name, err)
		}
		t := m.newTarget(one)
		t.rule = rule
		targets = append(targets, t)
	}
	return c, targets, nil
}

// apply puts a configuration into force.
func (d *Daemon) apply(c *config.Config, targets []*target) {
	d.inForce.Store(c)
	d.roster.replace(targets)
	limitHeap(c.Budget.Memory)
	d.discovery.lookAgain(allProcesses)
}

// Reload reads the configuration again. On an error the old one stays in force.
func (d *Daemon) Reload() error {
	d.reloading.Lock()
	defer d.reloading.Unlock()
	c, targets, err := d.means.read(d.load)
	d.reloaded.Store(&err)
	if err != nil {
		d.log.Error("configuration is not loaded, the old one stays", "error", err)
		d.events.raise(Event{Kind: EventReload, Text: "refused: " + err.Error()})
		return err
	}
	d.unreadable.Forget()
	if d.periods.keeper != nil {
		d.periods.keeper.SetBounds(c.Store.Keep, c.Store.Moments, c.Store.MaxBytes)
	}
	d.apply(c, targets)
	if err := d.sender.begin(d.roster.sends); err != nil {
		d.log.Error("nothing is sent to the hub", "error", err)
	}
	d.sender.wake()
	text := fmt.Sprintf("%d targets", len(c.Targets))
	if c.Listen != d.first.Listen || c.Budget.MaxHostOverhead != d.first.Budget.MaxHostOverhead || !c.Store.IsAt(d.first.Store) {
		d.log.Warn("listen, budget.max_host_overhead and the directory of the store are as they were at the start: start the daemon anew to change them")
		text += "; listen, budget.max_host_overhead and the directory of the store are as they were at the start"
	}
	d.log.Info("configuration loaded", "targets", len(c.Targets))
	d.events.raise(Event{Kind: EventReload, Text: text})
	return nil
}

// LastReload returns the error of the last reload; nil: the configuration in force is the latest.
func (d *Daemon) LastReload() error {
	if last := d.reloaded.Load(); last != nil {
		return *last
	}
	return nil
}

// Config returns the configuration in force, which never changes.
func (d *Daemon) Config() *config.Config { return d.inForce.Load() }
