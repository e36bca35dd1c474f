package api

import (
	"bytes"
	"container/list"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/view"
)

const (
	mostHeavy   = 4                // answers that are made at once
	heavyWait   = 2 * time.Second  // for one's turn to make one
	mostAnswer  = 64 << 20         // bytes of an answer
	mostShared  = 32 << 20         // bytes of all answers that are kept
	mostUnsent  = 256 << 20        // bytes of all answers that are being sent
	mostKept    = 1 << 10          // answers
	answersKept = 10 * time.Second // since they were asked for last: they hold snapshots
)

var (
	errBusy     = &view.Error{Code: view.CodeBusy, Err: errors.New("too many requests at once"), Hint: "Ask again in a second."}
	errBroken   = errors.New("an error in ccmapd")
	errTooLarge = &view.Error{Code: view.CodeTooLarge, Err: fmt.Errorf("the answer has more than %d MiB", mostAnswer>>20), Hint: "Lower limit or depth."}
)

// answer is the bytes of a response. It never changes.
type answer struct {
	contentType string
	packed      bool // as zstd
	body        []byte
	tag         string // names the body; "": none
}

// tagged returns the answer with a tag, by which a client asks whether it has the same one already. Equal answers have
// equal tags, whatever their snapshots: of a target that nothing is sampled of any more, for example.
func (a answer) tagged() answer {
	sum := sha256.Sum256(a.body)
	a.tag = `W/"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"` // weak: the coding differs
	return a
}

// shares keeps answers, each made once for all that ask for the same of the same snapshots. Few
// are made at once. Any goroutine may call make.
type shares struct {
	turns chan struct{}                                // holds a token for each answer that is being made
	spent func(ctx context.Context, cpu time.Duration) // is told the CPU time of each, and whose it is

	mu     sync.Mutex
	kept   map[string]*list.Element // of *shared, by question
	recent *list.List               // the one that was asked for last in front
	bytes  int                      // of all that is kept
	unsent int64                    // bytes of answers on their way
}

// shared is an answer that is made, or is being made.
//
//	question, of, ready  never change
//	answer, err          written before ready is closed
//	asked                under shares.mu
type shared struct {
	question string
	of       [2]*ccmap.Snapshot
	ready    chan struct{}
	answer   answer
	err      error
	asked    time.Time
}

func newShares(spent func(context.Context, time.Duration)) *shares {
	if spent == nil {
		spent = func(context.Context, time.Duration) {}
	}
	return &shares{turns: make(chan struct{}, mostHeavy), spent: spent, kept: make(map[string]*list.Element), recent: list.New()}
}

// get returns the answer to a question about snapshots. The first caller makes it, the others wait
// for it.
func (s *shares) get(ctx context.Context, question string, of [2]*ccmap.Snapshot, make func() (answer, error)) (answer, error) {
	one, first := s.find(question, of)
	if first {
		s.fill(ctx, one, make)
	}
	select {
	case <-one.ready:
		return one.answer, one.err
	case <-ctx.Done():
		return answer{}, ctx.Err()
	}
}

// find returns the answer to a question, and whether the caller must make it.
func (s *shares) find(question string, of [2]*ccmap.Snapshot) (one *shared, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.dropUnasked(now)
	if e, ok := s.kept[question]; ok {
		if one = e.Value.(*shared); one.of == of {
			one.asked = now
			s.recent.MoveToFront(e)
			return one, false
		}
		s.drop(e)
	}
	one = &shared{question: question, of: of, ready: make(chan struct{}), asked: now}
	s.kept[question] = s.recent.PushFront(one)
	return one, true
}

// fill makes an answer when there is a turn for it. An answer that fails is not kept.
func (s *shares) fill(ctx context.Context, one *shared, make func() (answer, error)) {
	one.err = errBroken // for the others that wait, if make panics
	defer s.keep(one)
	one.answer, one.err = s.inTurn(context.WithoutCancel(ctx), make)
}

// keep gives an answer to all that wait, and keeps it for others while there is room.
func (s *shares) keep(one *shared) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(one.ready)
	e, ok := s.kept[one.question]
	if !ok || e.Value != one {
		return
	}
	if s.bytes += one.size(); one.err != nil || one.size() > mostShared/2 {
		s.drop(e)
	}
	for s.bytes > mostShared || s.recent.Len() > mostKept {
		s.drop(s.recent.Back())
	}
}

func (one *shared) size() int { return len(one.question) + len(one.answer.body) }

// inTurn makes an answer when fewer than mostHeavy are being made.
func (s *shares) inTurn(ctx context.Context, make func() (answer, error)) (a answer, err error) {
	err = s.workInTurn(ctx, func(cpu time.Duration) { s.spent(ctx, cpu) }, func() (err error) {
		if a, err = make(); err == nil {
			a = a.tagged()
		}
		return err
	})
	return a, err
}

// workInTurn does some work when fewer than mostHeavy answers are being made, and tells spent of its CPU time.
func (s *shares) workInTurn(ctx context.Context, spent func(time.Duration), work func() error) error {
	wait := time.NewTimer(heavyWait)
	defer wait.Stop()
	select {
	case s.turns <- struct{}{}:
	case <-wait.C:
		return errBusy
	case <-ctx.Done():
		return errBusy
	}
	defer func() { <-s.turns }()
	m := meter{spent: spent}
	m.start()
	defer m.stop()
	return work()
}

// meter tells of the CPU time of a goroutine. The goroutine keeps its thread from start to stop: the
// thread's clock is the answer's.
type meter struct {
	spent func(cpu time.Duration)
	begin time.Duration
}

func (m *meter) start() {
	runtime.LockOSThread()
	m.begin = threadCPU()
}

func (m *meter) stop() {
	m.spent(threadCPU() - m.begin)
	runtime.UnlockOSThread()
}

// threadCPU returns the CPU time of the calling thread.
func threadCPU() time.Duration {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now) // does not fail (clock_gettime(2))
	return time.Duration(now.Nano())
}

// dropUnasked drops answers that no request has asked for lately: they hold snapshots.
func (s *shares) dropUnasked(now time.Time) {
	for e := s.recent.Back(); e != nil && now.Sub(e.Value.(*shared).asked) > answersKept; e = s.recent.Back() {
		s.drop(e)
	}
}

func (s *shares) drop(e *list.Element) {
	one := e.Value.(*shared)
	select {
	case <-one.ready:
		s.bytes -= one.size()
	default: // it does not count yet
	}
	delete(s.kept, one.question)
	s.recent.Remove(e)
}

// sending counts bytes on their way to a client. An error means that there are too many.
func (s *shares) sending(n int) (done func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unsent += int64(n); s.unsent > mostUnsent && s.unsent > int64(n) {
		s.unsent -= int64(n)
		return nil, errBusy
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.unsent -= int64(n)
	}, nil
}

// boundedBuffer is an answer in the making.
type boundedBuffer struct{ bytes.Buffer }

func (b *boundedBuffer) Write(p []byte) (int, error) {
	if b.Len()+len(p) > mostAnswer {
		return 0, errTooLarge
	}
	return b.Buffer.Write(p)
}
