package daemon

import (
	"fmt"
	"slices"
	"time"

	"github.com/ccmapd/ccmapd/internal/daemon/config"
)

// read reads and checks a configuration, and makes its targets.
func (d *Daemon) read() (*config.Config, []*target, error) {
	c, err := d.load()
	if err != nil {
		return nil, nil, err
	}
	var targets []*target
	for _, one := range c.Targets {
		rule, err := one.Match.Rule()
		if err != nil {
			return nil, nil, fmt.Errorf("target %s: %w", one.Name, err)
		}
		t := newTarget(one)
		t.rule = rule
		targets = append(targets, t)
	}
	return c, targets, nil
}

// apply puts a configuration into force. Unchanged targets stay as they are.
func (d *Daemon) apply(c *config.Config, targets []*target) {
	d.mu.Lock()
	defer d.mu.Unlock()
	kept := make(map[*target]bool)
	for i, t := range targets {
		j := slices.IndexFunc(d.order, func(old *target) bool { return old.attached == nil && old.Target == t.Target })
		if j >= 0 {
			targets[i] = d.order[j]
		}
		kept[targets[i]] = true
	}
	for _, old := range d.order {
		switch {
		case kept[old]:
		case old.attached != nil && !slices.ContainsFunc(targets, func(t *target) bool { return t.Name == old.Name }):
			targets = append(targets, old)
		default:
			d.remove(old, errChanged)
		}
	}
	d.config, d.order = c, targets
	d.lookAgain = append(d.lookAgain, allProcesses)
	limitHeap(c.Budget.Memory)
	d.nudge()
}

// allProcesses, to be looked at again.
const allProcesses = -1

// remove ends the sessions of a target that is no longer in order, and files what it has. The caller
// holds mu.
func (d *Daemon) remove(t *target, cause error) {
	t.rotation = time.Time{}
	t.stopFollowers(cause)
	d.leaving = append(d.leaving, t)
}

// Reload reads the configuration again. On an error the old one stays in force.
func (d *Daemon) Reload() error {
	d.reloading.Lock()
	defer d.reloading.Unlock()
	c, targets, err := d.read()
	if err == nil && c.Store != d.Config().Store {
		err = prepareStore(c.Store, prepareTargets)
	}
	d.mu.Lock()
	d.reloaded = err
	d.mu.Unlock()
	if err != nil {
		d.log.Error("configuration is not loaded, the old one stays", "error", err)
		d.events.raise(Event{Kind: EventReload, Text: "refused: " + err.Error()})
		return err
	}
	d.unreadable.Forget()
	d.apply(c, targets)
	text := fmt.Sprintf("%d targets", len(c.Targets))
	if c.Listen != d.first.Listen || c.Budget.MaxHostOverhead != d.first.Budget.MaxHostOverhead {
		d.log.Warn("listen and budget.max_host_overhead are as they were at the start: start the daemon anew to change them")
		text += "; listen and budget.max_host_overhead are as they were at the start"
	}
	d.log.Info("configuration loaded", "targets", len(c.Targets))
	d.events.raise(Event{Kind: EventReload, Text: text})
	return nil
}

// LastReload returns the error of the last reload; nil: the configuration in force is the latest.
func (d *Daemon) LastReload() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.reloaded
}

// Config returns the configuration in force, which never changes.
func (d *Daemon) Config() *config.Config {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.config
}
