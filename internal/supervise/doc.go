// Package supervise is the life of a process that somebody wants to sample, from the first look to the end. The
// daemon, the families of command run --children and the sampling of a whole host have the same one.
//
// A [Life] is the state of one process. Its user tells it what has happened, and asks when to try next:
//
//	state     event     next state                 what it means
//	Waiting   Try       Opening                    symbols are loaded
//	Refused   Try       Opening
//	Strange   Try       Opening
//	Opening   Succeed   Open                       it is sampled
//	any       Fail      Refused, Strange,          by the error, see [StateOf]: an engine refused, and is asked
//	                    Waiting, Hung or Over      again later, and later each time
//	any       Wait      Waiting                    for a place
//	any       End       Over                       the process has ended, or runs another program
//	Hung      Try       Hung                       it has cost a thread, and is never read again
//	Over      any       Over
//
// A [Gate] opens processes: so many at a time, each held on to meanwhile, and none that may cost another thread. It
// remembers executables that cannot be sampled at all.
//
// Nothing here knows an engine: sampling a whole host is one itself.
package supervise
