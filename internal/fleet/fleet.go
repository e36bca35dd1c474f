// Package fleet is what a hub says of the profiles that it has: the JSON of its answers, for the hub and those who ask.
package fleet

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"
)

// Build is a build that a hub knows, of one unit.
type Build struct {
	ID            string    `json:"id"` // of the build in the bucket
	Target        string    `json:"target"`
	Build         string    `json:"build"`
	Unit          string    `json:"unit"` // kind/base, for example cpu/nanoseconds
	Instances     int       `json:"instances"`
	Contributions uint64    `json:"contributions"`
	Samples       int64     `json:"samples"`
	Independent   float64   `json:"independent"`       // samples that say something new
	Classes       int       `json:"classes"`           // of instances that behave alike
	Settled       float64   `json:"settled,omitempty"` // of the largest class
	Outliers      int       `json:"outliers"`
	Updated       time.Time `json:"updated"`
}

// Compare orders builds by target, the last one that was updated first.
func (b Build) Compare(other Build) int {
	return cmp.Or(strings.Compare(b.Target, other.Target), other.Updated.Compare(b.Updated))
}

// Description is all that a hub says of a build.
type Description struct {
	Build
	ClassList   []Class   `json:"class_list"` // the largest first
	OutlierList []Outlier `json:"outlier_list"`
	Times       []Times   `json:"times"` // the hours and days that are kept
}

// Class describes instances of a build that behave alike.
type Class struct {
	Class       int     `json:"class"`
	Instances   int     `json:"instances"`
	Samples     int64   `json:"samples"`
	Independent float64 `json:"independent"`
	Settled     float64 `json:"settled,omitempty"` // overlap of its halves in edges, percent; 0: too few samples
	IsSettled   bool    `json:"is_settled"`        // more samples change little

	LeftOut  *LeftOut  `json:"left_out,omitempty"` // absent: there are no two instances
	Overlaps []Overlap `json:"overlaps,omitempty"` // with the other classes
}

// LeftOut is how far the others of a class know an instance that was left out: as they would know a new one.
type LeftOut struct {
	Instances int     `json:"instances"` // that were left out, one at a time
	Overlap   float64 `json:"overlap"`   // of the instance with the others, in edges, percent; the mean
	Error     float64 `json:"error"`     // of the mean, one standard deviation; 0 for a single instance
}

// Overlap is how far two classes agree, in edges.
type Overlap struct {
	Class    int     `json:"class"`    // the other one
	Overlap  float64 `json:"overlap"`  // percent
	Expected float64 `json:"expected"` // that noise would leave, percent
	Verdict  string  `json:"verdict"`
}

// Times is an hour or a day that a hub keeps by itself.
type Times struct {
	Level   string    `json:"level"` // hour or day
	From    time.Time `json:"from"`
	Samples int64     `json:"samples"`
	Bytes   int64     `json:"bytes"`
}

// Outlier is an instance that behaves unlike most others of its build.
type Outlier struct {
	Instance string    `json:"instance"`
	Since    time.Time `json:"since"`
	Last     time.Time `json:"last"`
	Class    int       `json:"class"`
	Others   int       `json:"others"`           // instances of the class that it was compared with
	Overlap  float64   `json:"overlap"`          // percent
	Expected float64   `json:"expected"`         // that noise would leave, percent
	Method   string    `json:"method,omitempty"` // whose share differs most; empty: no single one is sure
	Points   float64   `json:"points,omitempty"` // by which the instance's share of it is larger
	Error    float64   `json:"error,omitempty"`  // of these, one standard deviation
}

// Shortened is how many digits of an instance people are shown.
const Shortened = 8

// String says what is different.
func (o Outlier) String() string {
	return fmt.Sprintf("%.*s differs from %d others: %s", Shortened, o.Instance, o.Others, o.Difference())
}

// Difference says by how much, and in which method for sure.
func (o Outlier) Difference() string {
	if o.Method != "" {
		return fmt.Sprintf("%+.0f ± %.0f points in %s", o.Points, math.Ceil(o.Error), o.Method)
	}
	return fmt.Sprintf("overlap %.0f %%, and %.0f %% by chance", o.Overlap, o.Expected)
}

// OutlierOf is an outlier and its build.
type OutlierOf struct {
	Target string `json:"target"`
	Build  string `json:"build"`
	Unit   string `json:"unit"`
	Outlier
}

// Near is a build of the same target, beside one that a hub does not know.
type Near struct {
	Build
	Kept float64 `json:"kept"` // percent of its weight, in methods whose name, signature and body the other build has
}

// Method is a line of the table of methods.
type Method struct {
	Name      string `json:"name"`
	Signature string `json:"signature,omitempty"`
	Body      string `json:"body,omitempty"` // hash of its code, in hex; empty: not known
	Samples   int64  `json:"samples"`        // with it anywhere on the stack, each frame once
	Self      int64  `json:"self"`           // samples with it on top
	Weight    int64  `json:"weight"`         // of self, in the profile's unit
}

// Status is how far the hubs of a bucket are behind, and what one of them has done since its start.
type Status struct {
	Waiting  int               `json:"waiting"`  // contributions that are durable, and not merged
	Lag      time.Duration     `json:"lag_ns"`   // age of the oldest of them
	Listed   time.Time         `json:"listed"`   // when the bucket said so: some seconds ago at most
	Since    time.Time         `json:"since"`    // the start of the hub that answers
	Accepted uint64            `json:"accepted"` // contributions that it has taken
	Merged   uint64            `json:"merged"`   // contributions, of any hub, that it has merged
	Refused  map[string]uint64 `json:"refused"`  // contributions that it has refused, by status of HTTP
}

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

// Wanted names methods whose fan-in is wanted: all of a name, or those of a signature, of a body, or of both.
type Wanted struct {
	Method    string  `json:"method"`
	Signature *string `json:"signature,omitempty"`
	Body      string  `json:"body,omitempty"` // hash of the code, in hex; 0: not known
}

// Wanteds is the body of a request for fan-in.
type Wanteds struct {
	Methods []Wanted `json:"methods"`
}

// MostWanted bounds the methods of a request.
const MostWanted = 1000

// Found is what a hub knows of methods that were wanted. One that it does not know has no entry.
type Found[T any] struct {
	Methods int `json:"methods"` // of the build
	List    []T `json:"list"`
	Next    int `json:"next,omitempty"` // the wanted ones from this one on are to be asked for again; 0: none
}
