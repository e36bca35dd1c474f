// Package bucket is what the hub needs of an object store: whole objects by key, written under a condition. A
// directory and any S3-compatible store are buckets:
//
//  1. [OpenDir] opens a directory, [OpenS3] a bucket of S3.
//  2. [Check] tells whether conditions hold there. The hub calls it at its start: some look-alikes of S3 ignore them,
//     and counts would be lost.
//
// A write that returns another error than [ErrCondition] may have happened or not. Even [ErrCondition] may be of
// one's own write, whose answer was lost and which a client has sent again. So a writer that must know reads the
// object back.
package bucket

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"
)

// Errors that callers tell apart, wrapped in those returned.
var (
	ErrNotFound  = errors.New("no such object")
	ErrCondition = errors.New("the object is not what the condition says")
	ErrTooLarge  = errors.New("the object is too large")
)

// Condition is what must hold of an object that is written. The zero Condition always holds.
type Condition struct {
	Absent bool   // there is no object of this key
	Tag    string // the object has this tag; empty: any
}

// Entry is an object as a list has it.
type Entry struct {
	Key      string
	Size     int64 // bytes
	Modified time.Time
}

// Bucket has objects. Any goroutine, and any process, may call the methods.
//
// A tag is opaque, and equal for equal bytes in most buckets: an object that was changed and changed back may have its
// old tag. So the objects that are compared must never have the same bytes twice.
type Bucket interface {
	// Get returns an object of at most so many bytes, and its tag.
	Get(ctx context.Context, key string, most int64) (body []byte, tag string, err error)
	// Range returns so many bytes of an object, from an offset on. An object that has fewer is an error.
	Range(ctx context.Context, key string, offset, size int64) ([]byte, error)
	// Put writes an object as a whole, if the condition holds. It is durable when Put returns nil.
	Put(ctx context.Context, key string, body []byte, c Condition) error
	// List returns the objects whose keys begin with prefix, in the order of keys. It ends with the first error.
	List(ctx context.Context, prefix string) iter.Seq2[Entry, error]
	// Delete removes an object. That it is missing is no error.
	Delete(ctx context.Context, key string) error
}

const mostKey = 512 // bytes

// checkKey returns an error for a key that a bucket does not take: names of small letters, digits, ., _ and -,
// separated by slashes. None begins with a point: those of a directory's own files do.
func checkKey(key string) error {
	if len(key) > mostKey {
		return fmt.Errorf("key of %d bytes is too long: at most %d", len(key), mostKey)
	}
	for name := range strings.SplitSeq(key, "/") {
		if name == "" || name[0] == '.' || strings.ContainsFunc(name, foreign) {
			return fmt.Errorf("%q is not a key: use small letters, digits, ., _ and -, separated by slashes", key)
		}
	}
	return nil
}

func foreign(r rune) bool {
	return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '.' && r != '_' && r != '-'
}
