// Package recorded reads sequences of samples of real programs, as the perf engine
// delivered them: whole, partial and truncated, with their threads and times. The command
// scripts/record writes them.
//
// A stream is gzipped JSON: a header with the origin of the samples and the names of
// methods, then one array of whole numbers for each sample:
//
//	[ns since the last sample, or 0; thread, weight, top, fresh, depth,
//	 1 if truncated, method, offset, method, offset, …]      innermost frame first
//
// Threads are numbered by their first sample, methods by their place in the header.
package recorded

import (
	"compress/gzip"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/ccmapd/ccmapd/ccmap"
)

// numbersBefore is the count of numbers before the frames.
const numbersBefore = 7

//go:embed *.stacks.gz
var files embed.FS

// Open returns the samples of a stream of this folder, such as "compiler". Their
// methods are added to names.
func Open(name string, names *ccmap.Names) ([]ccmap.Sample, error) {
	f, err := files.Open(name + ".stacks.gz")
	if err != nil {
		return nil, fmt.Errorf("open stream: %w", err)
	}
	defer f.Close()
	samples, err := Read(f, names)
	if err != nil {
		return nil, fmt.Errorf("read stream %s: %w", name, err)
	}
	return samples, nil
}

// Read returns the samples of a stream.
func Read(r io.Reader, names *ccmap.Names) ([]ccmap.Sample, error) {
	unzipped, err := gzip.NewReader(r)
	if err != nil {
		return nil, err
	}
	in := json.NewDecoder(unzipped)
	var h struct{ Methods []string }
	if err := in.Decode(&h); err != nil {
		return nil, err
	}
	ids := make([]ccmap.MethodID, len(h.Methods))
	for i, name := range h.Methods {
		ids[i] = names.Intern(ccmap.Method{Name: name})
	}
	var samples []ccmap.Sample
	now := int64(0)
	for {
		var numbers []int64
		if err := in.Decode(&numbers); errors.Is(err, io.EOF) {
			return samples, nil
		} else if err != nil {
			return nil, err
		}
		s, err := sample(numbers, ids)
		if err != nil {
			return nil, fmt.Errorf("sample %d: %w", len(samples), err)
		}
		now += s.Time
		s.Time = now
		samples = append(samples, s)
	}
}

// sample returns the sample of an array of numbers. Its Time is still the time since the
// last sample.
func sample(numbers []int64, ids []ccmap.MethodID) (ccmap.Sample, error) {
	frames := len(numbers) - numbersBefore
	if frames <= 0 || frames%2 != 0 {
		return ccmap.Sample{}, fmt.Errorf("%d numbers are not a sample", len(numbers))
	}
	s := ccmap.Sample{
		Time:      numbers[0],
		Thread:    uint64(numbers[1]),
		Weight:    numbers[2],
		Top:       ccmap.Repetition(numbers[3]),
		Fresh:     int32(numbers[4]),
		Depth:     uint32(numbers[5]),
		Truncated: numbers[6] != 0,
		Frames:    make([]ccmap.Frame, 0, frames/2),
	}
	for i := numbersBefore; i < len(numbers); i += 2 {
		if numbers[i] < 0 || numbers[i] >= int64(len(ids)) {
			return ccmap.Sample{}, fmt.Errorf("method %d of %d", numbers[i], len(ids))
		}
		s.Frames = append(s.Frames, ccmap.Frame{Method: ids[numbers[i]], Offset: uint32(numbers[i+1])})
	}
	return s, nil
}
