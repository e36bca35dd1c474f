package view_test

import (
	"encoding/json"
	"fmt"
	"log"
	"os"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/query"
	"github.com/ccmapd/ccmapd/internal/view"
)

// server is a profile of ten samples, 10 ms apart, of two handlers that call one lookup.
func server() *view.Profile {
	m := ccmap.New(ccmap.Options{})
	fold := func(times int, stack ...string) {
		var frames []ccmap.Frame
		for _, name := range stack {
			frames = append(frames, ccmap.Frame{Method: m.Names().Intern(ccmap.Method{Name: "app." + name})})
		}
		for range times {
			m.Fold(&ccmap.Sample{Frames: frames, Weight: 10_000_000, Fresh: int32(len(frames))})
		}
	}
	fold(6, "lookup", "list", "serve")
	fold(4, "lookup", "detail", "serve")
	m.Meta().Unit = ccmap.CPUTime
	return view.New("server.pb.gz", m.Snapshot())
}

// The hottest methods, as a table for people and as rows for programs.
func Example() {
	p := server()
	p.Hints = map[view.Hint]string{view.HintRows: "ask for more"}
	top, err := view.NewTop(p, view.List{Limit: 2, Order: view.ByCum})
	if err != nil {
		log.Fatal(err)
	}
	if err := top.Text(os.Stdout, view.TextOptions{}); err != nil {
		log.Fatal(err)
	}
	fmt.Println()
	for _, r := range top.Rows {
		fmt.Printf("%s: %d of %d samples\n", r.Method.Name, r.Cum.Samples, p.Total().Samples)
	}
	// Output:
	// server.pb.gz: 10 samples, 100ms of CPU time
	//
	//  flat    cum  method
	// 100ms  100ms  app.lookup
	//     0  100ms  app.serve
	// … and 2 more: ask for more
	//
	// Too few samples to trust methods, call sites or contexts: 1,000 samples more.
	//
	// app.lookup: 10 of 10 samples
	// app.serve: 10 of 10 samples
}

// A program chooses the columns, by the names that a layout lists.
func ExampleTextOptions() {
	p := server()
	lookup, err := query.Named(p.Names(), "lookup")
	if err != nil {
		log.Fatal(err)
	}
	contexts, err := view.NewContexts(p, view.List{Methods: lookup}, 1)
	if err != nil {
		log.Fatal(err)
	}
	question, _ := view.QuestionNamed("contexts")
	fmt.Println("columns:", question.Layout.All)
	if err := contexts.Text(os.Stdout, view.TextOptions{Columns: []string{"samples", "share", "context"}}); err != nil {
		log.Fatal(err)
	}
	// Output:
	// columns: [cum share of-all samples activations context location]
	// server.pb.gz: 10 samples, 100ms of CPU time
	//
	// samples  share  context
	//       6  60.0%  app.lookup
	//                   ← app.list
	//                   ← …
	//       4  40.0%  app.lookup
	//                   ← app.detail
	//                   ← …
	//
	// Too few samples to trust methods, call sites or contexts: 1,000 samples more.
}

// A program asks any question, by its name. It sets the parameters that are not to have their defaults.
func ExampleQuestion() {
	question, _ := view.QuestionNamed("query")
	form := question.New()
	for _, p := range form.Params {
		fmt.Printf("%s: %s\n", p.Name, p.Help)
		if limit, ok := p.Value.(*uint); ok && p.Name == "limit" {
			*limit = 1
		}
	}
	answer, err := form.Answer(view.About{Profiles: []*view.Profile{server()}, Text: "app.lookup", Find: query.Named})
	if err != nil {
		log.Fatal(err)
	}
	if err := answer.Text(os.Stdout, view.TextOptions{Brief: true}); err != nil {
		log.Fatal(err)
	}
	// Output:
	// sort: order `BY` time, samples, activations or name
	// limit: list at most `N`; 0: all
	// server.pb.gz: 10 samples, 100ms of CPU time
	//
	//    cum   share  path          location
	// 60.0ms   60.0%    ← app.list  +0
	// 40.0ms   40.0%    ← … 1 more
	//  100ms  100.0%  app.lookup
	//  100ms  100.0%    (itself)
}

// JSON has every figure exactly. A layout says what its members mean.
func ExampleTop_MethodsJSON() {
	top, err := view.NewTop(server(), view.List{Limit: 1})
	if err != nil {
		log.Fatal(err)
	}
	text, err := json.Marshal(top.MethodsJSON())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(text))
	question, _ := view.QuestionNamed("top")
	for _, c := range question.Layout.Columns {
		if c.Key == "methods[].flat.percent" {
			fmt.Printf("%s: %s in %s, column %s\n", c.Key, c.Doc, c.Unit, c.Name)
		}
	}
	// Output:
	// [{"method":"app.lookup","flat":{"samples":10,"time_ns":100000000,"percent":100,"activations":10,"share_low":72.24671969739421,"share_high":100},"cum":{"samples":10,"time_ns":100000000,"percent":100,"activations":10,"share_low":72.24671969739421,"share_high":100}}]
	// methods[].flat.percent: share of the whole profile, by time, or by samples where it has no time in %, column flat%
}
