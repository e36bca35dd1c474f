package hub

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
)

// Tokens say who may do what. A token itself is in no file of the hub: its SHA-256 is.
type Tokens struct{ all map[[sha256.Size]byte]token }

// right is what a token may do.
type right string

const (
	mayRead   right = "read"
	mayWrite  right = "write"
	mayDelete right = "delete" // and read: who deletes sees what
)

func (r right) covers(need right) bool { return r == need || r == mayDelete && need == mayRead }

// token is what a token permits.
type token struct {
	id       string // the first digits of its SHA-256, for the log
	right    right
	instance string   // that it may write as; *: any
	targets  []string // patterns of path.Match
}

const mostTokens = 100_000

// ReadTokens reads a file of tokens: a line each, with the right, the SHA-256 of the token in hex, the instance and
// patterns of targets. Lines that begin with # are comments.
//
//	write 9f86d0… 0a0a0a… web,web-*
//	write 60303a… *       batch
//	read  fd61a0… -       *
//	delete 3e2a9c… -      web
func ReadTokens(r io.Reader) (*Tokens, error) {
	t := &Tokens{make(map[[sha256.Size]byte]token)}
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 || fields[0][0] == '#' {
			continue
		}
		if err := t.add(fields); err != nil {
			return nil, fmt.Errorf("read tokens: line %d: %w", n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read tokens: %w", err)
	}
	return t, nil
}

func (t *Tokens) add(fields []string) error {
	if len(fields) != 4 {
		return fmt.Errorf("%d words, want 4: read, write or delete, SHA-256 of the token, instance, targets", len(fields))
	}
	may := right(fields[0])
	if may != mayRead && may != mayWrite && may != mayDelete {
		return fmt.Errorf("%.20q is no right: want read, write or delete", fields[0])
	}
	sum, err := hex.DecodeString(fields[1])
	if err != nil || len(sum) != sha256.Size {
		return fmt.Errorf("%.20q is not a SHA-256 in hex", fields[1])
	}
	targets := strings.Split(fields[3], ",")
	for _, p := range targets {
		if _, err := path.Match(p, ""); err != nil {
			return fmt.Errorf("pattern %q: %w", p, err)
		}
	}
	id := [sha256.Size]byte(sum)
	if _, twice := t.all[id]; twice {
		return fmt.Errorf("token %.8s… is there twice", fields[1])
	}
	if len(t.all) == mostTokens {
		return fmt.Errorf("more than %d tokens", mostTokens)
	}
	t.all[id] = token{strings.ToLower(fields[1][:8]), may, fields[2], targets}
	return nil
}

// find returns what a token permits. Its hash is looked up: how long that takes says nothing about the token.
func (t *Tokens) find(text string) (token, bool) {
	is, known := t.all[sha256.Sum256([]byte(text))]
	return is, known
}

func (t token) permits(target string) bool {
	return slices.ContainsFunc(t.targets, func(pattern string) bool {
		is, _ := path.Match(pattern, target)
		return is
	})
}

func (t token) isInstance(id string) bool { return t.instance == "*" || t.instance == id }
