package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/cmd/internal/usage"
	"github.com/ccmapd/ccmapd/daemon/client"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/queue"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/engine"
)

// diagnoseRemote asks a daemon, or tries a program that serves its own profiles.
func diagnoseRemote(cmd *cobra.Command, where string, server serverFlags) (engine.Report, error) {
	d, rest, ok := client.ParseDaemon(where)
	if !ok {
		return diagnoseURL(cmd.Context(), where, server), nil
	}
	for _, name := range serverFlagNames {
		if cmd.Flags().Changed(name) {
			return engine.Report{}, usage.Errorf("--%s is for a pprof endpoint, not for a daemon", name)
		}
	}
	pid, err := strconv.ParseUint("0"+strings.TrimPrefix(rest, "pid="), 10, 31)
	if err != nil {
		return engine.Report{}, usage.Errorf("%s names no process: doctor takes a process id after the daemon, as 'ccmapd targets' lists them, or nothing for the daemon itself", client.Name(where))
	}
	var r engine.Report
	err = d.Doctor(cmd.Context(), int(pid), &r)
	return r, err
}

// Checks of an endpoint.
const (
	checkEndpoint = "endpoint"
	checkProfile  = "profile"
	checkLacks    = "lacks"
)

// taker is a source that can take one profile.
type taker interface {
	Take(context.Context) (*ccmap.Map, error)
}

// diagnoseURL tries to take one profile from a program that serves them: of a second by pprof, and of all that
// its sessions have counted from one that hosts VMs.
func diagnoseURL(ctx context.Context, address string, server serverFlags) engine.Report {
	r := engine.Report{Engines: []engine.Diagnosis{{Engine: engine.PProfHTTP, Features: []string{}}}}
	d := &r.Engines[0]
	choice, err := openServed(ctx, address, server, engine.HTTPOptions{Seconds: 1, Sink: sampler.Sink{Queue: queue.New(queue.Options{}), Names: ccmap.NewNames()}})
	s := choice.Source
	r.Checks = append(r.Checks, endpointCheck(s, err))
	if err == nil {
		defer s.Close()
		d.Engine = s.Info().Engine
		var m *ccmap.Map
		m, err = s.(taker).Take(ctx)
		r.Checks = append(r.Checks, profileCheck(s, m, err), engine.Check{Name: checkLacks, OK: true, Found: "of such a program " + s.Info().Lacks})
	}
	if err != nil {
		d.Err, d.Reason, d.Cure = err, err.Error(), r.Checks[min(len(r.Checks)-1, 1)].Cure
		r.Refuse(err)
		if errors.Is(err, sampler.ErrUnsupported) {
			r.Code = engine.CodeNoTarget // it serves no profiles
		}
		return r
	}
	r.Auto, d.Permitted, d.Samples = d.Engine, true, s.Stats().Counts[sampler.Samples]
	return r
}

// endpointCheck says whether the server answers.
func endpointCheck(s engine.Source, err error) engine.Check {
	c := engine.Check{
		Name: checkEndpoint, OK: err == nil, Wanted: "a server of net/http/pprof or of api.Handler, and the credentials that it asks for",
		Cure: "ccmapd doctor URL --bearer-file FILE",
	}
	switch {
	case err == nil:
		c.Found, c.Cure, c.Wanted = "the server tells no command line", "", ""
		if target := s.Info().Target; target.Executable != "" {
			c.Found = "the server is " + strings.Join(target.CommandLine, " ")
		}
		return c
	case errors.Is(err, sampler.ErrPermission):
	case errors.Is(err, sampler.ErrNoProcess):
		c.Cure = "curl -sS URL/cmdline"
	case errors.As(err, new(*tls.CertificateVerificationError)):
		c.Cure = "ccmapd doctor URL --ca-file FILE"
	default:
		c.Cure = ""
	}
	c.Found = err.Error()
	return c
}

// profileCheck says whether the server serves profiles.
func profileCheck(s engine.Source, m *ccmap.Map, err error) engine.Check {
	if err != nil {
		return engine.Check{Name: checkProfile, Found: err.Error(), Wanted: "profiles of CPU time, of a second and longer", Cure: "curl -sS -o cpu.pb.gz 'URL/profile?seconds=1'"}
	}
	target, found := s.Info().Target, figure.Plural(m.Snapshot().Total().Samples, "sample")
	if s.Info().Engine == engine.PProfHTTP {
		found += " in a second"
	} else {
		found += " since the start"
	}
	if every := s.Stats().Interval; every > 0 {
		found += fmt.Sprintf(", every %v of CPU time", every.Round(time.Microsecond))
	}
	if target.BuildID != "" {
		found += ", build id " + target.BuildID
	}
	return engine.Check{Name: checkProfile, OK: true, Found: found}
}
