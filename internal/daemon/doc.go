// Package daemon keeps the processes of many targets under profile, for months, through their
// restarts. A target is a name and a rule. It works like this:
//
//  1. A scan of /proc finds processes that are new, and looks at them. The first target
//     whose rule fits takes a process. Of a target's processes the oldest are sampled, up
//     to its max; the others wait for their place.
//  2. A follower attaches to one process, by the best engine that is permitted, and runs a
//     session of package manager. It makes sure that the number is still the process that
//     was found. An attempt that is refused is made again later, and later each time. While a process's
//     own profiles are taken, because nothing else is permitted, better engines are tried now and then.
//     A target can be an endpoint, too: a program that serves its own profiles, or the maps of VMs that
//     it hosts. Its follower asks for them as long as the target exists. One target can be the whole host: its
//     follower has no process, and its session samples all of them by engine bpf, also
//     those that other targets have.
//  3. A slot has the map of one replica of a target: of processes with the same build and
//     owner, one after the other. When a process has ended, the slot waits for the next.
//     The first process of another build ends the slots of the old one.
//  4. At the end of a period, of a process and of the daemon, all that was counted since the last
//     period goes to a file. A period that cannot be written becomes part of the next.
//  5. Each second the budgets are kept: the sessions that cost most get longer intervals, and
//     the largest maps are pruned.
//  6. Readers get merged snapshots of a target's slots, the state of all targets, and
//     events.
//
// A new configuration is checked as a whole before any of it takes effect. Targets that it
// leaves as they are go on undisturbed.
//
// Each part has a lock of its own, where it has one, and none reaches into another. They are, from above:
//
//	Daemon     once a second: scan, budgets, events, periods; requests
//	roster     all targets, in the order of the configuration; gives processes to them
//	target     a name and a rule; owns its followers
//	follower   one process: attach, sample, wait (its state is a [supervise.Life])
//	session    one session of a follower ([recording.Recording])
//	shelf      the slots of a target, each with a map; followers take slots, readers read them
//	tally      the counters of a target, and why its last process has ended
//	discovery  looks for processes, and identifies their executables
//	periods    files what targets count, and removes old files
//	sender     sends what is filed to the hub of the fleet
//	learner    gets what the hub knows of builds that are new here
//	gleaner    keeps what the hub knows of the fan-in of programs
//	budgets    CPU time and memory
//	means      what all of them sample with: engines, the [supervise.Gate], logs, events
//
// Locks are taken from above: a roster's before a target's, a target's before a tally's or a shelf's.
//
// Nothing here knows HTTP. Package api answers requests from a [Daemon].
package daemon
