package hub

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// roster has the instances of a build by their ids. A manifest of 10,000 instances is written each time that the build
// changes, so its file has columns: what two instances have alike takes next to nothing there, and ids and checksums
// are not spelled as text. Before version 4 of manifests it was an object of objects.
type roster map[string]*instance

// idSize is the size of an instance's id, bytes.
const idSize = 16

// columns are a roster: of instances in the order of their ids, of their epochs, and of the epochs' ranges.
type columns struct {
	IDs   []byte   `json:"ids"` // idSize bytes each
	Least []uint64 `json:"least"`
	Class []int    `json:"class"`
	Look  []int64  `json:"look"`
	Odd   []int    `json:"odd"`
	Lives []int    `json:"lives"` // epochs of each instance

	Epoch  []uint64 `json:"epoch"`
	Begin  int64    `json:"begin"`
	First  []int64  `json:"first"` // after Begin
	Sums   []byte   `json:"sums"`  // four bytes each
	Ranges []int    `json:"ranges"`

	Seen []uint64 `json:"seen"` // of each range how far it begins after the one before, and ends after its begin
}

func (r roster) MarshalJSON() ([]byte, error) {
	var c columns
	for _, id := range slices.Sorted(maps.Keys(r)) {
		i := r[id]
		raw, err := hex.DecodeString(id)
		if err != nil || len(raw) != idSize {
			return nil, fmt.Errorf("instance %.40q has no id of %d bytes", id, idSize)
		}
		c.IDs = append(c.IDs, raw...)
		c.Least, c.Class = append(c.Least, i.Least), append(c.Class, i.Class)
		c.Look, c.Odd = append(c.Look, i.Look), append(c.Odd, i.Odd)
		c.Lives = append(c.Lives, len(i.Epochs))
		for _, number := range slices.Sorted(maps.Keys(i.Epochs)) {
			c.add(number, i.Epochs[number])
		}
	}
	if len(c.First) > 0 {
		c.Begin = slices.Min(c.First)
	}
	for at := range c.First {
		c.First[at] -= c.Begin
	}
	return json.Marshal(c)
}

func (c *columns) add(number uint64, e *epoch) {
	c.Epoch, c.First = append(c.Epoch, number), append(c.First, e.First)
	c.Sums = binary.LittleEndian.AppendUint32(c.Sums, e.Sum)
	c.Ranges = append(c.Ranges, len(e.Seen))
	last := uint64(0)
	for _, s := range e.Seen {
		c.Seen = append(c.Seen, s[0]-last, s[1]-s[0])
		last = s[1]
	}
}

func (r *roster) UnmarshalJSON(text []byte) error {
	var c columns
	if err := json.Unmarshal(text, &c); err != nil {
		return err
	}
	if c.IDs == nil {
		return json.Unmarshal(text, (*map[string]*instance)(r))
	}
	instances, err := c.instances()
	*r = instances
	return err
}

// errColumns is the error of columns that do not belong together.
var errColumns = errors.New("the columns of the instances differ in their lengths")

// instances makes a roster of columns, and believes nothing of them. decodeManifest refuses ranges that are out of order.
func (c *columns) instances() (roster, error) {
	n := len(c.IDs) / idSize
	if len(c.IDs)%idSize != 0 || len(c.Least) != n || len(c.Class) != n || len(c.Look) != n || len(c.Odd) != n || len(c.Lives) != n {
		return nil, errColumns
	}
	if lives := len(c.Epoch); len(c.First) != lives || len(c.Sums) != 4*lives || len(c.Ranges) != lives || len(c.Seen)%2 != 0 {
		return nil, errColumns
	}
	r := make(roster, n)
	for at := range n {
		i := &instance{Least: c.Least[at], Class: c.Class[at], Look: c.Look[at], Odd: c.Odd[at], Epochs: make(map[uint64]*epoch)}
		if c.Lives[at] < 0 || c.Lives[at] > len(c.Epoch) {
			return nil, errColumns
		}
		for range c.Lives[at] {
			if err := c.take(i); err != nil {
				return nil, err
			}
		}
		r[hex.EncodeToString(c.IDs[at*idSize:(at+1)*idSize])] = i
	}
	if len(r) != n || len(c.Epoch) > 0 || len(c.Seen) > 0 {
		return nil, errColumns
	}
	return r, nil
}

// take moves the first epoch that is left to an instance.
func (c *columns) take(i *instance) error {
	ranges := c.Ranges[0]
	if ranges < 0 || ranges > len(c.Seen)/2 {
		return errColumns
	}
	e := &epoch{First: c.First[0] + c.Begin, Sum: binary.LittleEndian.Uint32(c.Sums), Seen: make([][2]uint64, ranges)}
	last := uint64(0)
	for at := range e.Seen {
		begin := last + c.Seen[2*at]
		last = begin + c.Seen[2*at+1]
		e.Seen[at] = [2]uint64{begin, last}
	}
	i.Epochs[c.Epoch[0]] = e
	c.Epoch, c.First, c.Sums, c.Ranges, c.Seen = c.Epoch[1:], c.First[1:], c.Sums[4:], c.Ranges[1:], c.Seen[2*ranges:]
	return nil
}
