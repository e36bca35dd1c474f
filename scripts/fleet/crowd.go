package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"

	"github.com/klauspost/compress/zstd"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/contribution"
)

// crowd is what the daemons have to send: profiles of three behaviours, of which each instance has one.
type crowd struct {
	settings
	profiles []profile
}

type profile struct {
	*ccmap.Snapshot
	body []byte // as a contribution has it
}

const (
	behaviours = 3
	variants   = 16 // of each behaviour
)

func newCrowd(s settings) (*crowd, error) {
	c := &crowd{settings: s}
	r := rand.New(rand.NewPCG(1, 30))
	for i := range behaviours * variants {
		m := sampled(r, i%behaviours, s.contexts)
		var b bytes.Buffer
		z, err := zstd.NewWriter(&b)
		if err != nil {
			return nil, err
		}
		if err := export.Write(z, export.JSON, m.Snapshot()); err != nil {
			return nil, err
		}
		if err := z.Close(); err != nil {
			return nil, err
		}
		c.profiles = append(c.profiles, profile{m.Snapshot(), b.Bytes()})
	}
	return c, nil
}

// sampled returns a profile of one behaviour: the contexts are those of one program, and another third of them is hot.
func sampled(r *rand.Rand, behaviour, contexts int) *ccmap.Map {
	m := ccmap.New(ccmap.Options{})
	for range 4 * contexts {
		at := int(r.ExpFloat64()*float64(contexts)/6) % contexts
		at = (at + behaviour*contexts/behaviours) % contexts
		frames := make([]ccmap.Frame, 10)
		for depth := range frames {
			n := at >> depth // callers are shared
			name := fmt.Sprintf("example.com/service/internal/package%02d.(*Type%d).Method%d", depth, n%7, n)
			frames[depth] = ccmap.Frame{Method: m.Names().Intern(ccmap.Method{Name: name, File: fmt.Sprintf("/src/package%02d/type%d.go", depth, n%7), StartLine: 10})}
		}
		m.Fold(&ccmap.Sample{Frames: frames, Weight: 1e7, Fresh: 1})
	}
	return m
}

// of returns the profile of a contribution. Of six instances four behave alike.
func (c *crowd) of(daemon, seq int) profile {
	behaviour := []int{0, 0, 1, 0, 2, 0}[daemon/c.builds%6]
	return c.profiles[(daemon+7*seq)%variants*behaviours+behaviour]
}

func (c *crowd) contribution(daemon, seq int) []byte {
	b, err := contribution.Append(nil, keyOf(c.settings, daemon, seq), c.of(daemon, seq).body)
	if err != nil {
		panic(err) // it has a key of this program
	}
	return b
}

// merged returns the offline merge of all contributions of a build.
func (c *crowd) merged(build int) (*ccmap.Map, error) {
	sum := ccmap.New(ccmap.Options{})
	for daemon := build; daemon < c.daemons; daemon += c.builds {
		for seq := range c.periods {
			if err := sum.Merge(c.of(daemon, seq).Snapshot); err != nil {
				return nil, err
			}
		}
	}
	return sum, nil
}
