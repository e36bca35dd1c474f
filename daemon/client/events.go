package client

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// mostEvent bounds an event, bytes.
const mostEvent = 1 << 20

// Events calls each with the JSON of every event after a number that the daemon still knows, and with follow of those
// to come, until ctx is done, the daemon ends, or each returns an error. Who follows does so for as long as it takes.
func (d Daemon) Events(ctx context.Context, since uint64, follow bool, each func(text []byte) error) error {
	to := route("events")
	to.RawQuery = url.Values{"since": {strconv.FormatUint(since, 10)}, "follow": {strconv.FormatBool(follow)}}.Encode()
	response, err := d.do(ctx, http.MethodGet, nil, to)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	return readEvents(response.Body, each)
}

// readEvents reads server-sent events (the HTML standard). Ours have one line of data each.
func readEvents(from io.Reader, each func(text []byte) error) error {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, mostEvent)
	for lines.Scan() {
		if text, is := strings.CutPrefix(lines.Text(), "data: "); is {
			if err := each([]byte(text)); err != nil {
				return err
			}
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read events of the daemon: %w", err)
	}
	return nil
}
