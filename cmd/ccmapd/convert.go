package main

import "github.com/spf13/cobra"

const convertLong = `Convert rewrites a profile in another format. The format of IN is told by its
content, that of OUT by its name: .pb.gz, .pb, .xml, .json or .folded, each also
with .gz or .zst. Standard input and output are '-'; standard output has no name,
so --to says the format, and it is not compressed.

XML and JSON keep everything. Pprof keeps the counts of all stacks, for 'go tool
pprof' and 'go build -pgo'. Folded stacks keep the CPU time alone, in ns. Where
contexts were pruned, both keep [pruned] in their place, and lose what these had
counted by method and edge: all figures are lower bounds then.

With --recent, OUT has the recent samples only: those of the window of 'attach
--window', where a sample weighs the less the longer ago it was.`

const convertExample = `  ccmapd convert web.pb.gz web.xml
  ccmapd convert --to folded web.pb.gz - | flamegraph.pl > web.svg
  ccmapd convert --recent web.pb.gz now.folded
  curl -s http://host/debug/pprof/profile | ccmapd convert - web.json.zst`

func newConvertCmd(env *environment) *cobra.Command {
	var to choice
	var view recency
	cmd := &cobra.Command{
		Use:     "convert IN OUT",
		Short:   "Rewrite a profile in another format",
		Long:    convertLong,
		Example: convertExample,
		GroupID: groupRead,
		Args:    usageArgs(cobra.ExactArgs(2)),
		RunE: func(_ *cobra.Command, args []string) error {
			out, err := newOutput(env, args[1], to)
			if err != nil {
				return err
			}
			p, err := view.load(env, args[0])
			if err != nil {
				return err
			}
			return out.write(p.Snapshot)
		},
	}
	registerTo(cmd, &to)
	view.register(cmd)
	return cmd
}
