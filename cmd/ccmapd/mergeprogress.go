package main

import (
	"io"
	"time"

	"github.com/ccmapd/ccmapd/internal/terminal"
)

// progressLine shows on a terminal, in one line, how far something has got that
// takes longer than a moment. On anything else it prints nothing.
type progressLine struct {
	w     io.Writer
	drawn time.Time // or begun
	shown bool
}

// draw shows the state, if the last time is long enough ago.
func (p *progressLine) draw(state func() string) {
	now := time.Now()
	if p.drawn.IsZero() {
		p.drawn = now
	}
	if now.Sub(p.drawn) < liveEvery {
		return
	}
	p.drawn = now
	if width := terminal.Width(p.w); width > 0 {
		p.shown = true
		io.WriteString(p.w, terminal.ClearLine+terminal.ShortenEnd(state(), width-1))
	}
}

// clear removes the line, so that other lines can follow.
func (p *progressLine) clear() {
	if p.shown {
		io.WriteString(p.w, terminal.ClearLine)
		p.shown = false
	}
}
