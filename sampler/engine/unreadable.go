package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler"
)

// Program is what a process runs: a file, in the hands of one owner. What an engine reads is the memory of
// the process, and its owner can have changed that.
type Program struct {
	File  process.FileID
	Owner process.Owner
}

// Unreadable remembers which programs which engines cannot read ([sampler.ErrProgram]), so that each is read
// once. The zero value is useful. Any goroutine may call its methods.
type Unreadable struct {
	mu      sync.Mutex
	refused map[Program]*refusals
}

// refusals of a program.
type refusals struct {
	by   map[string]error // by the name of the engine
	told bool
}

// mostUnreadable bounds the programs that are remembered.
const mostUnreadable = 4096

// Spare returns engines that do not read the program if they could not read it before.
func (u *Unreadable) Spare(all []Engine, p Program) []Engine {
	spared := make([]Engine, len(all))
	for i, e := range all {
		spared[i] = e
		spared[i].Open = func(ctx context.Context, o sampler.ProcessOptions) (Source, error) {
			if known := u.of(p, e.Name); known != nil {
				return nil, fmt.Errorf("attach to process %d: %w", o.PID, known)
			}
			s, err := e.Open(ctx, o)
			if errors.Is(err, sampler.ErrProgram) {
				u.remember(p, e.Name, withoutProcess(err))
			}
			return s, err
		}
	}
	return spared
}

// attachPrefix begins the errors of engines, before the number of the process.
const attachPrefix = "attach to process "

// withoutProcess returns an error without the words that name the process.
func withoutProcess(err error) error {
	if what, rest, _ := strings.Cut(err.Error(), ": "); rest != "" && strings.HasPrefix(what, attachPrefix) {
		return process.As(errors.New(rest), err)
	}
	return err
}

func (u *Unreadable) of(p Program, engine string) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if r := u.refused[p]; r != nil {
		return r.by[engine]
	}
	return nil
}

func (u *Unreadable) remember(p Program, engine string, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.refused) >= mostUnreadable {
		clear(u.refused)
	}
	if u.refused == nil {
		u.refused = make(map[Program]*refusals)
	}
	if u.refused[p] == nil {
		u.refused[p] = &refusals{by: make(map[string]error)}
	}
	u.refused[p].by[engine] = err
}

// Told reports whether it was called before for a program that is remembered.
func (u *Unreadable) Told(p Program) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	r := u.refused[p]
	if r == nil {
		return false
	}
	told := r.told
	r.told = true
	return told
}

// Forget makes engines read all programs again.
func (u *Unreadable) Forget() {
	u.mu.Lock()
	defer u.mu.Unlock()
	clear(u.refused)
}
