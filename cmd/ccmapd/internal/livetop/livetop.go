// Package livetop shows the hottest methods of a profile that grows, on a whole terminal: redrawn
// once a second, and steered by keys.
package livetop

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"time"

	"github.com/ccmapd/ccmapd/ccmap/query"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/internal/view"
)

// every is the time between two drawings.
const every = time.Second

// Options say what is shown. Profile is required.
type Options struct {
	In  io.Reader // the terminal
	Out io.Writer

	// Profile returns the profile of now. Run calls it once a second, on a goroutine of its own.
	Profile func(context.Context) (*view.Profile, error)
	Sort    string // one of the orders of view.NewTop; empty: the first
	Recent  bool   // the recent samples alone
}

// Run shows the profile until q is typed or ctx is done, and gives the terminal back. The error is
// terminal.ErrNoTerminal or the first one of Profile, if it never returned a profile.
func Run(ctx context.Context, o Options) error {
	screen, err := terminal.OpenScreen(o.In, o.Out)
	if err != nil {
		return err
	}
	defer screen.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f := &follower{screen: screen, sort: o.Sort, recent: o.Recent, got: make(chan got, 1)}
	if f.sort == "" {
		f.sort = orders[0]
	}
	go f.ask(ctx, o.Profile)
	return f.run(ctx)
}

// follower is the state of the screen. The goroutine of run owns it, but for got.
type follower struct {
	screen *terminal.Screen
	got    chan got

	sort    string
	recent  bool
	filter  string // matches names of methods; empty: all
	typing  bool   // the filter
	profile *view.Profile
	trouble error // of the last attempt to get one
}

// got is a profile, or why there is none.
type got struct {
	profile *view.Profile
	err     error
}

// orders are the orders that a key chooses, one after the other.
var orders = []string{view.ByFlat, view.ByCum, view.ByRecent, view.BySamples}

// ask gets the profile once a second.
func (f *follower) ask(ctx context.Context, profile func(context.Context) (*view.Profile, error)) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		p, err := profile(ctx)
		select {
		case f.got <- got{p, err}:
		case <-ctx.Done():
			return
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

func (f *follower) run(ctx context.Context) error {
	for {
		if err := f.draw(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case g := <-f.got:
			if f.trouble = g.err; g.err == nil {
				f.profile = g.profile
			} else if f.profile == nil {
				return g.err
			}
		case key := <-f.screen.Keys():
			if !f.press(key) {
				return nil
			}
		}
	}
}

const (
	enter     = '\r'
	newline   = '\n'
	escape    = 0x1b
	backspace = 0x7f
	erase     = '\b'

	longestFilter = 200
)

// press obeys a key. It returns false for the one that quits.
func (f *follower) press(key byte) bool {
	switch {
	case f.typing:
		f.edit(key)
	case key == 'q':
		return false
	case key == 's':
		f.sort = orders[(slices.Index(orders, f.sort)+1)%len(orders)]
	case key == 'r':
		f.recent = !f.recent
	case key == '/':
		f.typing, f.filter = true, ""
	case key == escape:
		f.filter = ""
	}
	return true
}

// edit obeys a key while the filter is typed.
func (f *follower) edit(key byte) {
	switch key {
	case enter, newline:
		f.typing = false
	case escape:
		f.typing, f.filter = false, ""
	case backspace, erase:
		f.filter = f.filter[:max(len(f.filter)-1, 0)]
	default:
		if key >= ' ' && len(f.filter) < longestFilter {
			f.filter += string([]byte{key})
		}
	}
}

// draw shows the profile as it was got last.
func (f *follower) draw() error {
	page, lines := f.screen.Page()
	const others = 6 // lines that are not of the table
	if f.profile != nil {
		if err := f.table(page, uint(max(lines-others, 1))); err != nil {
			fmt.Fprintln(page, err)
		}
	}
	if f.trouble != nil {
		fmt.Fprintf(page, "\n%v\n", f.trouble)
	}
	page.WriteString("\n" + f.help())
	return f.screen.Draw(page, lines)
}

// table prints the hottest methods.
func (f *follower) table(page *terminal.Page, limit uint) error {
	p, err := f.profile, error(nil)
	if f.recent {
		if p, err = p.RecentOnly(); err != nil {
			return err
		}
	}
	list := view.List{Order: f.sort, Limit: limit}
	if f.filter != "" {
		re, err := regexp.Compile(f.filter)
		if err != nil {
			re = regexp.MustCompile(regexp.QuoteMeta(f.filter)) // it is not all typed yet
		}
		if list.Methods, err = query.Matching(p.Names(), re); err != nil {
			return err
		}
	}
	top, err := view.NewTop(p, list)
	if err != nil {
		return err
	}
	return top.Text(page, view.TextOptions{Brief: true})
}

// help is the line of the keys.
func (f *follower) help() string {
	if f.typing {
		return "filter: " + f.filter + "_  (Enter takes it, Esc drops it)"
	}
	what := "all"
	if f.recent {
		what = "recent"
	}
	line := fmt.Sprintf("s sort: %s   r samples: %s   / filter", f.sort, what)
	if f.filter != "" {
		line += ": " + f.filter + " (Esc drops it)"
	}
	return line + "   q quit"
}
