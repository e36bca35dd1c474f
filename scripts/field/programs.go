package main

import (
	"context"

	"github.com/ccmapd/ccmapd/scripts/report"
)

// programsCampaign attaches to programs that nobody here wrote.
var programsCampaign = campaign{
	name:  "programs",
	about: "attach to programs that nobody here wrote, and to guests, and compare with runtime/pprof",
	example: `  go run ./scripts/field programs                    all of them, into ACCURACY.md
  go run ./scripts/field programs -only 'go1.2*' -o ''
                                                     programs of some names, printed`,
	run: runPrograms,
}

const programsPortion report.Portion = "scripts/field, programs"

func runPrograms(ctx context.Context, f *field) error {
	t := &report.Table{Head: []string{"program"}}
	return f.write(programsPortion, t.String())
}
