package fleet

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"
)

// Page is a part of a list, in the order of the ids of builds.
type Page[T any] struct {
	List []T    `json:"list"`
	Next string `json:"next,omitempty"` // the id after which the next page begins; empty: there is none
}

// UnmarshalJSON reads a page, or the whole list that a hub sends that knows no pages.
func (p *Page[T]) UnmarshalJSON(text []byte) error {
	if text = bytes.TrimSpace(text); len(text) > 0 && text[0] == '[' {
		*p = Page[T]{}
		return json.Unmarshal(text, &p.List)
	}
	type plain Page[T]
	return json.Unmarshal(text, (*plain)(p))
}

// Compare orders builds by target, the last one that was updated first.
func (b Build) Compare(other Build) int {
	return cmp.Or(strings.Compare(b.Target, other.Target), other.Updated.Compare(b.Updated))
}
