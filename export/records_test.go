package export

import (
	"bufio"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ccmapd/ccmapd/ccmap"
)

// readDecoded reads a document with the decoders of the standard library alone.
func readDecoded(data string) (*ccmap.Map, Format, error) {
	const short = longestRecord - 1 // a buffer that no record is scanned in
	r := bufio.NewReaderSize(strings.NewReader(data), short)
	f, err := sniff(r)
	if err != nil || f != XML && f != JSON {
		return nil, f, err
	}
	m, err := newBuilder(fuzzLimits.WithDefaults()).read(r, f)
	if err != nil {
		err = fmt.Errorf("read %v: %w", f, err)
	}
	return m, f, err
}

// checkScanned holds the scanner of records against the decoders: it reads the same map,
// and refuses the same documents for the same reason.
func checkScanned(t interface{ Fatalf(string, ...any) }, data string) {
	want, format, wantErr := readDecoded(data)
	if format != XML && format != JSON {
		return
	}
	got, _, err := Read(strings.NewReader(data), fuzzLimits)
	if fmt.Sprint(err) != fmt.Sprint(wantErr) {
		t.Fatalf("scanned: %v; decoded: %v; in %q", err, wantErr, data)
	}
	if err != nil {
		return
	}
	if diff := diffContent(want.Snapshot(), got.Snapshot()); diff != "" {
		t.Fatalf("(-decoded +scanned) in %q:\n%s", data, diff)
	}
}

// Any bytes of a document may be wrong.
func TestScannedEqualsDecoded(t *testing.T) {
	t.Parallel()
	pieces := []string{"", " ", "\n", "0", "-", "1e3", "9223372036854775808", ",", "}", "]", "{}", "/>", "<x/>", `"`, `"x":1,`, `x="1" `, `"parent":0`, `parent="0"`}
	rapid.Check(t, func(t *rapid.T) {
		format := rapid.SampledFrom([]Format{XML, JSON}).Draw(t, "format")
		data := mustEncode(t, format, drawPruned(t, buildLocated).Snapshot())
		for range rapid.IntRange(0, 2).Draw(t, "changes") {
			from := rapid.IntRange(0, len(data)).Draw(t, "from")
			to := min(len(data), from+rapid.IntRange(0, 3).Draw(t, "bytes"))
			data = data[:from] + rapid.SampledFrom(pieces).Draw(t, "piece") + data[to:]
		}
		checkScanned(t, data)
	})
}

// A list that is closed where it is opened has no records, and lists may stand twice.
func TestScannedListsEqualDecoded(t *testing.T) {
	t.Parallel()
	const (
		xmlNode  = "\n" + `<node parent="0" method="0" samples="1"/>`
		jsonNode = `{"parent":0,"method":0,"samples":1}`
	)
	xml := func(nodes string) string {
		return `<ccmap version="1"><methods><method name="m"/></methods>` + nodes + `</ccmap>`
	}
	json := func(nodes string) string {
		return `{"ccmap_version":1,"methods":[{"name":"m"}],"nodes":[` + nodes + `}`
	}
	for _, data := range []string{
		xml("<nodes/>" + xmlNode),
		xml("<nodes>" + xmlNode + xmlNode + "</nodes>"),
		xml("<nodes>" + xmlNode + "</nodes><nodes>" + xmlNode + "</nodes>"),
		xml("<nodes>" + xmlNode + "text" + xmlNode + `<x/><node parent="1" method="0"/></nodes>`),
		xml("<nodes>" + xmlNode + "\n" + `<node parent="7" method="0"/></nodes>`),
		xml("<nodes>" + strings.Repeat(xmlNode, 5000) + "\n" + `<node parent="-1"/></nodes>`),
		json("\n" + jsonNode + "]"),
		json("\n" + jsonNode + ",\n" + jsonNode + `],"nodes":[` + "\n" + jsonNode + "]"),
		json("\n" + jsonNode + ",\n]"),
		json("\n" + jsonNode + "5]"),
		json("\n" + jsonNode + `, {"method":0, "parent":1}]`),
		json("\n" + strings.Repeat(jsonNode+",\n", 5000) + `{"parent":-1}]`),
		json("\n" + jsonNode + "]x"),
		json("\n" + jsonNode),
		json("\n" + `{"parent":0,"method":0,"samples":18446744073709551615}]`),
		json("\n" + `{"parent":0,"method":0,"samples":9223372036854775807}]`),
	} {
		checkScanned(t, data)
	}
}

// The scanner reads all numbers that are written, and no others.
func TestScanNumber(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.Int64().Draw(t, "number") / int64(math.Pow10(rapid.IntRange(0, 18).Draw(t, "digits")))
		text := strconv.FormatInt(want, 10)
		if got, size := scanNumber([]byte(text + "x")); size != 0 && (size != len(text) || got != want) || size == 0 && len(text) < 19 {
			t.Fatalf("%s is %d, of %d bytes", text, got, size)
		}
	})
	for _, text := range []string{"", "-", "x", "00", "01", "-0", "-01", "1234567890123456789"} {
		if got, size := scanNumber([]byte(text)); size != 0 {
			t.Errorf("%q is %d, of %d bytes", text, got, size)
		}
	}
}

// What a document says is not told by what the scanner of it has not seen: records across
// the ends of its buffer.
func TestScannedAcrossBuffers(t *testing.T) {
	t.Parallel()
	s := forest(5000).Snapshot()
	for _, f := range []Format{XML, JSON} {
		data := encode(t, f, s)
		if got := encode(t, f, decode(t, data)); got != data {
			t.Errorf("%v: %s", f, cmp.Diff(data, got))
		}
	}
}
