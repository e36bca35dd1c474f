package usage

import (
	"errors"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ccmapd/ccmapd/internal/advice"
)

// command returns a command with a flag of each kind, whose errors are explained.
func command() *cobra.Command {
	cmd := &cobra.Command{Use: "brew", SilenceErrors: true, SilenceUsage: true, RunE: func(*cobra.Command, []string) error { return nil }}
	choice := NewChoice([]string{"black", "green", "white"})
	choice.Register(cmd, "tea", "`KIND` of tea")
	flags := cmd.Flags()
	flags.BoolP("milk", "m", false, "with milk")
	flags.IntP("cups", "c", 1, "`N` cups")
	flags.Uint("spoons", 1, "`N` spoons")
	flags.Float64("litres", 1, "`N` litres")
	flags.Duration("draw", time.Minute, "`TIME` to draw")
	flags.Bool("milkshake", false, "not offered any more")
	_ = flags.MarkHidden("milkshake") // the only error is that there is no such flag
	flags.Var(refusing{}, "pot", "`NAME` of the pot")
	cmd.SetFlagErrorFunc(ExplainFlag)
	return cmd
}

// refusing is a flag whose errors begin with the value.
type refusing struct{}

func (refusing) String() string     { return "" }
func (refusing) Type() string       { return "pot" }
func (refusing) Set(s string) error { return errors.New("\"" + s + "\" is not a pot") }

// text returns an error and its advice as users see them.
func text(err error) string {
	if tip, ok := advice.Of(err); ok {
		return err.Error() + "\n" + tip
	}
	return err.Error()
}

// TestExplainFlag: errors of flags are in words for users, and name no function or type of Go.
func TestExplainFlag(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ arg, want string }{
		{"--tea=red", `--tea "red": must be black, green or white`},
		{"--milk=maybe", `-m, --milk "maybe" is neither true nor false`},
		{"--cups=1.5", `-c, --cups "1.5" is not a whole number`},
		{"--spoons=-1", `--spoons "-1" is not a whole number from 0`},
		{"--litres=half", `--litres "half" is not a number`},
		{"--draw=4", `--draw "4" is not a duration: write 10s, 500ms or 1h30m`},
		{"--pot=cup", `--pot "cup" is not a pot`},
		{"--cups", `--cups needs a value: --cups N`},
		{"-c", `-c needs a value: -c N`},
		{"-cx", `-c, --cups "x" is not a whole number`},
		{"--sugar", `brew has no flag --sugar`},
		{"--mil", "brew has no flag --mil\nDid you mean --milk?"},
		{"--dram", "brew has no flag --dram\nDid you mean --draw?"},
		{"-mx", `brew has no flag -x, as in -x`},
	} {
		cmd := command()
		cmd.SetArgs([]string{test.arg})
		err := cmd.Execute()
		if err == nil || text(err) != test.want {
			t.Errorf("%s\ngot  %v\nwant %s", test.arg, err, test.want)
		}
		if advice.CodeOf(err) != advice.CodeCommandLine {
			t.Errorf("%s: %v is not an error of the command line", test.arg, err)
		}
	}
	if err := ExplainFlag(command(), pflag.ErrHelp); !errors.Is(err, pflag.ErrHelp) {
		t.Errorf("the cause is lost: %v", err)
	}
}

// TestChoice: the first word is the default, and each word is taken.
func TestChoice(t *testing.T) {
	t.Parallel()
	words := []string{"black", "green"}
	c := NewChoice(words)
	if c.String() != "black" {
		t.Errorf("the default is %q", &c)
	}
	for _, word := range words {
		if err := c.Set(word); err != nil || c.Value != word {
			t.Errorf("set %s: %v, value %q", word, err, c.Value)
		}
	}
	if err := c.Set("red"); err == nil || c.Value != "green" {
		t.Errorf("set red: %v, value %q", err, c.Value)
	}
}

// TestCompletions: a shell completes the words, of any command, and cobra keeps no command for another line.
func TestCompletions(t *testing.T) {
	t.Parallel()
	root, cmd := &cobra.Command{Use: "kitchen"}, command()
	root.AddCommand(cmd)
	Completions(root, []string{"brew", "--tea", "green"})
	if _, ok := cmd.GetFlagCompletionFunc("tea"); ok {
		t.Error("cobra keeps a command that no shell asks about")
	}
	Completions(root, []string{"__completeNoDesc", "brew", "--tea", ""})
	complete, ok := cmd.GetFlagCompletionFunc("tea")
	if !ok {
		t.Fatal("a shell cannot complete the words")
	}
	if got, _ := complete(cmd, nil, ""); len(got) != 3 || got[1] != "green" {
		t.Errorf("a shell completes %q", got)
	}
}

// TestUnknownCommand: the word that is no command is named, flags before it or not.
func TestUnknownCommand(t *testing.T) {
	t.Parallel()
	root := &cobra.Command{Use: "kitchen", SuggestionsMinimumDistance: 2}
	root.AddCommand(command())
	cause := errors.New("cobra's words")
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"brwe", "x"}, "there is no command \"brwe\"\nDid you mean brew?"},
		{[]string{"-v", "toast"}, `there is no command "toast"`},
		{[]string{"-v"}, "cobra's words"},
	} {
		if err := UnknownCommand(root, test.args, cause); text(err) != test.want || advice.CodeOf(err) != advice.CodeCommandLine {
			t.Errorf("%q: %v, want %s", test.args, err, test.want)
		}
	}
}

// TestCheckRequired: a missing flag that a command needs is an error, until it is given.
func TestCheckRequired(t *testing.T) {
	t.Parallel()
	cmd := command()
	if err := CheckRequired(cmd); err != nil {
		t.Errorf("no flag is required: %v", err)
	}
	if err := cmd.MarkFlagRequired("cups"); err != nil {
		t.Fatal(err)
	}
	if err := CheckRequired(cmd); err == nil || err.Error() != "brew needs --cups N" {
		t.Errorf("--cups is missing: %v", err)
	}
	if err := cmd.Flags().Set("cups", "2"); err != nil {
		t.Fatal(err)
	}
	if err := CheckRequired(cmd); err != nil {
		t.Errorf("--cups is given: %v", err)
	}
}

// TestErrorf: an error of the command line keeps its cause.
func TestErrorf(t *testing.T) {
	t.Parallel()
	cause := errors.New("cold")
	for _, err := range []error{Errorf("brew: %w", cause), Of(cause)} {
		if !errors.Is(err, cause) || advice.CodeOf(err) != advice.CodeCommandLine {
			t.Errorf("%v has lost its cause or its type", err)
		}
	}
}
