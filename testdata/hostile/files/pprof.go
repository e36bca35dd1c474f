package files

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"strings"
)

// Numbers of the fields of message Profile that the kinds write.
const (
	sampleType = 1
	sample     = 2
	mapping    = 3
	location   = 4
	function   = 5
	text       = 6
	comment    = 13
)

// proto is a message of profile.proto, or a list of packed numbers.
type proto []byte

// numbers returns a message whose fields are numbers: the field, then the value.
func numbers(fields ...uint64) (m proto) {
	for i := 0; i < len(fields); i += 2 {
		m = binary.AppendUvarint(m, fields[i]<<3)
		m = binary.AppendUvarint(m, fields[i+1])
	}
	return m
}

func packed(list ...uint64) (m proto) {
	for _, n := range list {
		m = binary.AppendUvarint(m, n)
	}
	return m
}

// with returns the message with one more field, which is a message or a text.
func (m proto) with(field uint64, part []byte) proto {
	m = binary.AppendUvarint(m, field<<3|2)
	m = binary.AppendUvarint(m, uint64(len(part)))
	return append(m, part...)
}

// put writes a field of the profile.
func put(w *bufio.Writer, field uint64, part []byte) {
	var head [2 * binary.MaxVarintLen64]byte
	n := binary.PutUvarint(head[:], field<<3|2)
	n += binary.PutUvarint(head[n:], uint64(len(part)))
	w.Write(head[:n])
	w.Write(part)
}

// putMany writes a field of the profile that ends in n copies of a text.
func putMany(w *bufio.Writer, field uint64, begin []byte, n int, text string) {
	var head [2 * binary.MaxVarintLen64]byte
	at := binary.PutUvarint(head[:], field<<3|2)
	at += binary.PutUvarint(head[at:], uint64(len(begin)+n*len(text)))
	w.Write(head[:at])
	w.Write(begin)
	repeat(w, n, text)
}

// many begins a field of a message with n bytes, which follow.
func many(field uint64, n int) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(nil, field<<3|2), uint64(n))
}

// head writes the sample type samples/count and the strings 1 to 3: samples, count, f.
func head(w *bufio.Writer) {
	put(w, sampleType, numbers(1, 1, 2, 2))
	for _, s := range []string{"", "samples", "count", "f"} {
		put(w, text, []byte(s))
	}
}

// places writes n locations, all in function 1, f.
func places(w *bufio.Writer, n int) {
	put(w, function, numbers(1, 1, 2, 3))
	for i := range uint64(n) {
		put(w, location, numbers(1, i+1).with(4, numbers(1, 1, 2, i+1)))
	}
}

// counted returns a sample of a stack, innermost location first.
func counted(count uint64, stack ...uint64) proto {
	return proto(nil).with(1, packed(stack...)).with(2, packed(count))
}

var pprofTables = []Kind{
	{Name: "locations.pb.gz", What: "locations, a few bytes each", Size: 11 << 20, Make: func(w *bufio.Writer, n int) {
		head(w)
		for i := range uint64(n) {
			put(w, location, numbers(1, i+1))
		}
	}},
	{Name: "functions.pb.gz", What: "functions, a few bytes each", Size: 11 << 20, Amplifies: true, Make: func(w *bufio.Writer, n int) {
		head(w)
		for i := range uint64(n) {
			put(w, function, numbers(1, i+1))
		}
	}},
	{Name: "mappings.pb.gz", What: "mappings, a few bytes each", Size: 11 << 20, Make: func(w *bufio.Writer, n int) {
		head(w)
		for i := range uint64(n) {
			put(w, mapping, numbers(1, i+1))
		}
	}},
	{Name: "methods.pb.gz", What: "functions of different names, all called", Size: 3 << 20, Make: func(w *bufio.Writer, n int) {
		head(w)
		for i := range uint64(n) {
			put(w, text, fmt.Appendf(nil, "%d", i))
			put(w, function, numbers(1, i+1, 2, i+4))
			put(w, location, numbers(1, i+1).with(4, numbers(1, i+1)))
			put(w, sample, counted(1, i+1))
		}
	}},
	{Name: "ids.pb.gz", What: "locations with ids in no order", Size: 7 << 20, Make: func(w *bufio.Writer, n int) {
		head(w)
		for i := range uint64(n) {
			put(w, location, numbers(1, (i+1)*0x9e3779b97f4a7c15))
		}
	}},
	{Name: "inlined.pb.gz", What: "locations with 50,000 inlined calls each, all sampled", Size: 400, Amplifies: true, Make: func(w *bufio.Writer, n int) {
		head(w)
		put(w, function, numbers(1, 1, 2, 3))
		var calls proto
		for range 50_000 {
			calls = calls.with(4, numbers(1, 1))
		}
		for i := range uint64(n) {
			put(w, location, append(numbers(1, i+1), calls...))
			put(w, sample, counted(1, i+1))
		}
	}},
	{Name: "strings.pb.gz", What: "empty strings", Size: 60 << 20, Make: func(w *bufio.Writer, n int) {
		head(w)
		repeat(w, n, "\x32\x00")
	}},
	{Name: "unknown.pb.gz", What: "fields that nobody knows", Size: 40 << 20, Make: func(w *bufio.Writer, n int) {
		head(w)
		repeat(w, n, "\x80\x01\x01")
	}},
	{Name: "mixed.pb.gz", What: "every kind of record by turns", Size: 3 << 20, Make: func(w *bufio.Writer, n int) {
		head(w)
		for i := range uint64(n) {
			put(w, sample, counted(1, i+1))
			put(w, location, numbers(1, i+1).with(4, numbers(1, i+1)))
			put(w, mapping, numbers(1, i+1))
			put(w, function, numbers(1, i+1, 2, 3))
			put(w, text, nil)
		}
	}},
	{Name: "length.pb.gz", What: "a length of 2⁶³ in a field that ends", Size: 1, Make: func(w *bufio.Writer, _ int) {
		head(w)
		w.WriteString("\x12\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01")
	}},
}

var pprofSamples = []Kind{
	{Name: "equal.pb.gz", What: "samples of two stacks by turns", Size: 1<<24 - 100, Amplifies: true, Least: 5 << 20, Make: func(w *bufio.Writer, n int) {
		head(w)
		places(w, 2)
		for i := range uint64(n) {
			put(w, sample, numbers(1, i%2+1, 2, 1))
		}
	}},
	{Name: "distinct.pb.gz", What: "samples of different stacks", Size: 8 << 20, Make: func(w *bufio.Writer, n int) {
		head(w)
		places(w, 3000)
		for i := range uint64(n) {
			put(w, sample, counted(1, i%3000+1, i/3000+1))
		}
	}},
	{Name: "deep.pb.gz", What: "stacks of 60,000 frames, none with anything in common", Size: 1000, Amplifies: true, Make: func(w *bufio.Writer, n int) {
		head(w)
		places(w, n+1)
		stack := make([]uint64, 60_000)
		for i := range stack {
			stack[i] = 1
		}
		for i := range uint64(n) {
			stack[len(stack)-1] = i + 2
			put(w, sample, counted(1, stack...))
		}
	}},
	{Name: "stack.pb.gz", What: "one stack of 100 million frames", Size: 100 << 20, Amplifies: true, Make: func(w *bufio.Writer, n int) {
		head(w)
		places(w, 1)
		putMany(w, sample, append(counted(1), many(1, n)...), n, "\x01")
	}},
	{Name: "values.pb.gz", What: "one sample of 100 million values", Size: 100 << 20, Make: func(w *bufio.Writer, n int) {
		head(w)
		putMany(w, sample, many(2, n), n, "\x01")
	}},
	{Name: "labels.pb.gz", What: "one sample of labels", Size: 15 << 20, Make: func(w *bufio.Writer, n int) {
		head(w)
		label := proto(nil).with(3, numbers(1, 1, 2, 2))
		putMany(w, sample, counted(1), n, string(label))
	}},
	{Name: "pieces.pb.gz", What: "a stack of which every number is a field", Size: 50 << 20, Make: func(w *bufio.Writer, n int) {
		head(w)
		places(w, 1)
		putMany(w, sample, counted(1), n, string(numbers(1, 1)))
	}},
	{Name: "hits.pb.gz", What: "calls of bursts, all different", Size: 2 << 20, Make: func(w *bufio.Writer, n int) {
		for _, t := range []uint64{1, 2, 4, 5} {
			put(w, sampleType, numbers(1, t, 2, 3))
		}
		for _, s := range []string{"", "samples", "cpu", "count", "receiver_hits", "site_hits", "hit", "target", `ccmapd {"version":1}`, "f"} {
			put(w, text, []byte(s))
		}
		put(w, comment, packed(8))
		put(w, function, numbers(1, 1, 2, 9))
		for i := range uint64(3000) {
			put(w, location, numbers(1, i+1).with(4, numbers(1, 1, 2, i+1)))
		}
		target := numbers(1, 6, 2, 7)
		for i := range uint64(n) {
			put(w, sample, proto(nil).with(1, packed(1, i%3000+1, i/3000+1)).with(2, packed(0, 0, 1, 0)).with(3, target))
		}
	}},
}

var pprofText = []Kind{
	{Name: "names.pb.gz", What: "functions that share a file name of a mebibyte", Size: 100_000, Amplifies: true, Make: func(w *bufio.Writer, n int) {
		head(w)
		put(w, text, []byte(strings.Repeat("/", 1<<20)))
		for i := range uint64(n) {
			put(w, text, fmt.Appendf(nil, "%d", i))
			put(w, function, numbers(1, i+1, 2, i+5, 4, 4))
			put(w, location, numbers(1, i+1).with(4, numbers(1, i+1)))
			put(w, sample, counted(1, i+1))
		}
	}},
	{Name: "files.pb.gz", What: "places in a file whose name is a mebibyte, without functions", Size: 100_000, Amplifies: true, Make: func(w *bufio.Writer, n int) {
		head(w)
		put(w, text, []byte(strings.Repeat("x", 1<<20)))
		put(w, mapping, numbers(1, 1, 3, 1<<40, 5, 4))
		for i := range uint64(n) {
			put(w, location, numbers(1, i+1, 2, 1, 3, i+1))
			put(w, sample, counted(1, i+1))
		}
	}},
	{Name: "comments.pb.gz", What: "a comment of a mebibyte, 100 million times", Size: 100 << 20, Amplifies: true, Make: func(w *bufio.Writer, n int) {
		head(w)
		put(w, text, []byte(strings.Repeat("x", 1<<20)))
		putMany(w, comment, nil, n, "\x04")
	}},
	{Name: "description.pb.gz", What: "a description of ours with a list just within the bounds", Size: 1_200_000, Make: func(w *bufio.Writer, n int) {
		head(w)
		put(w, text, []byte(`ccmapd {"version":1,"intervals":[{}`+strings.Repeat(",{}", n)+"]}"))
		put(w, comment, packed(4))
	}},
}
