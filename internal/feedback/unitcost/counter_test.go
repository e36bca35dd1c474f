package unitcost

import (
	"errors"
	"strings"
	"testing"
)

const page = `# HELP http_requests_total Requests.
# TYPE http_requests_total counter
http_requests_total{code="200",path="/a{b}\"}"} 40
http_requests_total{code="500"} 2 1700000000000
http_requests_total_other 7
# TYPE latency histogram
latency_bucket{le="+Inf"} 9
latency_count 9
# TYPE open gauge
open 3
untyped 5
# TYPE rpcs counter
rpcs_total 1e3
`

func TestReadCounter(t *testing.T) {
	for name, want := range map[string]uint64{"http_requests_total": 42, "latency_count": 9, "rpcs_total": 1000} {
		if got, err := ReadCounter(strings.NewReader(page), name); got != want || err != nil {
			t.Errorf("%s = %d, %v, want %d", name, got, err, want)
		}
	}
	for name, want := range map[string]error{"open": ErrNotCounter, "untyped": ErrNotCounter, "http": ErrNoCounter} {
		if _, err := ReadCounter(strings.NewReader(page), name); !errors.Is(err, want) {
			t.Errorf("%s: error %v, want %v", name, err, want)
		}
	}
}

func FuzzReadCounter(f *testing.F) {
	f.Add(page, "http_requests_total")
	f.Add("# TYPE a counter\na{ 1", "a")
	f.Add("# TYPE a counter\na -1\n", "a")
	f.Fuzz(func(t *testing.T, page, name string) {
		n, err := ReadCounter(strings.NewReader(page), name)
		if err == nil && n >= 1<<53 {
			t.Errorf("a count of %d is not exact", n)
		}
	})
}
