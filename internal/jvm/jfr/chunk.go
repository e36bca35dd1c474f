package jfr

import (
	"fmt"
	"iter"
)

// Types of the events that describe the chunk itself.
const (
	metadataEvent   = 0
	checkpointEvent = 1
)

// Chunk is a chunk, whole or as much of it as was added.
type Chunk struct {
	Header Header

	types     types
	constants map[int64]map[int64][]byte // by type and key, the bytes of values
	data      []byte                     // that were added last
	found     [NumMeasures]bool          // there are samples, by Survey
	exact     [NumMeasures]bool          // some of them are of an exact event
	weights   []int64                    // of allocations among data; nil until somebody asks
	corrupt   int
	take      func(int64) error
	held      int64 // bytes
}

// NewChunk returns a chunk without content. It asks take for memory, in bytes, before it
// allocates, and gives it back as a negative number. Nil is a budget without end.
func NewChunk(h Header, take func(bytes int64) error) *Chunk {
	if take == nil {
		take = func(int64) error { return nil }
	}
	return &Chunk{Header: h, take: take, constants: make(map[int64]map[int64][]byte)}
}

// hold takes memory from the budget, until the chunk is closed.
func (c *Chunk) hold(bytes int64) error {
	if err := c.take(bytes); err != nil {
		return err
	}
	c.held += bytes
	return nil
}

// Close gives the memory back. The chunk and its objects must not be used any more.
func (c *Chunk) Close() {
	c.take(-c.held)
	*c = Chunk{take: c.take}
}

// Corrupt returns how many values could not be read.
func (c *Chunk) Corrupt() int { return c.corrupt }

// Add takes the next events of the chunk, whole ones, without the header: their types and
// constants. [Chunk.Events] then walks these events. The chunk keeps the bytes.
func (c *Chunk) Add(events []byte) error {
	c.data, c.weights = events, nil
	for _, r := range []struct {
		event int64
		read  func([]byte) error
	}{
		{metadataEvent, func(body []byte) error { return c.types.read(body, c.hold) }},
		{checkpointEvent, c.addConstants}, // whose bytes only the types tell apart
	} {
		for event, err := range records(events) {
			if err == nil && event.id == r.event {
				err = r.read(event.body)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// record is an event: the id of its type, and its fields.
type record struct {
	id   int64
	body []byte
}

// records walks the events. The first that is corrupt ends the walk, with an error.
func records(data []byte) iter.Seq2[record, error] {
	return func(yield func(record, error) bool) {
		for at := 0; at < len(data); {
			c := cursor{data: data[at:]}
			size := c.varint()
			head := len(data) - at - len(c.data)
			if c.bad || size <= int64(head) || size > int64(len(data)-at) {
				yield(record{}, fmt.Errorf("%w: an event of %d bytes at byte %d of %d", ErrCorrupt, size, at, len(data)))
				return
			}
			c.data = data[at+head : at+int(size)]
			if id := c.varint(); !yield(record{id, c.data}, nil) {
				return
			}
			at += int(size)
		}
	}
}

// constantSize is about how many bytes a constant takes in its map.
const constantSize = 64

// addConstants reads a checkpoint: the constants of some types.
func (c *Chunk) addConstants(body []byte) error {
	r := cursor{data: body}
	for range 3 { // start, duration, distance to the last checkpoint
		r.varint()
	}
	r.byte() // flags
	for range r.count() {
		id := r.varint()
		t := c.types.byID[id]
		if t == nil || t.basic == notBasic && len(t.Fields) == 0 {
			r.fail()
			break
		}
		if err := c.addPool(t, &r); err != nil {
			return err
		}
	}
	if r.bad {
		return fmt.Errorf("%w: a checkpoint of %d bytes", ErrCorrupt, len(body))
	}
	return nil
}

// addPool reads the constants of a type.
func (c *Chunk) addPool(t *Type, r *cursor) error {
	n := r.count()
	if err := c.hold(int64(n) * constantSize); err != nil {
		return err
	}
	pool := c.constants[t.ID]
	if pool == nil {
		pool = make(map[int64][]byte)
		c.constants[t.ID] = pool
	}
	for range n {
		key := r.varint()
		value := r.data
		r.skipValue(t, 0)
		if r.bad {
			break
		}
		size := len(value) - len(r.data)
		pool[key] = value[:size:size]
	}
	return nil
}

// Type returns the type of a name, nil where the chunk does not have it.
func (c *Chunk) Type(name string) *Type { return c.types.byName[name] }

// Events walks the events that were added last, in the order of the file, without those that
// describe the chunk. Events of a type that the chunk does not describe are left out.
func (c *Chunk) Events() iter.Seq[Object] {
	return func(yield func(Object) bool) {
		for r, err := range records(c.data) {
			if err != nil {
				c.corrupt++
				return
			}
			if r.id == metadataEvent || r.id == checkpointEvent {
				continue
			}
			if t := c.types.byID[r.id]; t != nil && !yield(Object{c, t, r.body}) {
				return
			}
		}
	}
}
