package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// text is a text whose words are counted, long enough to be work.
var text = strings.Repeat("a call context is a path of call sites, from the method back to its callers; "+
	"the same method is hot in one context and cold in another, and only the contexts tell which. ", 6)

// script is the clients' requests, in all, repeated.
var script = []request{
	{Service: "eval", Text: "3*x*x - (2*x + 7)/(x + 1) + -x*(4 - x)"},
	{Service: "area", Size: 4},
	{Service: "words", Text: text},
	{Service: "eval", Text: "((x + 1)*(x + 2)*(x + 3) - 6)/((x - 4)*(x - 5) + 1)"},
	{Service: "queens", Size: 7},
	{Service: "area", Size: 2},
}

// load is the work to do. It ends when its context is done or all requests have been
// taken.
type load struct {
	requests int64
	rest     time.Duration // before each
	taken    atomic.Int64
	stop     <-chan struct{}
}

func newLoad(ctx context.Context, requests int64, rest time.Duration) *load {
	return &load{requests: requests, rest: rest, stop: ctx.Done()}
}

// next rests, takes the next request and returns its number, from 0, or false.
func (l *load) next() (int64, bool) {
	if l.rest > 0 {
		select {
		case <-l.stop:
		case <-time.After(l.rest):
		}
	}
	select {
	case <-l.stop:
		return 0, false
	default:
		n := l.taken.Add(1)
		return n - 1, n <= l.requests
	}
}

// more takes the next round of a mode whose rounds are all alike.
func (l *load) more() bool {
	_, ok := l.next()
	return ok
}

// runServer serves the clients until the load ends.
func runServer(l *load, clients int, book *ledger) error {
	s := newServer(book)
	errs := make(chan error, 2*clients)
	var all sync.WaitGroup
	for range clients {
		here, there := connect()
		all.Go(func() { errs <- s.serve(there) })
		all.Go(func() { errs <- l.client(here) })
	}
	all.Wait()
	close(errs)
	var err error
	for e := range errs {
		err = errors.Join(err, e)
	}
	return err
}

// client sends requests, each after the answer to the last.
func (l *load) client(c conn) error {
	defer c.Close()
	requests, answers := json.NewEncoder(c), json.NewDecoder(c)
	for {
		n, ok := l.next()
		if !ok {
			return nil
		}
		if err := requests.Encode(script[n%int64(len(script))]); err != nil {
			return fmt.Errorf("send request: %w", err)
		}
		var r response
		if err := answers.Decode(&r); err != nil {
			return fmt.Errorf("read answer: %w", err)
		}
		if r.Error != "" {
			return errors.New(r.Error)
		}
	}
}

// conn is one end of a connection in memory.
type conn struct {
	*io.PipeReader
	*io.PipeWriter
}

// connect returns the two ends of a connection.
func connect() (a, b conn) {
	fromA, toB := io.Pipe()
	fromB, toA := io.Pipe()
	return conn{fromA, toA}, conn{fromB, toB}
}

// Close ends the connection for the other end.
func (c conn) Close() error { return c.PipeWriter.Close() }
