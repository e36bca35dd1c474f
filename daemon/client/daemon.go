package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// Daemon is the way to a daemon. The zero Daemon is useful: it leads to the one on this machine.
type Daemon struct {
	Sockets []string // to try, in order; nil: those of [Sockets]
	URL     *url.URL // of a daemon elsewhere, without a path; nil: one that has a socket here
}

// ParseDaemon takes a name apart that means a daemon, or something that a daemon has: "@REST",
// "unix:PATH#REST", or a URL below /v1, whose query is the rest.
func ParseDaemon(where string) (d Daemon, rest string, ok bool) {
	if rest, ok := strings.CutPrefix(where, "@"); ok {
		return d, rest, !strings.HasPrefix(where, hubPrefix)
	}
	if path, ok := strings.CutPrefix(where, unixScheme); ok {
		path, rest, _ := strings.Cut(path, "#")
		return Daemon{Sockets: []string{path}}, rest, path != ""
	}
	u, err := url.Parse(where)
	if err != nil || !IsRemote(where) || u.Host == "" || !strings.HasPrefix(u.Path+"/", "/v1/") {
		return d, "", false
	}
	return Daemon{URL: &url.URL{Scheme: u.Scheme, User: u.User, Host: u.Host}}, u.RawQuery, true
}

// mostJSON bounds the JSON of an answer, bytes.
const mostJSON = 16 << 20

// Get decodes the JSON of a route below /v1, whose parts may have any characters. A *[]byte gets the answer as it is.
func (d Daemon) Get(ctx context.Context, into any, parts ...string) error {
	return d.ask(ctx, http.MethodGet, nil, into, route(parts...))
}

// Doctor decodes the daemon's report on its engines for a process; 0 is the daemon itself.
func (d Daemon) Doctor(ctx context.Context, pid int, into any) error {
	to := route("doctor")
	to.RawQuery = url.Values{"pid": {strconv.Itoa(pid)}}.Encode()
	return d.ask(ctx, http.MethodGet, nil, into, to)
}

// Post sends a value as JSON to a route, and decodes the answer.
func (d Daemon) Post(ctx context.Context, value, into any, parts ...string) error {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("marshal request: %w", err)
	}
	return d.ask(ctx, http.MethodPost, bytes.NewReader(text), into, route(parts...))
}

// Command asks for a change that has no answer but that it is done, for example [http.MethodPost] of "reload".
func (d Daemon) Command(ctx context.Context, method string, parts ...string) error {
	return d.ask(ctx, method, nil, nil, route(parts...))
}

// ask decodes the answer, unless into is nil.
func (d Daemon) ask(ctx context.Context, method string, content io.Reader, into any, at *url.URL) error {
	response, err := d.do(ctx, method, content, at)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if into == nil {
		return nil
	}
	if err := readAnswer(response.Body, into); err != nil {
		return fmt.Errorf("read answer of the daemon: %w", err)
	}
	return nil
}

// readAnswer decodes JSON of at most mostJSON bytes. A *[]byte gets the bytes as they are.
func readAnswer(from io.Reader, into any) (err error) {
	whole, is := into.(*[]byte)
	if !is {
		return json.NewDecoder(io.LimitReader(from, mostJSON)).Decode(into)
	}
	*whole, err = io.ReadAll(io.LimitReader(from, mostJSON+1))
	if len(*whole) > mostJSON {
		err = fmt.Errorf("it has more than %d MiB", mostJSON>>20)
	}
	return err
}

// do sends a request. The caller closes the body of the answer.
func (d Daemon) do(ctx context.Context, method string, content io.Reader, at *url.URL) (*http.Response, error) {
	to := remote{name: "daemon", sockets: (&Reader{Sockets: d.Sockets}).sockets(), url: at, codings: "identity"}
	if d.URL != nil {
		to.name, to.sockets = d.URL.Redacted(), nil
		at.Scheme, at.User, at.Host = d.URL.Scheme, d.URL.User, d.URL.Host
	}
	return do(ctx, to, method, content)
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
