package api

import (
	"bufio"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
)

const (
	// subordinateFile has the numbers that users get for user namespaces of their own (subuid(5)).
	subordinateFile = "/etc/subuid"

	mostSubordinate = 1 << 20 // bytes that are read of it
)

// span is the numbers that a user has got. By a user namespace a user may be any of them, which
// must not count as so many users.
type span struct {
	user        string // name or number
	first, last uint32
}

// whoseIs names the user of a number: the number itself, or whose it is.
func whoseIs(uid uint32, spans []span) string {
	for _, s := range spans {
		if s.first <= uid && uid <= s.last {
			return "subordinate of " + s.user
		}
	}
	return strconv.FormatUint(uint64(uid), 10)
}

// readSpans reads the numbers of all users. A file that is missing has no numbers.
func readSpans() []span {
	f, err := os.Open(subordinateFile)
	if err != nil {
		return nil
	}
	defer f.Close()
	return parseSpans(io.LimitReader(f, mostSubordinate))
}

// parseSpans reads lines of a user, the first number and how many there are. Others are left out.
func parseSpans(file io.Reader) (all []span) {
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		fields := strings.Split(lines.Text(), ":")
		if len(fields) != 3 {
			continue
		}
		first, err := strconv.ParseUint(fields[1], 10, 32)
		count, err2 := strconv.ParseUint(fields[2], 10, 32)
		if err == nil && err2 == nil && count > 0 {
			all = append(all, span{fields[0], uint32(first), uint32(min(first+count-1, math.MaxUint32))})
		}
	}
	return all
}
