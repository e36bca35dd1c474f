package api

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/ccmapd/ccmapd/internal/daemon"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/internal/view"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/engine"
)

const (
	reportKept  = 5 * time.Second // answers all that ask meanwhile
	mostReports = 64
	reportTime  = 30 * time.Second // to make one: a large program has many symbols
)

// doctors make reports on processes, one at a time: each disturbs its process by all engines. Any
// goroutine may call get.
type doctors struct {
	diagnose func(ctx context.Context, pid int) engine.Report
	now      func() time.Time
	turn     chan struct{} // holds a token while a report is made

	mu   sync.Mutex
	kept map[patient]report
}

// patient is one process, whose number another one may get later. The zero patient is the
// daemon.
type patient struct {
	pid int
	now process.Identity
}

type report struct {
	engine.Report
	until time.Time
}

func newDoctors(all []engine.Engine) *doctors {
	return &doctors{
		diagnose: func(ctx context.Context, pid int) engine.Report {
			return engine.Diagnose(ctx, all, engine.Patient{PID: pid, Daemon: true})
		},
		now: time.Now, turn: make(chan struct{}, 1), kept: make(map[patient]report),
	}
}

// get returns a report on a process, which it makes if there is no recent one.
func (d *doctors) get(ctx context.Context, of patient) (engine.Report, error) {
	if r, ok := d.recent(of); ok {
		return r, nil
	}
	select {
	case d.turn <- struct{}{}:
		defer func() { <-d.turn }()
	default:
		return engine.Report{}, errBusy
	}
	ctx, cancel := context.WithTimeout(ctx, reportTime)
	defer cancel()
	r := d.diagnose(ctx, of.pid)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.kept[of] = report{r, d.now().Add(reportKept)}
	return r, nil
}

// recent returns a report that is kept, and forgets the old ones.
func (d *doctors) recent(of patient) (engine.Report, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for other, r := range d.kept {
		if !d.now().Before(r.until) || len(d.kept) > mostReports {
			delete(d.kept, other)
		}
	}
	r, ok := d.kept[of]
	return r.Report, ok
}

// doctor answers which engines can sample a process, or the daemon. The process must be the peer's
// before and after.
func (c *call) doctor() error {
	q := newParams(c.URL.Query())
	pid := int(q.number("pid", 0))
	if err := q.check(); err != nil {
		return err
	}
	of, err := c.patient(pid)
	if err != nil {
		return err
	}
	if _, kept := c.doctors.recent(of); !kept {
		c.note("a client asks doctor about a process", "pid", pid)
	}
	var r engine.Report
	_, err = c.shares.inTurn(c.Context(), func() (a answer, err error) {
		r, err = c.doctors.get(c.ending, of) // a client that leaves must not spoil it for the others
		return a, err
	})
	if err != nil {
		return err
	}
	switch now, err := c.patient(pid); {
	case err != nil:
		return err
	case now != of:
		return noPatient(pid)
	}
	if k, keeps := c.options.Daemon.Keeping(); pid == 0 && keeps && k.Hub != nil {
		r.Checks = append(slices.Clip(r.Checks), hubCheck(k.Hub))
		if k.Hub.FanIn != nil {
			r.Checks = append(r.Checks, fanInCheck(k.Hub))
		}
	}
	return c.respond(http.StatusOK, r)
}

// patient returns the process of a number, if the peer may ask about it.
func (c *call) patient(pid int) (patient, error) {
	if pid == 0 {
		return patient{}, c.peer.may(masters) // each report costs all sessions time
	}
	now, err := process.IdentityOf(pid)
	switch {
	case err != nil:
		return patient{}, noPatient(pid)
	case !c.peer.master && c.peer.access(now.Owner) == process.NoAccess:
		return patient{}, hidden{noPatient(pid)}
	}
	return patient{pid, now}, nil
}

// hubCheck says whether the hub gets what is filed.
func hubCheck(h *daemon.Sending) engine.Check {
	check := engine.Check{Name: "hub", OK: h.State != daemon.HubFails, Found: fmt.Sprintf("POST %s/v1/contributions: %s", h.URL, h.State)}
	if !check.OK {
		check.Found += ", " + h.Reason
		check.Wanted, check.Cure = "204", cmp.Or(h.Cure, "curl "+h.URL+"/readyz")
	}
	return check
}

// fanInCheck says whether the hub tells from where methods are called.
func fanInCheck(h *daemon.Sending) engine.Check {
	f := h.FanIn
	check := engine.Check{Name: "fan-in of the fleet", OK: f.Reason == "", Found: fmt.Sprintf("GET %s/v1/fanin: %d methods of %d programs", h.URL, f.Methods, f.Programs)}
	if !check.OK {
		check.Found += ", " + f.Reason
		check.Wanted, check.Cure = "200 or 304", cmp.Or(f.Cure, "curl "+h.URL+"/readyz")
	}
	return check
}

func noPatient(pid int) error {
	return &view.Error{Code: view.CodeNoTarget, Err: fmt.Errorf("diagnose process %d: %w", pid, sampler.ErrNoProcess)}
}
