package main

import (
	"bufio"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/scripts/report"
)

// requests are those of a bucket, as its log has them.
type requests struct {
	segments, parts, manifests int // writes
	leases, lists              int
	taken, reads               int   // reads, of segments and of others
	written                    int64 // bytes
}

// requestLine finds the operation, the key, which is - for a list, and the size of the object in a line of the log.
var requestLine = regexp.MustCompile(` s3_(\w+) (\S+) (?:\S+ \d+ \S+ \d+ (\d+) )?`)

func countRequests(name string) (n requests, err error) {
	f, err := os.Open(name)
	if err != nil {
		return n, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if found := requestLine.FindStringSubmatch(lines.Text()); found != nil {
			n.count(found[1], found[2])
			if size, err := strconv.ParseInt(found[3], 10, 64); err == nil && found[1] == "PutObject" {
				n.written += size
			}
		}
	}
	if n.segments == 0 {
		return n, fmt.Errorf("%s has no request that is known", name)
	}
	return n, lines.Err()
}

func (n *requests) count(operation, key string) {
	isWrite := operation == "PutObject"
	switch {
	case strings.HasPrefix(key, "check/"), strings.HasPrefix(operation, "Delete"): // the start's, and what costs nothing
	case strings.HasPrefix(operation, "List"):
		n.lists++
	case strings.HasPrefix(key, "lease/"):
		n.leases++
	case !isWrite && strings.HasPrefix(key, "seg/"):
		n.taken++
	case !isWrite:
		n.reads++
	case strings.HasPrefix(key, "seg/"):
		n.segments++
	case strings.HasSuffix(key, "/manifest"):
		n.manifests++
	default:
		n.parts++
	}
}

// Prices of S3, in dollars a request.
const (
	priceOfWrite = 5e-6 // and of a list
	priceOfRead  = 0.4e-6
)

// row prints counts, and what a day of 10,000 daemons would cost by them. The leases and the lists of a hub do not run
// faster with time: it makes one of each in ten seconds.
func (n requests) row(s settings) []string {
	const daemons = 10_000
	day := 24 * time.Hour
	share := float64(day) / float64(time.Duration(s.periods)*period) // of the time that was simulated
	larger := float64(daemons) / float64(s.daemons)
	polls := float64(day/(10*time.Second)) * hubs
	// A segment is written when a window ends, however many daemons there are, and read once. All others are of builds.
	dollars := share*(float64(n.segments)+larger*float64(n.parts+n.manifests))*priceOfWrite +
		share*(float64(n.taken)+larger*float64(n.reads))*priceOfRead + polls*(2*priceOfWrite+priceOfRead)
	return []string{
		report.Count(float64(n.segments)), report.Count(float64(n.parts)), report.Count(float64(n.manifests)),
		report.Count(float64(n.taken + n.reads)), report.Count(float64(n.leases + n.lists)),
		report.Number(float64(n.written)/1000/float64(s.daemons*s.periods), 1), report.Number(dollars, 2),
	}
}
