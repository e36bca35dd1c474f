package hub

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/fanin"
	"github.com/ccmapd/ccmapd/internal/fleet"
)

// Fan-in of a build is one file, which most clients take whole. Those that want little ask for methods.

// Bounds of a request for methods, and of its answer.
const (
	mostWantedBytes = 1 << 20
	mostFound       = 1000 // entries of a page
	mostFoundBytes  = 8 << 20
)

func faninOf(s *ccmap.Snapshot) ([]byte, error) { return fanin.Encode(fanin.Of(s)), nil }

// fanin sends the fan-in of a build as a file, or with ?method= of one method as JSON.
func (h *Hub) fanin(w http.ResponseWriter, r *http.Request, t token) error {
	q := r.URL.Query()
	if !q.Has("method") {
		return h.servePart(w, r, t, "fanin", "application/octet-stream", faninOf)
	}
	file, err := h.faninFile(r, t)
	if err != nil {
		return err
	}
	body, err := bodyOf(q.Get("body"))
	if err != nil {
		return err
	}
	found, known, err := file.Load(fanin.Key{Name: q.Get("method"), Signature: q.Get("signature"), Body: body})
	if err != nil {
		return err
	}
	if !known {
		return refuse(http.StatusNotFound, "the build has no such method, of that signature and body")
	}
	return sendJSON(w, found)
}

// faninFile returns the fan-in of the build that a request names.
func (h *Hub) faninFile(r *http.Request, t token) (*fanin.File, error) {
	id, m, err := h.found(r, t)
	if err != nil {
		return nil, err
	}
	is, err := h.catalog.part(r.Context(), id, "fanin", m, faninOf)
	if err != nil {
		return nil, advised(err)
	}
	return is.fanin()
}

// bodyOf reads the hash of a code as a table of methods has it; 0 for none.
func bodyOf(text string) (uint32, error) {
	if text == "" {
		return 0, nil
	}
	body, err := strconv.ParseUint(text, 16, 64)
	if err != nil {
		return 0, refuse(http.StatusBadRequest, "body %.20q is no number in hex", text)
	}
	return fanin.BodyOf(body), nil
}

// faninOfMethods sends the fan-in of the methods that the body of a request lists, page by page.
func (h *Hub) faninOfMethods(w http.ResponseWriter, r *http.Request, t token) error {
	wanted, err := readWanted(w, r)
	if err != nil {
		return err
	}
	file, err := h.faninFile(r, t)
	if err != nil {
		return err
	}
	page := fleet.Found[fanin.Entry]{Methods: file.Len(), List: []fanin.Entry{}}
	size := 0
	for i, one := range wanted {
		found, err := loadWanted(file, one)
		if err != nil {
			return err
		}
		text, err := json.Marshal(found)
		if err != nil {
			return err
		}
		if i > 0 && (len(page.List)+len(found) > mostFound || size+len(text) > mostFoundBytes) {
			page.Next = i
			break
		}
		page.List, size = append(page.List, found...), size+len(text)
	}
	return sendJSON(w, page)
}

func readWanted(w http.ResponseWriter, r *http.Request) ([]fleet.Wanted, error) {
	var body fleet.Wanteds
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, mostWantedBytes)).Decode(&body)
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		return nil, refuse(http.StatusRequestEntityTooLarge, "more than %d bytes", mostWantedBytes)
	case err != nil:
		return nil, refuse(http.StatusBadRequest, `read methods: want {"methods": [{"method": NAME}]}: %v`, err)
	case len(body.Methods) > fleet.MostWanted:
		return nil, refuse(http.StatusRequestEntityTooLarge, "%d methods, at most %d", len(body.Methods), fleet.MostWanted)
	}
	return body.Methods, nil
}

// loadWanted returns the entries that a key names, in order.
func loadWanted(file *fanin.File, one fleet.Wanted) (found fanin.List, err error) {
	body, err := bodyOf(one.Body)
	if err != nil {
		return nil, err
	}
	all, err := file.Named(one.Method, mostFound)
	for _, e := range all {
		if (one.Signature == nil || e.Signature == *one.Signature) && (one.Body == "" || e.Body == body) {
			found = append(found, e)
		}
	}
	return found, err
}
