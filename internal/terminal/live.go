package terminal

import (
	"io"
	"sync"
	"time"
)

// LiveEvery is the time between two drawings of a line: short enough to look alive, and
// long enough to be read.
const LiveEvery = 500 * time.Millisecond

// Live redraws one line on a terminal. On any other writer it prints nothing.
type Live struct {
	w    io.Writer
	next func() string // the line of the present state
	quit chan struct{}
	done sync.WaitGroup
}

// StartLive begins to draw the lines that next returns.
func StartLive(w io.Writer, next func() string) *Live {
	l := &Live{w: Unguarded(w), next: next, quit: make(chan struct{})}
	if Width(w) > 0 {
		l.done.Go(l.run)
	}
	return l
}

// Stop ends the line and removes it from the terminal.
func (l *Live) Stop() {
	close(l.quit)
	l.done.Wait()
}

func (l *Live) run() {
	ticker := time.NewTicker(LiveEvery)
	defer ticker.Stop()
	defer io.WriteString(l.w, ClearLine)
	for {
		select {
		case <-l.quit:
			return
		case <-ticker.C:
			io.WriteString(l.w, ClearLine+shortenEnd(l.next(), Width(l.w)-1))
		}
	}
}

// AboveLive returns a writer for lines that may be written while a live line is drawn on w.
func AboveLive(w io.Writer) io.Writer {
	if Width(w) > 0 {
		return Guarded(aboveLine{Unguarded(w)})
	}
	return w
}

// aboveLine is a terminal that has a live line. Written text takes the place of the line,
// which is then drawn below. One Write writes whole lines.
type aboveLine struct{ w io.Writer }

func (a aboveLine) Write(p []byte) (int, error) {
	if _, err := io.WriteString(a.w, ClearLine); err != nil {
		return 0, err
	}
	return a.w.Write(p)
}

// Progress shows on a terminal, in one line, the progress of work that takes longer than a
// moment. On any other writer it prints nothing.
type Progress struct {
	W     io.Writer
	drawn time.Time // or begun
	shown bool
}

// Draw shows the state, if the last time is long enough ago.
func (p *Progress) Draw(state func() string) {
	now := time.Now()
	if p.drawn.IsZero() {
		p.drawn = now
	}
	if now.Sub(p.drawn) < LiveEvery {
		return
	}
	p.drawn = now
	if width := Width(p.W); width > 0 {
		p.shown = true
		io.WriteString(p.W, ClearLine+shortenEnd(state(), width-1))
	}
}

// Clear removes the line, so that other lines can follow.
func (p *Progress) Clear() {
	if p.shown {
		io.WriteString(p.W, ClearLine)
		p.shown = false
	}
}
