package files

import (
	"bufio"
	"fmt"
	"strings"
)

// Beginnings of documents: one method, and the nodes begin.
const (
	xmlNodes  = `<ccmap version="1"><methods><method name="m"/></methods><nodes><node parent="0" method="0"/>`
	jsonNodes = `{"ccmap_version":1,"methods":[{"name":"m"}],"nodes":[{"parent":0,"method":0}`
)

var documents = []Kind{
	{Name: "nesting.xml.gz", What: "ten million elements in each other", Size: 10_000_000, Amplifies: true, Make: func(w *bufio.Writer, n int) {
		w.WriteString(`<ccmap version="1">`)
		repeat(w, n, "<a>")
	}},
	{Name: "attributes.xml.gz", What: "one element of attributes", Size: 20 << 20, Amplifies: true, Make: func(w *bufio.Writer, n int) {
		w.WriteString(`<ccmap version="1"><nodes><node `)
		repeat(w, n, `a="" `)
	}},
	{Name: "text.xml.gz", What: "one text without an end", Size: 1 << 30, Make: func(w *bufio.Writer, n int) {
		w.WriteString(`<ccmap version="1">`)
		repeat(w, n/16, "xxxxxxxxxxxxxxxx")
	}},
	{Name: "entities.xml.gz", What: "entities that stand for ten of the one before", Size: 20, Make: func(w *bufio.Writer, n int) {
		w.WriteString("<!DOCTYPE ccmap [<!ENTITY e0 \"x\">")
		for i := range n {
			fmt.Fprintf(w, "<!ENTITY e%d \"%s\">", i+1, strings.Repeat(fmt.Sprintf("&e%d;", i), 10))
		}
		fmt.Fprintf(w, `]><ccmap version="1"><methods><method name="&e%d;"/></methods></ccmap>`, n)
	}},
	{Name: "nodes.xml.gz", What: "different nodes", Size: 7 << 20, Make: func(w *bufio.Writer, n int) {
		w.WriteString(xmlNodes)
		for i := range n {
			fmt.Fprintf(w, `<node parent="1" offset="%d" method="0"/>`, i)
		}
		w.WriteString(`</nodes></ccmap>`)
	}},
	{Name: "same.xml.gz", What: "one node again and again", Size: 8 << 20, Make: func(w *bufio.Writer, n int) {
		w.WriteString(xmlNodes)
		repeat(w, n, `<node parent="0" method="0"/>`)
		w.WriteString(`</nodes></ccmap>`)
	}},
	{Name: "chain.xml.gz", What: "a recursion of 11,000 calls, counted at each: 60 million frames in pprof", Size: 11_000, Make: func(w *bufio.Writer, n int) {
		w.WriteString(`<ccmap version="1"><methods><method name="m"/></methods><nodes>`)
		for i := range n {
			fmt.Fprintf(w, `<node parent="%d" method="0" samples="1" time_ns="1"/>`, i)
		}
		w.WriteString(`</nodes></ccmap>`)
	}},
	{Name: "methods.xml.gz", What: "methods of different names", Size: 4 << 20, Make: func(w *bufio.Writer, n int) {
		w.WriteString(`<ccmap version="1"><methods>`)
		for i := range n {
			fmt.Fprintf(w, `<method name="%d"/>`, i)
		}
		w.WriteString(`</methods></ccmap>`)
	}},
	{Name: "remarks.xml.gz", What: "a description of comments, empty each", Size: 20 << 20, Make: func(w *bufio.Writer, n int) {
		w.WriteString(`<ccmap version="1"><meta>`)
		repeat(w, n, "<comment/>")
		w.WriteString(`</meta></ccmap>`)
	}},
	{Name: "pruned.xml.gz", What: "pruned edges, all different", Size: 6 << 20, Make: func(w *bufio.Writer, n int) {
		w.WriteString(xmlNodes + `</nodes><pruned_edges>`)
		for i := range n {
			fmt.Fprintf(w, `<edge caller="0" offset="%d" callee="0"/>`, i)
		}
		w.WriteString(`</pruned_edges></ccmap>`)
	}},
	{Name: "nesting.json.gz", What: "arrays in each other", Size: 10_000_000, Make: func(w *bufio.Writer, n int) {
		w.WriteString(`{"ccmap_version":1,"x":`)
		repeat(w, n, "[")
	}},
	{Name: "number.json.gz", What: "a number of a billion digits", Size: 1 << 30, Make: func(w *bufio.Writer, n int) {
		w.WriteString(jsonNodes + `,{"parent":`)
		repeat(w, n/16, "1111111111111111")
	}},
	{Name: "string.json.gz", What: "a name of a gigabyte", Size: 1 << 30, Make: func(w *bufio.Writer, n int) {
		w.WriteString(`{"ccmap_version":1,"methods":[{"name":"`)
		repeat(w, n/16, "xxxxxxxxxxxxxxxx")
	}},
	{Name: "nodes.json.gz", What: "different nodes", Size: 7 << 20, Make: func(w *bufio.Writer, n int) {
		w.WriteString(jsonNodes)
		for i := range n {
			fmt.Fprintf(w, `,{"parent":1,"offset":%d,"method":0}`, i)
		}
		w.WriteString(`]}`)
	}},
	{Name: "intervals.json.gz", What: "a description of intervals, empty each, just within the bounds", Size: 2_700_000, Make: func(w *bufio.Writer, n int) {
		w.WriteString(`{"ccmap_version":1,"meta":{"intervals":[{}`)
		repeat(w, n, `,{}`)
		w.WriteString(`]}}`)
	}},
	{Name: "unknown.json.gz", What: "a member that nobody knows, a gigabyte", Size: 1 << 28, Make: func(w *bufio.Writer, n int) {
		w.WriteString(`{"ccmap_version":1,"x":[0`)
		repeat(w, n, `,{}`)
		w.WriteString(`]}`)
	}},
	{Name: "lines.json.gz", What: "lines of positions in machine code", Size: 4 << 20, Make: func(w *bufio.Writer, n int) {
		w.WriteString(`{"ccmap_version":1,"methods":[{"name":"m","coordinate":"machine"}],"lines":[{"method":0,"offset":1,"line":1}`)
		for i := range n {
			fmt.Fprintf(w, `,{"method":0,"offset":%d,"line":1}`, i+2)
		}
		w.WriteString(`]}`)
	}},
	{Name: "mappings.json.gz", What: "mappings of long file names", Size: 200_000, Make: func(w *bufio.Writer, n int) {
		name := strings.Repeat("x", 32<<10)
		w.WriteString(`{"ccmap_version":1,"mappings":[{"module":"m","limit":"0x1"}`)
		for i := range n {
			fmt.Fprintf(w, `,{"module":"%d%s","start":"0x1","limit":"0x2"}`, i, name)
		}
		w.WriteString(`]}`)
	}},
}

var points = []Kind{
	{Name: "points.json.gz", What: "different profile points", Size: 4 << 20, Make: func(w *bufio.Writer, n int) {
		w.WriteString(`{"ccmap_version":1,"methods":[{"name":"m"}],"points":[{"origin":"burst","kind":"block","method":0}`)
		for i := range n {
			fmt.Fprintf(w, `,{"origin":"burst","kind":"block","method":0,"offset":%d}`, i)
		}
		w.WriteString(`]}`)
	}},
	{Name: "values.json.gz", What: "one point of values", Size: 50 << 20, Amplifies: true, Make: func(w *bufio.Writer, n int) {
		w.WriteString(`{"ccmap_version":1,"methods":[{"name":"m"}],"points":[{"origin":"burst","kind":"switch","method":0,"values":[{}`)
		repeat(w, n, `,{}`)
		w.WriteString(`]}]}`)
	}},
	{Name: "tables.json.gz", What: "points of ten thousand values each", Size: 300, Make: func(w *bufio.Writer, n int) {
		var values strings.Builder
		for i := range 10_000 {
			fmt.Fprintf(&values, `,{"value":%d,"count":1}`, i+1)
		}
		w.WriteString(`{"ccmap_version":1,"methods":[{"name":"m"}],"points":[{"origin":"burst","kind":"block","method":0}`)
		for i := range n {
			fmt.Fprintf(w, `,{"origin":"burst","kind":"switch","method":0,"offset":%d,"count":10000,"values":[%s]}`, i, values.String()[1:])
		}
		w.WriteString(`]}`)
	}},
	{Name: "callers.json.gz", What: "one point of callers", Size: 50 << 20, Make: func(w *bufio.Writer, n int) {
		w.WriteString(`{"ccmap_version":1,"methods":[{"name":"m"}],"points":[{"origin":"burst","kind":"block","method":0,"context":[{}`)
		repeat(w, n, `,{}`)
		w.WriteString(`]}]}`)
	}},
	{Name: "points.xml.gz", What: "different profile points in contexts", Size: 3 << 20, Make: func(w *bufio.Writer, n int) {
		w.WriteString(`<ccmap version="1"><methods><method name="m"/></methods><points>`)
		for i := range n {
			fmt.Fprintf(w, `<point origin="burst" kind="call" method="0" offset="%d" count="1"><context><caller method="0"/></context><value value="0" count="1"/></point>`, i)
		}
		w.WriteString(`</points></ccmap>`)
	}},
}

var folded = []Kind{
	{Name: "line.folded.gz", What: "a line of 100 MB", Size: 100_000_000, Make: func(w *bufio.Writer, n int) {
		repeat(w, n/2, "a;")
		w.WriteString("a 1\n")
	}},
	{Name: "frames.folded.gz", What: "lines of frames that are all different", Size: 16 << 20, Make: func(w *bufio.Writer, n int) {
		for i := range n / 16 {
			for j := range 16 {
				fmt.Fprintf(w, "f%d;", 16*i+j)
			}
			w.WriteString("f 1\n")
		}
	}},
	{Name: "positions.folded.gz", What: "positions of ours that are all different", Size: 12 << 20, Make: func(w *bufio.Writer, n int) {
		for i := range n {
			fmt.Fprintf(w, "f+%d 1\n", i)
		}
	}},
	{Name: "stacks.folded.gz", What: "stacks of 60,000 frames, none with anything in common", Size: 1000, Amplifies: true, Make: func(w *bufio.Writer, n int) {
		deep := strings.Repeat(";a", 60_000)
		for i := range n {
			fmt.Fprintf(w, "f%d%s 1\n", i, deep)
		}
	}},
	{Name: "plain.folded", What: "lines of one frame, not compressed", Size: 30 << 20, wrap: plain, Make: func(w *bufio.Writer, n int) {
		repeat(w, n, "a 1\n")
	}},
}
