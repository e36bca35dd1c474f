package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"sort"
	"syscall"
	"time"

	"github.com/ccmapd/ccmapd/scripts/campaign"
)

// A program's speed is in requests a second of its CPU time: so other work on the machine changes it little. It is at
// its peak when the half second of CPU time before was as fast as 95 % of its late speed, which is the one of the last
// quarter of its CPU time.
const (
	speedWindow = 500 * time.Millisecond
	peakShare   = 0.95
	latePart    = 0.25
)

// warmup has what a program had done, at times.
type warmup struct {
	began  time.Time
	points []progress // their CPU times rise
}

// progress is what was done up to a moment.
type progress struct {
	wall, cpu time.Duration // since the start; of the process
	done      int64
}

var errNoProgress = errors.New("the program has ended, or nothing was done")

// read reads the counts of the program that ccmapd has started, and ends it after so much CPU time. It reads all
// output, also of a program that does not start: started is closed then.
func (w *warmup) read(out io.Reader, started <-chan *campaign.Process, total time.Duration) error {
	var ccmapd *campaign.Process
	program, told := 0, false
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var done, nano int64
		if n, _ := fmt.Sscanf(lines.Text(), "done %d %d", &done, &nano); n != 2 || told {
			continue
		}
		if ccmapd == nil {
			if ccmapd = <-started; ccmapd == nil {
				continue
			}
		}
		if program == 0 {
			children := ccmapd.Children()
			if len(children) == 0 {
				return errNoProgress
			}
			program = children[0]
		}
		used, err := campaign.CPUOf(program)
		if err != nil {
			return err
		}
		w.add(progress{time.Since(w.began), used, done})
		if told = used >= total; told {
			if err := ccmapd.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
				return err
			}
		}
	}
	if !told || w.last().done == 0 {
		return errors.Join(errNoProgress, lines.Err())
	}
	return lines.Err()
}

func (w *warmup) add(p progress) {
	if len(w.points) == 0 || p.cpu > w.last().cpu {
		w.points = append(w.points, p)
	}
}

func (w *warmup) last() progress {
	if len(w.points) == 0 {
		return progress{}
	}
	return w.points[len(w.points)-1]
}

// at returns the last point up to a CPU time; before the first one nothing was done.
func (w *warmup) at(cpu time.Duration) progress {
	i := sort.Search(len(w.points), func(i int) bool { return w.points[i].cpu > cpu })
	if i == 0 {
		return progress{}
	}
	return w.points[i-1]
}

// speed returns the requests a second of CPU time between two points.
func speed(from, to progress) float64 {
	return float64(to.done-from.done) / (to.cpu - from.cpu).Seconds()
}

// start returns what the points tell.
func (w *warmup) start() start {
	last := w.last()
	late := speed(w.at(last.cpu-time.Duration(latePart*float64(last.cpu))), last)
	peak := last
	for _, p := range w.points {
		if before := w.at(p.cpu - speedWindow); p.cpu >= speedWindow && speed(before, p) >= peakShare*late {
			peak = p
			break
		}
	}
	half := w.at(last.cpu / 2)
	return start{
		Peak: peak.wall.Seconds(), PeakCPU: peak.cpu.Seconds(),
		RequestCPU: 1000 * half.cpu.Seconds() / float64(max(half.done, 1)), Late: late,
	}
}
