// Package docs holds the pages of the documentation. Its tests keep them true: every
// command in a block of output is run again, and every link must lead somewhere.
package docs

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"github.com/ccmapd/ccmapd/internal/perfevent"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"

	"github.com/ccmapd/ccmapd/internal/programtest"
	"github.com/ccmapd/ccmapd/internal/testrun"
)

var update = flag.Bool("update", false, "write the output of the commands into the pages")

// burning is the variable by which the test binary becomes the target of TestLive.
const burning = "CCMAPD_DOCS_BURN"

func TestMain(m *testing.M) {
	tests := testrun.Guard(m)
	if os.Getenv(burning) != "" {
		for numbers := make([]int, 1000); ; {
			for i := range numbers {
				numbers[i] = i * 7919 % 1000
			}
			sort.Sort(sort.Reverse(sort.IntSlice(numbers)))
		}
	}
	code := tests.Run()
	os.RemoveAll(ccmapd.dir)
	os.Exit(code)
}

// pages returns all pages of the repository, relative to this folder.
func pages(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"../*.md", "*.md", "*/*.md", "../testdata/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, found...)
	}
	return all
}

// TestOutputs runs the commands of every block that begins with a command on profiles,
// in a folder with the profiles of session/, and compares what they print with the page.
// A last line "…" stands for the rest of a command's output. To write the outputs anew:
//
//	go test ./docs -run TestOutputs -update
func TestOutputs(t *testing.T) {
	t.Parallel()
	bin := filepath.Dir(built(t))
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		work := t.TempDir()
		copySession(t, work)
		changed := blocks.ReplaceAllStringFunc(string(text), func(block string) string {
			again := "```text\n" + rerun(t, bin, work, strings.TrimSuffix(strings.TrimPrefix(block, "```text\n"), "```")) + "```"
			if again != block && !*update {
				t.Errorf("%s: commands now print:\n%s", page, again)
			}
			return again
		})
		if *update && changed != string(text) {
			if err := os.WriteFile(page, []byte(changed), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// blocks matches blocks of commands on profiles.
var blocks = regexp.MustCompile("(?m)^```text\n\\$ ccmapd (?:top|contexts|sites|receivers|points|query|overlap|diff|convert|merge) (?:.*\n)*?```")

// rerun runs the commands of a block and returns the block with the present output.
func rerun(t *testing.T, bin, work, block string) string {
	t.Helper()
	var again strings.Builder
	for _, part := range strings.SplitAfter("\n"+block, "\n$ ")[1:] {
		command, old, _ := strings.Cut(strings.TrimSuffix(part, "$ "), "\n")
		out := strings.Join(output(t, bin, work, command), "\n") + "\n"
		if rest, cut := strings.CutSuffix(old, "…\n"); cut && !strings.HasSuffix(rest, " ") {
			lines := strings.SplitAfter(out, "\n")
			out = strings.Join(lines[:min(strings.Count(rest, "\n"), len(lines))], "") + "…\n"
		}
		fmt.Fprintf(&again, "$ %s\n%s", command, out)
	}
	return again.String()
}

// output runs a command as a shell does and returns its lines, without spaces at their
// ends.
func output(t *testing.T, bin, work, command string) []string {
	t.Helper()
	out, err := shell(bin, work, command).CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v\n%s", command, err, out)
	}
	return lines(out)
}

// shell returns a command of the shell in a folder, with ccmapd from bin.
func shell(bin, work, command string) *exec.Cmd {
	cmd := exec.Command("sh", "-c", command)
	cmd.Dir = work
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
	return cmd
}

// lines splits an output into lines without spaces at their ends.
func lines(out []byte) []string {
	all := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	for i := range all {
		all[i] = strings.TrimRight(all[i], " ")
	}
	return all
}

// ccmapd is the command, which is built once for all tests.
var ccmapd struct {
	once sync.Once
	dir  string // empty, or where it was built
	path string
	err  error
}

// built returns the path of ccmapd.
func built(t *testing.T) string {
	t.Helper()
	ccmapd.once.Do(func() {
		if ccmapd.dir, ccmapd.err = os.MkdirTemp("", "ccmapd-docs-"); ccmapd.err == nil {
			ccmapd.path, ccmapd.err = programtest.Command("..", ccmapd.dir)
		}
	})
	if ccmapd.err != nil {
		t.Fatal(ccmapd.err)
	}
	return ccmapd.path
}

func copySession(t *testing.T, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS("session")); err != nil {
		t.Fatal(err)
	}
}

// TestLive runs the first command of the session, "attach", on a program of the same
// name. Numbers and methods differ from run to run; every other line of the page must come.
// A target that gets little CPU time is sampled for longer.
func TestLive(t *testing.T) {
	t.Parallel()
	testrun.Full(t, testrun.Minutes)
	testrun.Breakpoints(t, perfevent.Silent())
	work, bin := t.TempDir(), filepath.Dir(built(t))
	target := burn(t, filepath.Join(work, "fortio"))
	text, err := os.ReadFile("getting-started.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?m)^\\$ ccmapd attach [0-9]+ -d 15s (.*)\n((?:.*\n)*?)```").FindStringSubmatch(string(text))
	if block == nil {
		t.Fatal("the page has no attach")
	}
	want := skeleton(strings.Split(block[2], "\n"))
	for _, duration := range []string{"3s", "10s", "30s", "1m"} {
		got := skeleton(attach(t, bin, work, fmt.Sprintf("ccmapd attach %d -d %s %s", target, duration, block[1])))
		missing := firstMissing(got, want)
		if missing == "" {
			return
		}
		t.Logf("%s: attach does not print %q after the lines before it, but:\n%s", duration, missing, strings.Join(got, "\n"))
	}
	t.Error("attach does not print the lines of the page")
}

// notPermitted is the exit code of commands that may not sample.
const notPermitted = 3

// attach returns the lines that a sampling command prints. It skips the test where
// sampling is not permitted, unless the run is a full one.
func attach(t *testing.T, bin, work, command string) []string {
	t.Helper()
	cmd := shell(bin, work, command)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() == notPermitted {
		testrun.Lacks(t, "sampling is not possible: %s", out)
	}
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return lines(out)
}

// firstMissing returns the first line of want that got lacks after the lines before it.
func firstMissing(got, want []string) string {
	for _, line := range want {
		i := slices.Index(got, line)
		if i < 0 {
			return line
		}
		got = got[i+1:]
	}
	return ""
}

// burn starts a program that sorts until the test ends, and returns its process id.
func burn(t *testing.T, path string) int {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Link(self, path); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path)
	cmd.Env = append(os.Environ(), burning+"=1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return cmd.Process.Pid
}

// trust begins the sentence that says how far to trust a profile.
var trust = regexp.MustCompile("^(Enough|Too few) samples to trust ")

var numbers = regexp.MustCompile("[0-9][0-9.,:]*(ns|µs|ms|s|%)?")

// skeleton returns the lines of a report without the rows of its table, each up to its
// first comma or semicolon, with "#" for numbers and single spaces.
func skeleton(report []string) []string {
	var lines []string
	rows := false
	for _, line := range report {
		if rows = rows && line != ""; rows || line == "" {
			continue
		}
		rows = strings.HasPrefix(strings.TrimSpace(line), "flat ")
		line, _, _ = strings.Cut(trust.ReplaceAllString(line, "samples to trust, "), "; ")
		line, _, _ = strings.Cut(line, ", ")
		lines = append(lines, strings.Join(strings.Fields(numbers.ReplaceAllString(line, "#")), " "))
	}
	return lines
}

var (
	links    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	headings = regexp.MustCompile("(?m)^#+ (.*)$")
	dropped  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// TestActions: the commands of workflows have the flags that the pages say.
func TestActions(t *testing.T) {
	t.Parallel()
	step, found := regexp.MustCompile(`(?m)^ *- run: (ccmapd .*)$`), 0
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, command := range step.FindAllStringSubmatch(string(text), -1) {
			found++
			output(t, filepath.Dir(built(t)), t.TempDir(), command[1]+" --help")
		}
	}
	if found == 0 {
		t.Error("no page has a workflow")
	}
}

// TestLinks follows the links of every page within the repository, to files and headings.
func TestLinks(t *testing.T) {
	t.Parallel()
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, link := range links.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(link[1], "://") {
				continue
			}
			file, heading, _ := strings.Cut(link[1], "#")
			if to := filepath.Join(filepath.Dir(page), file); file == "" {
				follow(t, page, page, heading)
			} else {
				follow(t, page, to, heading)
			}
		}
	}
}

// follow fails if a file is missing, or has no such heading.
func follow(t *testing.T, page, to, heading string) {
	t.Helper()
	if _, err := os.Stat(to); err != nil {
		t.Errorf("%s: link to %s: %v", page, to, err)
		return
	}
	if heading == "" {
		return
	}
	text, err := os.ReadFile(to)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range headings.FindAllStringSubmatch(string(text), -1) {
		if anchor(h[1]) == heading {
			return
		}
	}
	t.Errorf("%s: %s has no heading #%s", page, to, heading)
}

// anchor returns what links call a heading.
func anchor(heading string) string {
	return strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
}

// rows matches the rows of the layout table: folder, purpose, imports.
var rows = regexp.MustCompile("(?m)^\\| `([a-z/]+)/` \\| (.*) \\| (.*) \\|$")

// TestLayout holds that each package is in the folder of a row of the layout table, which has the folders that
// it imports. To write the imports anew: go test ./docs -run TestLayout -update
func TestLayout(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	table := rows.FindAllStringSubmatch(string(text), -1)
	imports := make(map[string]map[string]bool) // by folder of a row
	for _, row := range table {
		imports[row[1]] = make(map[string]bool)
		if _, err := os.Stat(filepath.Join("..", row[1])); err != nil {
			t.Errorf("the layout table has a folder too many: %v", err)
		}
	}
	// wing returns the row's folder that a package is in, the deepest of them.
	wing := func(folder string) string {
		for ; imports[folder] == nil; folder = path.Dir(folder) {
			if folder == "." {
				return ""
			}
		}
		return folder
	}
	for folder, imported := range importsOfAll(t) {
		own := wing(folder)
		if own == "" {
			t.Errorf("the layout table lacks %s", folder)
			continue
		}
		for _, other := range imported {
			if w := wing(other); w != own {
				imports[own][w] = true
			}
		}
	}
	changed := rows.ReplaceAllStringFunc(string(text), func(row string) string {
		cells := rows.FindStringSubmatch(row)
		is := strings.Join(slices.Sorted(maps.Keys(imports[cells[1]])), ", ")
		if is = cmp.Or(is, "none"); is == cells[3] || cells[3] == "any" {
			return row
		}
		if !*update {
			t.Errorf("%s imports %s; the table says %s", cells[1], is, cells[3])
		}
		return fmt.Sprintf("| `%s/` | %s | %s |", cells[1], cells[2], is)
	})
	if *update && changed != string(text) {
		if err := os.WriteFile("architecture.md", []byte(changed), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestNewFoldersAreGuarded adds folders to a module with the import rules of this one. Each
// folder imports a package that no rule allows it. The files of all folders are one package, which
// is compiled once: their line directives say where they are, and depguard takes their word.
func TestNewFoldersAreGuarded(t *testing.T) {
	t.Parallel()
	work := t.TempDir()
	write := func(name, text string) {
		name = filepath.Join(work, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	rules, err := os.ReadFile("../.depguard.yaml")
	if err != nil {
		t.Fatal(err)
	}
	write(".depguard.yaml", string(rules))
	write("go.mod", "module github.com/ccmapd/ccmapd\n\ngo 1.26\n")
	write("ccmap/ccmap.go", "package ccmap\n")
	files := 0
	add := func(name string) {
		files++
		write(fmt.Sprintf("users/%d.go", files), "//line "+filepath.Join(work, name)+":1\npackage users\n\nimport _ \"github.com/ccmapd/ccmapd/ccmap\"\n")
	}
	folders := []string{"fresh", "internal/fresh", "daemon/fresh"}
	for _, folder := range folders {
		add(folder + "/fresh.go")
		add(folder + "/fresh_test.go")
	}
	add("queue/queue.go") // may import it
	tool, err := exec.Command("go", "-C", "../scripts", "tool", "-n", "depguard").Output()
	if err != nil {
		t.Fatalf("find depguard: %v", err)
	}
	cmd := exec.Command(strings.TrimSpace(string(tool)), "./...")
	cmd.Dir = work
	out, _ := cmd.CombinedOutput() // it fails
	for _, folder := range folders {
		for _, file := range []string{"/fresh.go:", "/fresh_test.go:"} {
			if !strings.Contains(string(out), filepath.Join(work, folder)+file) {
				t.Errorf("%s%s may import a package of this module", folder, file)
			}
		}
	}
	if strings.Contains(string(out), "queue.go") {
		t.Errorf("queue may not import ccmap:\n%s", out)
	}
}

// importsOfAll returns the imports of this module, for each of its packages, by folder.
func importsOfAll(t *testing.T) map[string][]string {
	t.Helper()
	const module = "github.com/ccmapd/ccmapd/"
	cmd := exec.Command("go", "list", "-f", `{{.ImportPath}}{{range .Imports}} {{.}}{{end}}`, "./...")
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("list packages: %v", err)
	}
	all := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		folder := strings.TrimPrefix(words[0], module)
		all[folder] = nil
		for _, imported := range words[1:] {
			if imported, ours := strings.CutPrefix(imported, module); ours {
				all[folder] = append(all[folder], imported)
			}
		}
	}
	return all
}
