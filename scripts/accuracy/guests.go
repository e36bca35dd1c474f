package main

import (
	"context"
	"fmt"
	"os"

	"github.com/ccmapd/ccmapd/sampler/wasm/rewrite"
	"github.com/ccmapd/ccmapd/sampler/wasm/symbols"
	"github.com/ccmapd/ccmapd/testdata/guests"
)

// loadedGuest is a deterministic program for WebAssembly that is ready to be executed:
// every execution makes the same calls.
type loadedGuest struct {
	guests.Guest
	binary []byte
	leaves map[string]bool // names of functions that have no safe point
}

// guestList returns what is measured. In a quick campaign it takes nothing but Go.
// The last two are not of this project: a database and an interpreter.
func guestList(c config) []guests.Guest {
	if c.quick {
		return []guests.Guest{guests.Queens(10), guests.Eval(10)}
	}
	return []guests.Guest{
		guests.Queens(50), guests.Eval(30), guests.JSON(50), guests.Parse(8), guests.SQLite(10), guests.QuickJS(10),
	}
}

// loadGuests builds or fetches all guests.
func loadGuests(ctx context.Context, c config) ([]loadedGuest, error) {
	var all []loadedGuest
	for _, g := range guestList(c) {
		path, err := g.Path(ctx)
		if err != nil {
			return nil, fmt.Errorf("obtain %s: %w", g.Name, err)
		}
		l := loadedGuest{Guest: g}
		if l.binary, err = os.ReadFile(path); err != nil {
			return nil, err
		}
		if l.leaves, err = leavesOf(l.binary); err != nil {
			return nil, fmt.Errorf("find leaves of %s: %w", g.Name, err)
		}
		all = append(all, l)
	}
	return all, nil
}

// leavesOf returns the names of the functions that get no safe point.
func leavesOf(binary []byte) (map[string]bool, error) {
	rewritten, err := rewrite.Rewrite(binary, rewrite.Options{})
	if err != nil {
		return nil, err
	}
	names, err := symbols.Read(binary, nil)
	if err != nil {
		return nil, err
	}
	leaves := make(map[string]bool)
	for i, kind := range rewritten.Functions {
		if kind == rewrite.Bare {
			leaves[names.Function(rewritten.Imported+i).Name] = true
		}
	}
	return leaves, nil
}
