package api

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"runtime"
	"sync"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/advice"
	"github.com/ccmapd/ccmapd/internal/view"
)

// Limits of uploads.
const (
	mostUpload        = 64 << 20  // bytes of a body
	mostUploadMemory  = 128 << 20 // of the reading of one, and of its profile
	mostUploadSteps   = 128 << 20 // of the reading of one: bytes when decompressed, and frames
	mostUploadsMemory = 512 << 20 // of all
	uploadsShare      = 8         // all take at most this part of the daemon's memory
	uploadsCPUShare   = 4         // and this part of its CPU time
	mostUploads       = 8         // of one peer
	uploadsAtOnce     = 2
	uploadTime        = 5 * time.Minute // to send one
	uploadKept        = 15 * time.Minute
)

// uploads are profiles that clients have sent. What is kept, what is being read and the bodies that it is read
// from take their memory from one account. Any goroutine may call it.
type uploads struct {
	now   func() time.Time
	most  int64 // memory
	turns chan struct{}

	mu     sync.Mutex
	of     map[string]*uploaded // by id
	memory int64                // of all that is kept and all that is being loaded
	cpu    allowance
}

// uploaded is a profile for its owner alone.
type uploaded struct {
	owner    string
	snapshot *ccmap.Snapshot
	memory   int64
	until    time.Time
}

// newUploads keeps uploads in a part of some memory, and reads them in a part of some cores; 0: as much as they may
// take.
func newUploads(now func() time.Time, memory int64, cores float64) *uploads {
	most := int64(mostUploadsMemory)
	if memory > 0 {
		most = min(most, memory/uploadsShare)
	}
	u := &uploads{now: now, most: most, turns: make(chan struct{}, uploadsAtOnce), of: make(map[string]*uploaded)}
	u.cpu = newAllowance(cores/uploadsCPUShare, now())
	return u
}

// mostBody returns how many bytes a body may have: it is held while it is read, which takes as much again.
func (u *uploads) mostBody() int64 { return min(mostUpload, u.most/2) }

func (u *uploads) get(id string, p peer) (*ccmap.Snapshot, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.dropExpired()
	one, ok := u.of[id]
	switch {
	case !ok:
		return nil, errNoRef
	case one.owner != p.key():
		return nil, hidden{errNoRef}
	}
	return one.snapshot, nil
}

// add keeps a profile of a peer, and returns its id.
func (u *uploads) add(m *ccmap.Map, p peer) (id string, until time.Time, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.dropExpired()
	one := &uploaded{p.key(), m.Snapshot(), export.MapMemory(m), u.now().Add(uploadKept)}
	n := 0
	for _, other := range u.of {
		if other.owner == one.owner {
			n++
		}
	}
	if n >= mostUploads {
		return "", until, errUploads("there are too many uploads")
	}
	if u.memory+one.memory > u.most {
		return "", until, u.full()
	}
	id = rand.Text()
	u.of[id] = one
	u.memory += one.memory
	return id, one.until, nil
}

// errUploads is an error that goes when uploads do.
func errUploads(what string) error {
	return &view.Error{Code: view.CodeBusy, Err: errors.New(what), Hint: fmt.Sprintf("Each is kept for %v.", uploadKept)}
}

// full says that the account has no more memory.
func (u *uploads) full() error {
	return errUploads(fmt.Sprintf("all uploads together take more than %d MiB", u.most>>20))
}

// dropExpired drops the uploads whose time is over.
func (u *uploads) dropExpired() {
	for id, one := range u.of {
		if !u.now().Before(one.until) {
			u.memory -= one.memory
			delete(u.of, id)
		}
	}
}

func (u *uploads) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, one := range u.of {
		u.memory -= one.memory
	}
	clear(u.of)
}

// load is the memory of an upload that is being sent or read, bytes. One goroutine uses it.
type load struct {
	uploads *uploads
	body    int64 // that waits to be read
	reading int64 // that reading takes
	most    int64 // that both took at a time
}

// set changes what the load takes. It fails if all uploads would take more than they may.
func (l *load) set(body, reading int64) error {
	u := l.uploads
	u.mu.Lock()
	defer u.mu.Unlock()
	u.dropExpired()
	more := body + reading - l.body - l.reading
	if more > 0 && u.memory+more > u.most {
		return u.full()
	}
	u.memory += more
	l.body, l.reading, l.most = body, reading, max(l.most, body+reading)
	return nil
}

// muchGarbage is the memory of a load that is collected before the next load begins, bytes.
const muchGarbage = 16 << 20

// end gives the memory back.
func (l *load) end() {
	_ = l.set(0, 0) // less is no error
	if l.most > muchGarbage {
		runtime.GC()
	}
}

// body holds the body of a request in pieces, until a reader takes them.
type body struct {
	load   *load
	pieces [][]byte
}

// bodyPiece is the length of a piece, bytes.
const bodyPiece = 256 << 10

// receive reads a body.
func (b *body) receive(r io.Reader) error {
	for {
		if err := b.load.set(b.load.body+bodyPiece, 0); err != nil {
			return err
		}
		piece := make([]byte, bodyPiece)
		n, err := io.ReadFull(r, piece)
		b.pieces = append(b.pieces, piece[:n])
		switch {
		case err == io.EOF, errors.Is(err, io.ErrUnexpectedEOF) && n > 0:
			return nil
		case err != nil:
			return err
		}
	}
}

// Len returns how many bytes are left.
func (b *body) Len() (n int) {
	for _, p := range b.pieces {
		n += len(p)
	}
	return n
}

// Read lets go of what it has read.
func (b *body) Read(p []byte) (int, error) {
	for len(b.pieces) > 0 && len(b.pieces[0]) == 0 {
		b.pieces[0] = nil
		b.pieces = b.pieces[1:]
		_ = b.load.set(b.load.body-bodyPiece, b.load.reading) // less is no error
	}
	if len(b.pieces) == 0 {
		return 0, io.EOF
	}
	n := copy(p, b.pieces[0])
	b.pieces[0] = b.pieces[0][n:]
	return n, nil
}

// read makes a map of a body.
func (u *uploads) read(b *body) (*ccmap.Map, error) {
	m, _, err := export.Read(b, export.ReadOptions{
		MaxMemory: min(mostUploadMemory, u.most), MaxSteps: mostUploadSteps,
		Reserve: func(bytes int64) error { return b.load.set(b.load.body, bytes) },
	})
	return m, explainUpload(err)
}

// allowance is CPU time that comes evenly, and may be spent in bursts.
type allowance struct {
	cores float64 // 0: it has no bound
	left  time.Duration
	at    time.Time // that left is of
}

// cpuBurst is the CPU time that is there after a while without a use.
const cpuBurst = 10 * time.Second

func newAllowance(cores float64, now time.Time) allowance {
	return allowance{cores: cores, left: cpuBurst, at: now}
}

// wait returns how long it takes until there is some; 0: there is some.
func (a *allowance) wait(now time.Time) time.Duration {
	if a.cores <= 0 {
		return 0
	}
	a.left = min(a.left+time.Duration(a.cores*float64(max(now.Sub(a.at), 0))), cpuBurst)
	a.at = now
	return time.Duration(math.Ceil(float64(max(-a.left, 0)) / a.cores))
}

// mayRead returns an error if uploads have spent their CPU time.
func (u *uploads) mayRead() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	wait := u.cpu.wait(u.now())
	if wait == 0 {
		return nil
	}
	hint := fmt.Sprintf("Try again in %v.", wait.Round(time.Second)+time.Second)
	return &view.Error{Code: view.CodeBusy, Err: errors.New("uploads have taken their part of budget.cpu"), Hint: hint}
}

// spend takes CPU time, which there may be less of.
func (u *uploads) spend(cpu time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.cpu.left -= cpu
}

// uploadJSON is the answer to an upload.
type uploadJSON struct {
	Ref     string    `json:"ref"`
	Until   time.Time `json:"until"`
	Samples int64     `json:"samples"`
}

// upload keeps the profile in the body of the request.
func (c *call) upload() error {
	if most := c.uploads.mostBody(); c.Request.ContentLength > most {
		return errTooLong(most)
	}
	select {
	case c.uploads.turns <- struct{}{}:
		defer func() { <-c.uploads.turns }()
	default:
		return errBusy
	}
	m, err := c.receiveMap()
	if err != nil {
		return err
	}
	id, until, err := c.uploads.add(m, c.peer)
	if err != nil {
		return err
	}
	ref := uploadKind + ":" + id
	c.w.Header().Set("Location", "/v1/p/"+ref+"/meta")
	return c.respond(http.StatusCreated, uploadJSON{ref, until, m.Snapshot().Total().Samples})
}

// receiveMap reads the map in the body. The CPU time counts in the daemon's budget, as sampling does: other
// answers are given to whoever asks, but an upload is work that a client chooses.
func (c *call) receiveMap() (m *ccmap.Map, err error) {
	u := c.uploads
	if err := u.mayRead(); err != nil {
		return nil, err
	}
	l := &load{uploads: u}
	defer l.end()
	b := &body{load: l}
	in := io.NopCloser(progressing{c, time.Now().Add(uploadTime)})
	if err := b.receive(http.MaxBytesReader(c.w, in, u.mostBody())); errors.As(err, new(*http.MaxBytesError)) {
		return nil, errTooLong(u.mostBody())
	} else if err != nil {
		return nil, err
	}
	err = c.shares.workInTurn(c.Context(), u.spend, func() (err error) {
		m, err = u.read(b)
		return err
	})
	return m, err
}

// errTooLong says that a body has more bytes than it may.
func errTooLong(most int64) error {
	return &view.Error{Code: view.CodeTooLarge, Err: fmt.Errorf("the body has more than %d bytes", most), Hint: "Compress the profile, or prune it: 'ccmapd merge --max-memory'."}
}

// explainUpload tells a profile that is too large from one that is wrong.
func explainUpload(err error) error {
	switch {
	case err == nil, advice.CodeOf(err) != "":
		return err
	case errors.Is(err, export.ErrTooLarge), errors.Is(err, export.ErrMemory):
		return &view.Error{Code: view.CodeTooLarge, Err: err}
	}
	return &view.Error{Code: view.CodeUsage, Err: err, Hint: "The body is a profile in any format that ccmapd reads."}
}
