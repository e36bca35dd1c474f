package terminal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// Screen is a whole terminal that is redrawn, and whose keys are read one by one. Close gives
// the terminal back as it was. Signals keep their keys, except the one that stops a process:
// nothing would give the terminal back.
type Screen struct {
	in, out *os.File
	before  unix.Termios
	keys    chan byte
	quit    chan struct{}
	done    sync.WaitGroup
	close   sync.Once
}

// ErrNoTerminal means that a screen needs a terminal, for input and for output.
var ErrNoTerminal = errors.New("standard input and output are not a terminal")

// Sequences of ECMA-48 and, for the alternate screen, of xterm.
const (
	openScreen  = "\x1b[?1049h\x1b[?25l" // alternate screen, no cursor
	closeScreen = "\x1b[?25h\x1b[?1049l"
	goHome      = "\x1b[H"
	clearRight  = "\x1b[K"
	clearBelow  = "\x1b[J"
)

// OpenScreen takes the terminal that in and out are.
func OpenScreen(in io.Reader, out io.Writer) (*Screen, error) {
	input, ok1 := in.(*os.File)
	output, ok2 := Unguarded(out).(*os.File)
	if !ok1 || !ok2 || Width(output) == 0 {
		return nil, ErrNoTerminal
	}
	before, err := unix.IoctlGetTermios(int(input.Fd()), unix.TCGETS)
	if err != nil {
		return nil, ErrNoTerminal
	}
	s := &Screen{in: input, out: output, before: *before, keys: make(chan byte, 16), quit: make(chan struct{})}
	raw := *before
	raw.Lflag &^= unix.ICANON | unix.ECHO
	raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 0, 1 // a read waits for 0.1 s
	raw.Cc[unix.VSUSP] = 0                       // no key
	if err := unix.IoctlSetTermios(int(input.Fd()), unix.TCSETS, &raw); err != nil {
		return nil, fmt.Errorf("set terminal: %w", err)
	}
	io.WriteString(output, openScreen)
	s.done.Go(s.read)
	return s, nil
}

// read sends keys until the screen is closed. A read of the terminal returns nothing now and
// then.
func (s *Screen) read() {
	key := make([]byte, 1)
	for {
		n, err := s.in.Read(key)
		if n == 0 && err != nil && err != io.EOF {
			return
		}
		select {
		case <-s.quit:
			return
		default:
		}
		if n > 0 {
			select {
			case s.keys <- key[0]:
			case <-s.quit:
				return
			}
		}
	}
}

// Keys returns the bytes that are typed.
func (s *Screen) Keys() <-chan byte { return s.keys }

// Close gives the terminal back. It may be called twice.
func (s *Screen) Close() error {
	var err error
	s.close.Do(func() {
		close(s.quit)
		s.done.Wait()
		_, failed := io.WriteString(s.out, closeScreen)
		err = errors.Join(failed, unix.IoctlSetTermios(int(s.in.Fd()), unix.TCSETS, &s.before))
	})
	return err
}

// Page is the content of a screen while it is made. Tables on it fit the screen.
type Page struct {
	bytes.Buffer
	width int
}

// Width returns the columns of the screen.
func (p *Page) Width() int { return p.width }

// Page returns an empty page, and how many lines it has room for.
func (s *Screen) Page() (page *Page, lines int) {
	width, height, err := term.GetSize(int(s.out.Fd()))
	if err != nil || width <= 0 || height <= 0 {
		width, height = 80, 24
	}
	return &Page{width: width}, height
}

// Draw shows a page, printable and cut to the screen.
func (s *Screen) Draw(page *Page, most int) error {
	var b strings.Builder
	b.WriteString(goHome)
	for i, line := range strings.Split(strings.TrimRight(page.String(), "\n"), "\n") {
		if i >= most {
			break
		}
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(shortenEnd(Printable(line), page.width) + clearRight)
	}
	b.WriteString(clearBelow)
	_, err := io.WriteString(s.out, b.String())
	return err
}
