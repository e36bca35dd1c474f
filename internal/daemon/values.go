package daemon

import (
	"bytes"
	"io"
	"log/slog"

	"github.com/ccmapd/ccmapd/internal/daemon/config"
	"github.com/ccmapd/ccmapd/manager"
)

// valuesOf returns how the value tables of a target's calls work. If they are to be dumped,
// each event of a table is a line of the log.
func valuesOf(s config.Settings, log *slog.Logger) manager.ValueOptions {
	o := manager.ValueOptions{Hash: s.ValueHash, Policy: s.Janitor}
	if s.DumpValues {
		o.Dump = logLines{log}
	}
	return o
}

// logLines writes each line that it is given to a log.
type logLines struct{ log *slog.Logger }

var _ io.Writer = logLines{}

func (l logLines) Write(line []byte) (int, error) {
	l.log.Info("value table", "event", string(bytes.TrimSpace(line)))
	return len(line), nil
}
