package jfr

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler"
)

// Times of the conversation with the JVM. A recording starts as interpreted Java, on one
// thread.
const (
	commandTime = 5 * time.Second
	startTime   = 30 * time.Second
	leaseTime   = 60 * time.Second
	renewTime   = 45 * time.Second
	retryTime   = 5 * time.Second // after a renewal that failed
)

// jvm takes diagnostic commands.
type jvm interface {
	Jcmd(ctx context.Context, timeout time.Duration, line string) (string, error)
}

// control is the conversation with the JVM about our recording. Open uses it, then the
// goroutine of run.
type control struct {
	jvm      jvm
	settings string    // of events
	prefix   string    // of the names of our recordings
	number   int       // of recordings so far
	name     string    // of the recording in force; empty: none
	renewed  time.Time // when its lease began
	ended    time.Time // when the last recording was about to be stopped
	changer  changer
}

// changer is for recordings whose interval can be changed. The zero value changes nothing.
type changer struct {
	interval time.Duration                      // in force
	wanted   time.Duration                      // the last wish
	last     time.Time                          // when the interval was changed
	wishes   <-chan time.Duration               // for other intervals
	settings func(time.Duration) string         // of a recording at an interval
	made     func(interval, took time.Duration) // a change
}

// A new recording makes the JVM begin two chunks, each with all its constants.
const (
	changesApart = 5 * time.Second
	leastChange  = 1.5 // as a factor
)

// isWorth reports whether the interval that is wanted differs enough from the one in force.
func (c *changer) isWorth() bool {
	a, b := float64(c.wanted), float64(c.interval)
	return max(a, b) >= leastChange*min(a, b)
}

func newControl(j jvm, settings string) *control {
	return &control{
		jvm: j, settings: settings,
		prefix: fmt.Sprintf("%s%d-%d-%d", namePrefix, os.Getpid(), process.OwnNamespace(), time.Now().UnixNano()),
	}
}

// namePrefix begins the names of our recordings. The pid of their ccmapd follows, and the
// namespace where it is one.
const namePrefix = "ccmapd-"

func wholeMilliseconds(d time.Duration) time.Duration {
	return max(d.Round(time.Millisecond), time.Millisecond)
}

// startFirst starts the first recording.
func (c *control) startFirst(ctx context.Context) error {
	if err := c.clean(ctx); err != nil {
		return err
	}
	// The depth is fixed once JFR runs. Its answer does not say so; stacks do.
	if _, err := c.jvm.Jcmd(ctx, startTime, "JFR.configure stackdepth="+strconv.Itoa(stackDepth)); err != nil {
		return fmt.Errorf("configure the recorder: %w", explain(err))
	}
	return c.start(ctx)
}

// stackDepth is the most that JFR takes.
const stackDepth = 2048

// Times of a JVM that starts. It takes commands before it knows its recorder's.
const (
	youth      = 10 * time.Second // from its start
	leastYouth = 2 * time.Second  // from the first command, as a shell may have become the JVM late
)

// youngJVM is a JVM that may not know all commands yet.
type youngJVM struct {
	jvm
	grown time.Time // when it knows them
}

func newYoungJVM(j jvm, pid int) youngJVM {
	y := youngJVM{j, time.Now().Add(leastYouth)}
	if stat, err := process.ReadStat(pid); err == nil {
		begin, err := process.Facts{Started: stat.Started}.Begin()
		if grown := begin.Add(youth); err == nil && grown.After(y.grown) {
			y.grown = grown
		}
	}
	return y
}

// Jcmd sends a command, and sends it again while the JVM is young and does not know it.
func (y youngJVM) Jcmd(ctx context.Context, timeout time.Duration, line string) (string, error) {
	for {
		answer, err := y.jvm.Jcmd(ctx, timeout, line)
		if !isUnknown(err) || time.Now().After(y.grown) {
			return answer, err
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(pollTime):
		}
	}
}

// isUnknown reports whether the JVM does not know a command.
func isUnknown(err error) bool {
	return err != nil && strings.Contains(err.Error(), "Unknown diagnostic command")
}

// explain says that a JVM without the recorder's commands is not supported.
func explain(err error) error {
	if isUnknown(err) {
		return fmt.Errorf("%w: the JVM has no Flight Recorder: %w", sampler.ErrUnsupported, err)
	}
	return err
}

// ours finds names of our recordings in the JVM's list.
var ours = regexp.MustCompile(`\bname=` + namePrefix + `([0-9]{1,10})-([0-9]{1,20})-[0-9-]{1,40}\b`)

// clean stops recordings whose ccmapd is gone. Those of other namespaces end by themselves.
func (c *control) clean(ctx context.Context) error {
	list, err := c.jvm.Jcmd(ctx, startTime, "JFR.check")
	if err != nil {
		return fmt.Errorf("list recordings: %w", explain(err))
	}
	for _, found := range ours.FindAllStringSubmatch(list, -1) {
		pid, _ := strconv.Atoi(found[1])
		if found[2] != strconv.FormatUint(process.OwnNamespace(), 10) || process.RunsThisProgram(pid) {
			continue
		}
		name := strings.TrimPrefix(found[0], "name=")
		if _, err := c.jvm.Jcmd(ctx, commandTime, "JFR.stop name="+name); err != nil {
			return fmt.Errorf("stop a recording of an earlier ccmapd: %w", err)
		}
	}
	return nil
}

// start starts a recording, which the JVM stops by itself when the lease is over. It writes no
// file: without a file name some versions write one.
func (c *control) start(ctx context.Context) error {
	c.number++
	name := c.prefix + "-" + strconv.Itoa(c.number)
	line := fmt.Sprintf("JFR.start name=%s settings=none disk=true maxsize=13m duration=%ds filename=/dev/null %s",
		name, int(leaseTime.Seconds()), c.settings)
	answer, err := c.jvm.Jcmd(ctx, startTime, line)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrStart, explain(err))
	}
	if !strings.Contains(answer, "Started recording") { // and yet the status is 0
		return fmt.Errorf("%w: the JVM says %q", ErrStart, clip(strings.TrimSpace(answer)))
	}
	c.name, c.renewed = name, time.Now()
	return nil
}

// run renews the lease, changes the interval, and stops the recording when the context is done.
// catchUp reads all chunks up to the one that the JVM writes. run returns an error if it could not
// renew the lease.
func (c *control) run(ctx context.Context, catchUp func()) error {
	renew, change := time.NewTimer(renewTime), time.NewTimer(renewTime)
	change.Stop()
	defer renew.Stop()
	defer change.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			catchUp() // the JVM removes the chunks of a recording that has ended
			return c.end()
		case c.changer.wanted = <-c.changer.wishes:
			if change.Stop(); c.changer.isWorth() {
				change.Reset(time.Until(c.changer.last.Add(changesApart)))
			}
			continue
		case <-change.C:
			err = c.change(ctx, catchUp)
		case <-renew.C:
			err = c.renew(ctx, catchUp)
		}
		switch {
		case ctx.Err() != nil || err == nil:
			renew.Reset(renewTime)
		case time.Since(c.renewed) > leaseTime:
			return err
		default:
			renew.Reset(retryTime)
		}
	}
}

// change renews the lease with a recording at the interval that is wanted.
func (c *control) change(ctx context.Context, catchUp func()) error {
	began, name, settings := time.Now(), c.name, c.settings
	c.settings = c.changer.settings(c.changer.wanted)
	err := c.renew(ctx, catchUp)
	c.changer.last = time.Now()
	if c.name == name { // it was not started
		c.settings = settings
		return err
	}
	c.changer.interval = c.changer.wanted
	c.changer.made(c.changer.interval, time.Since(began))
	return err
}

// renew starts a recording, and stops the one before: in between both record, so no time is
// lost. The JVM removes chunks that the one before alone has kept.
func (c *control) renew(ctx context.Context, catchUp func()) error {
	old := c.name
	if err := c.start(ctx); err != nil {
		return err
	}
	catchUp()
	return c.stop(old)
}

// end stops the recording. A context that is done must not keep it from that.
func (c *control) end() error {
	if c.name == "" {
		return nil
	}
	name := c.name
	c.name, c.ended = "", time.Now()
	return c.stop(name)
}

func (c *control) stop(name string) error {
	if _, err := c.jvm.Jcmd(context.Background(), commandTime, "JFR.stop name="+name); err != nil {
		return fmt.Errorf("stop recording, which ends by itself within %v: %w", leaseTime, err)
	}
	return nil
}
