// Package browse opens a page in the user's browser.
//
// The command that does it may have lost its rights to start programs by then. So [Prepare] starts a shell, which waits
// for the page and then becomes the browser's opener.
package browse

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os/exec"
	"syscall"
)

// openers are the programs that open a page, the best first.
var openers = []string{"xdg-open", "x-www-browser"}

// Reasons why no browser is started.
var (
	ErrRoot      = errors.New("as root no browser is started")
	ErrNoDisplay = errors.New("there is no display here")
	ErrNoOpener  = errors.New("neither xdg-open nor x-www-browser is installed")
)

// Browser is a browser that waits for its page. One goroutine uses it.
type Browser struct {
	tell   io.WriteCloser
	failed chan error
}

// Prepare starts what waits for a page. The error is why no browser can be opened. Rights are the caller's own, and the
// output of the browser is not shown.
func Prepare(euid int, getenv func(string) string) (*Browser, error) {
	switch {
	case euid == 0:
		return nil, ErrRoot
	case getenv("DISPLAY") == "" && getenv("WAYLAND_DISPLAY") == "":
		return nil, ErrNoDisplay
	}
	opener := ""
	for _, name := range openers {
		if path, err := exec.LookPath(name); err == nil {
			opener = path
			break
		}
	}
	if opener == "" {
		return nil, ErrNoOpener
	}
	cmd := exec.Command("/bin/sh", "-c", `read -r page && exec "$0" "$page" </dev/null`, opener)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // Ctrl-C is not for the browser
	tell, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("open browser: %w", err)
	}
	b := &Browser{tell: tell, failed: make(chan error, 1)}
	go func() { b.failed <- cmd.Wait() }()
	return b, nil
}

// Open opens a page, a path or an address without a line break. Failed tells once how that went.
func (b *Browser) Open(page string) error {
	_, err := io.WriteString(b.tell, page+"\n")
	if err2 := b.tell.Close(); !errors.Is(err2, fs.ErrClosed) { // by Wait, of an opener that has ended since
		err = errors.Join(err, err2)
	}
	return err
}

// Failed returns the result of the opener, when it has ended.
func (b *Browser) Failed() <-chan error { return b.failed }

// Close ends what waits for a page. A browser that has one goes on.
func (b *Browser) Close() { b.tell.Close() }
