package api

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"go.yaml.in/yaml/v2"

	"github.com/ccmapd/ccmapd/internal/daemon"
)

// TestMetrics: the values are those of the daemon, and names are as Prometheus wants them.
func TestMetrics(t *testing.T) {
	t.Parallel()
	f := newFake()
	web := &f.targets[1]
	web.Restarts, web.Status.IntervalNS, web.Status.Settled.Edges, web.Status.Drift = 3, 5e6, 90, true
	c := &web.Counters
	c.Samples, c.SampledNS, c.LostQueue, c.IntervalChanges, c.Unfiled, c.Failures.NotPermitted = 1000, 10e9, 4, 5, 6, 7
	s := newServer(t, f, Options{Version: "v1", FullMetrics: true})
	text := get(s, master, "/metrics").Body.String()
	for _, line := range []string{
		`ccmapd_targets{state="sampling"} 2`,
		`ccmapd_samples_total{target="web"} 1000`, `ccmapd_samples_total{target="db"} 0`,
		`ccmapd_sampled_cpu_seconds_total{target="web"} 10`,
		`ccmapd_samples_lost_total{target="web",where="queue"} 4`,
		`ccmapd_interval_seconds{target="web"} 0.005`, `ccmapd_interval_changes_total{target="web"} 5`,
		`ccmapd_converged_ratio{of="edges",target="web"} 0.9`, `ccmapd_drifting{target="web"} 1`,
		`ccmapd_restarts_total{target="web"} 3`, `ccmapd_attach_failures_total{reason="not-permitted",target="web"} 7`,
		`ccmapd_store_errors_total{target="web"} 6`, `ccmapd_config_last_reload_successful 1`,
		`ccmapd_http_request_seconds_count{route="GET /metrics"} 0`,
	} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("%s is missing in\n%s", line, text)
		}
	}
	if strings.Contains(text, "ccmapd_store_log") {
		t.Errorf("metrics of a store that is not there:\n%s", text)
	}
	f.stored, f.keeping = keptOf(t), daemon.Keeping{Behind: 90 * time.Second, Failed: 2, Damage: "torn"}
	text = get(s, master, "/metrics").Body.String()
	for _, line := range []string{"ccmapd_store_log_behind_seconds 90", "ccmapd_store_log_errors_total 2", "ccmapd_store_log_damaged 1"} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("%s is missing in\n%s", line, text)
		}
	}
	f.unloaded = os.ErrInvalid
	if text := get(s, master, "/metrics").Body.String(); !strings.Contains(text, "\nccmapd_config_last_reload_successful 0\n") || !strings.Contains(text, "\nccmapd_http_request_seconds_count{route=\"GET /metrics\"} 2\n") {
		t.Errorf("after a reload that was refused, and a request:\n%s", text)
	}
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("%v %+v", err, problems)
	}
}

// TestBasicMetrics: by default a target has 12 series and HTTP has 60 at most, sums in place of parts. Whatever an
// alert asks for is among them.
func TestBasicMetrics(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.stored = keptOf(t)
	c := &f.targets[1].Counters
	c.LostQueue, c.LostSource, c.Failures.Other = 4, 5, 7
	s := newServer(t, f, Options{})
	text := get(s, master, "/metrics").Body.String()
	for _, line := range []string{
		`ccmapd_samples_lost_total{target="web",where="any"} 9`, `ccmapd_attach_failures_total{reason="any",target="web"} 7`,
		`ccmapd_http_request_seconds_count{route="health"} 0`,
	} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("%s is missing in\n%s", line, text)
		}
	}
	for what, most := range map[string]int{`target="web"`: 12, "\nccmapd_http": 60} {
		if n := strings.Count(text, what); n > most {
			t.Errorf("%d series of %s, want %d at most", n, what, most)
		}
	}
	labels := labelsOf(t, s)
	for _, e := range alertExpressions(t) {
		if wrong := unknownIn(e, labels); len(wrong) > 0 {
			t.Errorf("%s: by default there is no %q", e, wrong)
		}
	}
}

// TestMonitoring: every metric and label of the dashboard and of the alerts exists, and
// docs/daemon.md has all metrics.
func TestMonitoring(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.stored = keptOf(t)
	f.keeping.Hub = &daemon.Sending{State: daemon.HubWorks, FanIn: new(daemon.FanInOfFleet)}
	f.targets[0].Waits = &daemon.WaitsStatus{Event: "wall", Processes: 1, Goroutines: 7, Samples: 70}
	labels := labelsOf(t, newServer(t, f, Options{FullMetrics: true}))
	expressions := slices.Concat(alertExpressions(t), dashboardExpressions(t))
	if len(expressions) < 30 {
		t.Errorf("%d expressions: some were not found", len(expressions))
	}
	for _, e := range expressions {
		if wrong := unknownIn(e, labels); len(wrong) > 0 {
			t.Errorf("%s: there is no %q", e, wrong)
		}
	}
	page, err := os.ReadFile("../../docs/daemon.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := regexp.MustCompile(`ccmapd_\w+`).FindAllString(string(page), -1)
	slices.Sort(documented)
	exist := slices.DeleteFunc(slices.Sorted(maps.Keys(labels)), func(name string) bool { return !strings.HasPrefix(name, "ccmapd_") })
	if diff := cmp.Diff(exist, slices.Compact(documented)); diff != "" {
		t.Errorf("metrics, and those of the page:\n%s", diff)
	}
}

// TestUnknownNames: the check of expressions finds what does not exist.
func TestUnknownNames(t *testing.T) {
	t.Parallel()
	labels := map[string][]string{"a_total": {"x"}, "b_seconds": {"y"}}
	for expression, want := range map[string]string{
		`sum by (x) (rate(a_total{x="b_total", job="c"}[5m])) > 0.5 and on (instance) up == 1e3`:      "",
		`histogram_quantile(0.9, sum by (y, le) (rate(b_seconds_bucket{y!~"$y"}[$__rate_interval])))`: "",
		`label_values(a_total{x="1"}, instance)`:                                                      "",
		`b_total`:                                                                                     "b_total",
		`a_total{y="1"}`:                                                                              "y",
		`sum without (z) (a_total)`:                                                                   "z",
		`a_total / ignoring (x) group_left c`:                                                         "c",
		`label_values(a_total, y)`:                                                                    "y",
		`rate(a_total_bucket{le="1"}[5m] offset 1h)`:                                                  "",
		`avg_over_time(nothing[1h:5m])`:                                                               "nothing",
	} {
		if got := strings.Join(unknownIn(expression, labels), " "); got != want {
			t.Errorf("%s: unknown %q, want %q", expression, got, want)
		}
	}
}

// labelsOf returns the labels of all metrics of a server, by name.
func labelsOf(t *testing.T, s *Server) map[string][]string {
	t.Helper()
	families, err := s.metrics.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	labels := make(map[string][]string)
	for _, family := range families {
		var names []string
		for _, pair := range family.GetMetric()[0].GetLabel() {
			names = append(names, pair.GetName())
		}
		labels[family.GetName()] = names
	}
	return labels
}

func alertExpressions(t *testing.T) (all []string) {
	t.Helper()
	text, err := os.ReadFile("../../packaging/monitoring/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := yaml.UnmarshalStrict(text, &file); err != nil {
		t.Fatal(err)
	}
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			all = append(all, rule.Expr)
		}
	}
	return all
}

func dashboardExpressions(t *testing.T) (all []string) {
	t.Helper()
	text, err := os.ReadFile("../../packaging/monitoring/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Templating struct {
			List []struct{ Type, Definition string }
		}
		Panels []struct {
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	for _, v := range file.Templating.List {
		if v.Type == "query" {
			all = append(all, v.Definition)
		}
	}
	for _, p := range file.Panels {
		for _, target := range p.Targets {
			all = append(all, target.Expr)
		}
	}
	return all
}

var (
	aside      = regexp.MustCompile(`"[^"]*"|\[[^]]*\]`) // strings and ranges
	labelsIn   = regexp.MustCompile(`\{([^}]*)\}`)
	matcher    = regexp.MustCompile(`(\w+)\s*[=!]`)
	grouping   = regexp.MustCompile(`\b(?:by|without|on|ignoring)\s*\(([^)]*)\)`)
	valuesOf   = regexp.MustCompile(`^label_values\((.*),\s*(\w+)\)$`)
	identifier = regexp.MustCompile(`[a-zA-Z_]\w*(\s*\()?`)
	number     = regexp.MustCompile(`\b\d[\w.]*`)
	words      = regexp.MustCompile(`^(sum|min|max|count|and|or|unless|bool|offset|group_left|group_right)$`)
	part       = regexp.MustCompile(`_(bucket|sum|count)$`) // of a histogram
)

// unknownIn returns the metrics of an expression of PromQL that do not exist, and the labels that none
// of its metrics has. Prometheus adds up, job and instance.
func unknownIn(expression string, labels map[string][]string) (unknown []string) {
	var used []string
	rest := aside.ReplaceAllString(expression, "")
	if parts := valuesOf.FindStringSubmatch(rest); parts != nil {
		rest, used = parts[1], append(used, parts[2])
	}
	for _, in := range labelsIn.FindAllStringSubmatch(aside.ReplaceAllString(rest, ""), -1) {
		for _, m := range matcher.FindAllStringSubmatch(in[1], -1) {
			used = append(used, m[1])
		}
	}
	rest = labelsIn.ReplaceAllString(rest, "")
	for _, in := range grouping.FindAllStringSubmatch(rest, -1) {
		used = append(used, strings.FieldsFunc(in[1], func(r rune) bool { return r == ',' || r == ' ' })...)
	}
	rest = number.ReplaceAllString(grouping.ReplaceAllString(rest, ""), "")
	known := []string{"job", "instance"}
	for _, name := range identifier.FindAllString(rest, -1) {
		if strings.HasSuffix(name, "(") || words.MatchString(name) || name == "up" {
			continue
		}
		of, ok := labels[name]
		if base := part.ReplaceAllString(name, ""); !ok && base != name {
			of, ok = labels[base]
			known = append(known, "le")
		}
		if !ok {
			unknown = append(unknown, name)
		}
		known = append(known, of...)
	}
	return append(unknown, slices.DeleteFunc(used, func(label string) bool { return slices.Contains(known, label) })...)
}
