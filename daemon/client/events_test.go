package client

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// FuzzEvents: whatever a server sends, each text of an event is one line of data that it has sent, in their order, and
// an error of the reader of texts ends it. What comes after a line of endless data is not read.
func FuzzEvents(f *testing.F) {
	for _, seed := range []string{
		": ccmapd\n\nid: 1\nevent: state\ndata: {\"seq\":1}\n\n:\n\nid: 2\nevent: hot\ndata: {\"seq\":2}\n\n", "data: ", "data:\ndata: \r\n\r\n", "data: a\rdata: b",
		"data: " + strings.Repeat("x", mostEvent) + "\ndata: b\n", "\n\n\n", "",
	} {
		f.Add([]byte(seed), 2)
	}
	f.Fuzz(func(t *testing.T, sent []byte, most int) {
		enough, rest, heard := errors.New("enough"), sent, 0
		err := readEvents(bytes.NewReader(sent), func(text []byte) error {
			i := bytes.Index(rest, fmt.Appendf(nil, "data: %s", text))
			if i < 0 || bytes.ContainsRune(text, '\n') || len(text) > mostEvent {
				t.Fatalf("event %q of %q", text, sent)
			}
			rest = rest[i+len(text):]
			if heard++; heard == most {
				return enough
			}
			return nil
		})
		if ended := most > 0 && heard == most; errors.Is(err, enough) != ended || most > 0 && heard > most {
			t.Errorf("%d events, %d wanted: %v", heard, most, err)
		}
		if err == nil && bytes.Count(sent, []byte("\ndata: ")) > heard {
			t.Errorf("%d events of %q", heard, sent)
		}
	})
}
