package jfr

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ccmapd/ccmapd/internal/jvm/attach"
	recording "github.com/ccmapd/ccmapd/internal/jvm/jfr"
	"github.com/ccmapd/ccmapd/internal/process"
	"golang.org/x/sys/unix"
)

// Recording is a recording in a running JVM: a lease, read while it grows.
//
//	control   written by Record, then by the goroutine of follow that talks to the JVM
//	tail      the goroutine of Run
//	asks      each to be closed by the goroutine of Run once it has read all chunks
type Recording struct {
	pid     int
	pidfd   int
	jvm     *attach.Target
	control *control
	tail    *tail
	asks    chan chan<- struct{}
}

// Record starts a recording of some events, given as settings of JFR.start: for example
// "+jdk.Compilation#enabled=true". It takes about a second. Errors wrap those of package
// sampler.
func Record(ctx context.Context, pid int, settings string) (*Recording, error) {
	r, err := openRecording(pid)
	if err == nil {
		err = r.startRecording(ctx, settings)
	}
	if err != nil {
		return nil, fmt.Errorf("record process %d: %w", pid, Classify(errors.Join(err, r.Close())))
	}
	return r, nil
}

// openRecording finds the JVM. It returns a Recording to be closed in any case.
func openRecording(pid int) (r *Recording, err error) {
	r = &Recording{pid: pid, pidfd: -1, tail: &tail{repository: repository{pid: pid}}, asks: make(chan chan<- struct{})}
	if r.pidfd, err = process.Open(pid); err != nil {
		return r, err
	}
	r.jvm, err = attach.Open(pid)
	return r, err
}

// startRecording starts the recording, and waits for its first chunk.
func (r *Recording) startRecording(ctx context.Context, settings string) error {
	r.control, r.tail.repository.files = newControl(newYoungJVM(r.jvm, r.pid), settings), r.jvm
	if err := r.control.startFirst(ctx); err != nil {
		return err
	}
	return r.tail.await(ctx)
}

// Close stops a Recording on which Run is not called.
func (r *Recording) Close() error {
	var err error
	if r.control != nil {
		err = r.control.end()
	}
	r.free()
	return err
}

func (r *Recording) free() {
	r.tail.close()
	if r.jvm != nil {
		r.jvm.Close()
	}
	if r.pidfd >= 0 {
		unix.Close(r.pidfd)
	}
	r.pidfd, r.jvm, r.control = -1, nil, nil
}

// Run calls take with each piece that the JVM adds to a chunk, until the context is done or the
// JVM has ended, and then to the end of the recording.
func (r *Recording) Run(ctx context.Context, take func(*recording.Chunk)) (exited bool, err error) {
	defer r.free()
	return r.follow(ctx, func() error { return r.tail.read(take) })
}

// stopPollTime is the time between two looks while the recording is stopped. A chunk that another
// command has begun meanwhile is removed with it.
const stopPollTime = 2 * time.Millisecond

// follow renews the lease, and calls turn now and then until the recording has stopped. When
// the JVM ends, it gives up the conversation.
func (r *Recording) follow(ctx context.Context, turn func() error) (exited bool, err error) {
	ctx, giveUp := context.WithCancel(ctx)
	defer giveUp()
	reading, stopReading := context.WithCancel(context.Background())
	defer stopReading()
	stopped := make(chan error, 1)
	go func() { stopped <- r.control.run(ctx, func() { r.catchUp(reading) }) }()
	tick := time.NewTicker(pollTime)
	defer tick.Stop()
	read := func() error {
		err := turn()
		if process.Ended(r.pidfd) { // whose files are gone
			return nil
		}
		return err
	}
	for {
		var asked chan<- struct{}
		select {
		case err := <-stopped: // the chunk is complete
			err = errors.Join(err, read())
			r.tail.noteEnd(r.control.ended)
			return false, err
		case asked = <-r.asks:
			if ctx.Err() != nil {
				tick.Reset(stopPollTime)
			}
		case <-tick.C:
		}
		exited = process.Ended(r.pidfd)
		if err = read(); exited || err != nil {
			stopReading()
			giveUp()
			if silent := <-stopped; !exited {
				err = errors.Join(err, silent)
			}
			return exited, err
		}
		if asked != nil {
			close(asked)
		}
	}
}

// catchUp returns when all chunks are read, or nobody reads any more.
func (r *Recording) catchUp(reading context.Context) {
	done := make(chan struct{})
	select {
	case r.asks <- done:
		select {
		case <-done:
		case <-reading.Done():
		}
	case <-reading.Done():
	}
}
