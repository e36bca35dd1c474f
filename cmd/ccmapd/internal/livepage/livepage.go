// Package livepage shows the profile of a session in a browser, from another process, which has no capabilities. The
// process that samples writes profiles to a socket and reads single bytes from it, and parses nothing else:
//
//	sampling process              process of the page
//	'h' name           ──▶        listens on a port, opens the browser
//	                   ◀──  'r'   the page can be opened
//	                   ◀──  's'   the page wants to see the profile of now
//	'm' profile        ──▶
//
// A frame to the page is its letter, its length in four bytes, and so many bytes. The page's process ends when the
// socket is closed.
package livepage

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
)

// Command is the hidden command of the page's process. Its socket is descriptor 3.
const Command = "page"

const socketDescriptor = 3

// Letters of frames and of bytes.
const (
	helloFrame   = 'h'
	profileFrame = 'm'
	readyByte    = 'r'
	askByte      = 's'
)

// Source has the profile of a session. Any goroutine may call Fresh.
type Source interface {
	Fresh(context.Context) (*ccmap.Snapshot, error)
}

// Process is the page's process, seen from the one that samples. One goroutine uses it.
type Process struct {
	cmd   *exec.Cmd
	conn  net.Conn
	ended chan struct{}
	err   error // of the process; set before ended is closed
}

// Start starts the process, by a command of ccmapd. It inherits the capabilities of this process's caller at most, and
// drops them.
func Start(cmd *exec.Cmd) (*Process, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make socket for a page: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "page"), os.NewFile(uintptr(pair[1]), "page")
	defer theirs.Close()
	defer ours.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		return nil, fmt.Errorf("make socket for a page: %w", err)
	}
	cmd.ExtraFiles = []*os.File{theirs}
	if err := cmd.Start(); err != nil {
		conn.Close()
		return nil, fmt.Errorf("start page: %w", err)
	}
	p := &Process{cmd: cmd, conn: conn, ended: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// Show opens the page of a session, and answers its questions from then on. It returns when the page can be opened, or
// the process has ended.
func (p *Process) Show(name string, of Source) error {
	if err := writeFrame(p.conn, helloFrame, []byte(name)); err != nil {
		return p.failure(err)
	}
	in := bufio.NewReader(p.conn)
	if b, err := in.ReadByte(); err != nil || b != readyByte {
		return p.failure(err)
	}
	go p.answer(in, of)
	return nil
}

// failure returns why the process cannot be talked to.
func (p *Process) failure(err error) error {
	p.conn.Close()
	<-p.ended
	return fmt.Errorf("show page: %w", errors.Join(p.err, err))
}

// answer writes a profile for each question. The first error ends it: then the process has ended.
func (p *Process) answer(in *bufio.Reader, of Source) {
	for {
		b, err := in.ReadByte()
		if err != nil || b != askByte {
			return
		}
		s, err := of.Fresh(context.Background())
		if err != nil || writeProfile(p.conn, s) != nil {
			return
		}
	}
}

// Ended is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Close ends the process.
func (p *Process) Close() {
	p.conn.Close()
	<-p.ended
}

func writeFrame(w io.Writer, letter byte, text []byte) error {
	head := binary.LittleEndian.AppendUint32([]byte{letter}, uint32(len(text)))
	_, err := w.Write(append(head, text...))
	return err
}

// writeProfile writes the frame of a profile: JSON as zstd.
func writeProfile(w io.Writer, s *ccmap.Snapshot) error {
	var b bytes.Buffer
	z, err := zstd.NewWriter(&b, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		return err
	}
	if err := errors.Join(export.Write(z, export.JSON, s), z.Close()); err != nil {
		return err
	}
	if b.Len() > mostProfile {
		return errors.New("the profile is too large for a page")
	}
	return writeFrame(w, profileFrame, b.Bytes())
}

// Bounds of what the page's process takes.
const (
	mostName    = 4 << 10
	mostProfile = 256 << 20
	// restFactor is how many times the time of its transfer a profile is shown: reading and writing it costs both
	// processes a twentieth of a core at most.
	restFactor = 20
	leastKept  = time.Second
)

// Session is the session that a page shows, seen from the page's process: package api takes it. Any goroutine may call
// its methods.
type Session struct {
	Name string

	conn   net.Conn
	frames chan []byte   // profiles, as receive gets them
	gone   chan struct{} // closed when the session's process has closed the socket
	now    func() time.Time

	mu     sync.Mutex
	latest *ccmap.Snapshot
	until  time.Time // latest is new enough
}

// Open returns the session that this process is to show.
func Open() (*Session, error) {
	f := os.NewFile(socketDescriptor, "page")
	if f == nil {
		return nil, errors.New("there is no session to show")
	}
	defer f.Close()
	conn, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("open session to show: %w", err)
	}
	return accept(conn)
}

func accept(conn net.Conn) (*Session, error) {
	in := bufio.NewReader(conn)
	name, err := readFrame(in, helloFrame, mostName)
	if err != nil {
		conn.Close()
		return nil, err
	}
	s := &Session{
		Name: string(name), conn: conn, frames: make(chan []byte), gone: make(chan struct{}), now: time.Now,
		latest: ccmap.New(ccmap.Options{}).Snapshot(),
	}
	go s.receive(in)
	return s, nil
}

// receive gets profiles until the socket is closed.
func (s *Session) receive(in io.Reader) {
	defer close(s.gone)
	for {
		text, err := readFrame(in, profileFrame, mostProfile)
		if err != nil {
			return
		}
		s.frames <- text // it was asked for
	}
}

// Gone is closed when there is nothing to show any more: the session's process has ended.
func (s *Session) Gone() <-chan struct{} { return s.gone }

// Ready tells that the page can be opened.
func (s *Session) Ready() error {
	_, err := s.conn.Write([]byte{readyByte})
	return err
}

// Snapshot returns the profile that was got last.
func (s *Session) Snapshot() *ccmap.Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.latest
}

// Fresh returns the profile of now, or of a moment ago if it is large. Once the session's process has gone it is the
// last one.
func (s *Session) Fresh(context.Context) (*ccmap.Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	begun := s.now()
	if begun.Before(s.until) {
		return s.latest, nil
	}
	if next, err := s.ask(); err == nil {
		s.latest = next
	} else if s.latest.Len() <= 1 {
		return nil, err
	}
	now := s.now()
	s.until = now.Add(max(leastKept, restFactor*now.Sub(begun)))
	return s.latest, nil
}

// ask gets the profile of now.
func (s *Session) ask() (*ccmap.Snapshot, error) {
	if _, err := s.conn.Write([]byte{askByte}); err != nil {
		return nil, fmt.Errorf("ask for profile: %w", err)
	}
	var text []byte
	select {
	case text = <-s.frames:
	case <-s.gone:
		return nil, errors.New("the session has ended")
	}
	next, err := decode(text)
	if errors.Is(err, export.ErrEmpty) {
		return s.latest, nil
	}
	return next, err
}

// decode reads the profile of a frame.
func decode(text []byte) (*ccmap.Snapshot, error) {
	m, _, err := export.Read(bytes.NewReader(text), export.ReadOptions{})
	if err != nil {
		return nil, fmt.Errorf("read profile: %w", err)
	}
	return m.Snapshot(), nil
}

// readFrame reads a frame of a letter, with at most so many bytes.
func readFrame(in io.Reader, letter byte, most uint32) ([]byte, error) {
	var head [5]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return nil, fmt.Errorf("read from session: %w", err)
	}
	n := binary.LittleEndian.Uint32(head[1:])
	if head[0] != letter || n > most {
		return nil, fmt.Errorf("read from session: %q with %d bytes, and not %q", head[0], n, letter)
	}
	var b bytes.Buffer // grows as the bytes come
	if _, err := io.CopyN(&b, in, int64(n)); err != nil {
		return nil, fmt.Errorf("read from session: %w", err)
	}
	return b.Bytes(), nil
}
