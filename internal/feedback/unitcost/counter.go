package unitcost

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// Errors of counters.
var (
	ErrNoCounter  = errors.New("the page has no such counter")
	ErrNotCounter = errors.New("it is no counter")
)

// mostMetrics bounds a page of metrics, bytes.
const mostMetrics = 16 << 20

// ReadCounter returns the sum of a counter over all its labels, from a page in the text format of Prometheus. The
// count of a histogram or a summary is a counter, too: name it with its _count. A metric that the page does not
// call a counter is refused: a gauge is no count of work.
func ReadCounter(page io.Reader, name string) (uint64, error) {
	lines := bufio.NewScanner(io.LimitReader(page, mostMetrics))
	lines.Buffer(nil, 1<<20)
	sum, found, kinds := 0.0, false, map[string]string{}
	for lines.Scan() {
		line := lines.Text()
		if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
			if metric, kind, ok := strings.Cut(rest, " "); ok && strings.HasPrefix(name, strings.TrimSuffix(metric, "_total")) {
				kinds[metric] = strings.TrimSpace(kind)
			}
			continue
		}
		value, ok, err := valueOf(line, name)
		if err != nil {
			return 0, fmt.Errorf("read metric %s: %w", name, err)
		}
		if ok {
			sum, found = sum+value, true
		}
	}
	if err := lines.Err(); err != nil {
		return 0, fmt.Errorf("read metrics: %w", err)
	}
	if !found {
		return 0, fmt.Errorf("%s: %w", name, ErrNoCounter)
	}
	if err := counts(name, kinds); err != nil {
		return 0, err
	}
	if !(sum >= 0 && sum < 1<<53) {
		return 0, fmt.Errorf("%s is %v: %w", name, sum, ErrNotCounter)
	}
	return uint64(sum), nil
}

// counts checks the kind of a metric.
func counts(name string, kinds map[string]string) error {
	base := strings.TrimSuffix(name, "_count")
	switch {
	case kinds[name] == "counter", kinds[strings.TrimSuffix(name, "_total")] == "counter":
		return nil
	case base != name && (kinds[base] == "histogram" || kinds[base] == "summary"):
		return nil
	case kinds[name] != "":
		return fmt.Errorf("%s is a %s: %w", name, kinds[name], ErrNotCounter)
	}
	return fmt.Errorf("the page does not say of what kind %s is: %w", name, ErrNotCounter)
}

// valueOf returns the value in a line of a metric.
func valueOf(line, name string) (value float64, ok bool, err error) {
	rest, ok := strings.CutPrefix(line, name)
	if !ok || rest == "" {
		return 0, false, nil
	}
	switch rest[0] {
	case ' ', '\t':
	case '{':
		end := labelsEnd(rest)
		if end < 0 {
			return 0, false, errors.New("labels do not end")
		}
		rest = rest[end:]
	default: // a longer name
		return 0, false, nil
	}
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0, false, errors.New("a line has no value")
	}
	value, err = strconv.ParseFloat(fields[0], 64)
	if err != nil || math.IsNaN(value) {
		return 0, false, fmt.Errorf("%q is no number", fields[0])
	}
	return value, true, nil
}

// labelsEnd returns the index after the labels, whose values may have braces; -1: they do not end.
func labelsEnd(s string) int {
	quoted := false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\' && quoted:
			i++
		case c == '"':
			quoted = !quoted
		case c == '}' && !quoted:
			return i + 1
		}
	}
	return -1
}
