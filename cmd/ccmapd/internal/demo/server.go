package demo

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
)

// request asks a service for something. The service gives Text and Size their meaning.
type request struct {
	Service string `json:"service"`
	Text    string `json:"text,omitempty"`
	Size    int    `json:"size,omitempty"`
}

type response struct {
	Value float64  `json:"value"`
	Words []string `json:"words,omitempty"`
	Error string   `json:"error,omitempty"`
}

// service answers requests of one kind.
type service interface {
	answer(q request, t *tally) (response, error)
}

// server answers the requests of any number of connections.
type server struct {
	services map[string]service
	ledger   *ledger
}

func newServer(l *ledger) *server {
	return &server{ledger: l, services: map[string]service{
		"eval":   evalService{points: 200},
		"area":   areaService{shapes(512)},
		"words":  wordService{},
		"queens": queenService{},
	}}
}

// serve reads requests until the connection ends. Each is answered by a
// goroutine of its own.
func (s *server) serve(conn io.ReadWriter) error {
	requests := json.NewDecoder(conn)
	answers := &answerWriter{to: json.NewEncoder(conn)}
	var pending sync.WaitGroup
	defer pending.Wait()
	for {
		var q request
		if err := requests.Decode(&q); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read request: %w", err)
		}
		pending.Go(func() { answers.write(s.handle(q)) })
	}
}

// handle answers one request and books its calls.
func (s *server) handle(q request) response {
	var t tally
	t[callHandle]++
	defer s.ledger.add(&t)
	service, ok := s.services[q.Service]
	if !ok {
		return response{Error: "no such service: " + q.Service}
	}
	r, err := service.answer(q, &t)
	if err != nil {
		r.Error = err.Error()
	}
	return r
}

// answerWriter lets goroutines share a connection. A client that has left gets no answer.
type answerWriter struct {
	mu sync.Mutex
	to *json.Encoder
}

func (w *answerWriter) write(r response) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.to.Encode(r)
}

// evalService evaluates the formula in Text at many points.
type evalService struct{ points int }

func (s evalService) answer(q request, t *tally) (response, error) {
	f, err := parse(q.Text, t)
	if err != nil {
		return response{}, err
	}
	var sum float64
	for x := range s.points {
		sum += f.eval(float64(x), t)
	}
	return response{Value: sum}, nil
}

// areaService sums the areas of its shapes Size times.
type areaService struct{ all []shape }

func (s areaService) answer(q request, t *tally) (response, error) {
	var sum float64
	for range q.Size {
		sum += totalArea(s.all, t)
	}
	return response{Value: sum}, nil
}

// wordService finds the most frequent words of Text.
type wordService struct{}

func (wordService) answer(q request, t *tally) (response, error) {
	if strings.TrimSpace(q.Text) == "" {
		return response{}, errors.New("count words: no text")
	}
	words, lengths := countWords(q.Text, t)
	return response{Words: words, Value: float64(lengths[0])}, nil
}

// queenService solves the problem of Size queens.
type queenService struct{}

const maxQueens = 12

func (queenService) answer(q request, t *tally) (response, error) {
	if q.Size < 1 || q.Size > maxQueens {
		return response{}, fmt.Errorf("place queens: %d is not from 1 to %d", q.Size, maxQueens)
	}
	b := board{size: q.Size}
	return response{Value: float64(b.place(0, t))}, nil
}
