package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// Daemon is the way to the daemon on this machine. The zero Daemon is useful.
type Daemon struct {
	Sockets []string // to try, in order; nil: those of [Sockets]
}

// mostJSON bounds the JSON of an answer, bytes.
const mostJSON = 16 << 20

// Get decodes the JSON of a route below /v1, whose parts may have any characters.
func (d Daemon) Get(ctx context.Context, into any, parts ...string) error {
	return d.ask(ctx, http.MethodGet, nil, into, parts)
}

// Post sends a value as JSON to a route, and decodes the answer.
func (d Daemon) Post(ctx context.Context, value, into any, parts ...string) error {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("marshal request: %w", err)
	}
	return d.ask(ctx, http.MethodPost, bytes.NewReader(text), into, parts)
}

func (d Daemon) ask(ctx context.Context, method string, content io.Reader, into any, parts []string) error {
	to := remote{name: "daemon", sockets: (&Reader{Sockets: d.Sockets}).sockets(), url: route(parts...), codings: "identity"}
	response, err := do(ctx, to, method, content)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if err := json.NewDecoder(io.LimitReader(response.Body, mostJSON)).Decode(into); err != nil {
		return fmt.Errorf("read answer of the daemon: %w", err)
	}
	return nil
}

// Names returns the names of all targets that the caller may see.
func (d Daemon) Names(ctx context.Context) ([]string, error) {
	var answer struct {
		Targets []struct {
			Name string `json:"name"`
		} `json:"targets"`
	}
	err := d.Get(ctx, &answer, "targets")
	names := make([]string, len(answer.Targets))
	for i, t := range answer.Targets {
		names[i] = t.Name
	}
	return names, err
}
