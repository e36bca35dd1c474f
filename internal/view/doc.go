// Package view shows profiles: the hot methods, their contexts and receivers, and how
// profiles differ. Commands, an HTTP service and a browser share it. It is internal, as nobody else used its 139 names,
// a seventh of those that the module exported; programs get the same answers as JSON, by the routes of daemon/api.
//
//  1. [New] makes a [Profile] of a snapshot: it adds the measure of hot code, CPU time or
//     else samples. [Profile.RecentOnly] is its window of recent samples.
//  2. [NewTop], [NewContexts], [NewSites], [NewReceivers], [NewPoints] and [NewQuery]
//     find, order and cut the rows of one profile; [NewOverlap] and [NewDiff] compare
//     several. A [List] selects and orders the rows, and says how many.
//  3. The rows are there for programs: [Top].Rows, [Sites].Rows and the others.
//  4. Each list is a [View]: Text prints it as lines and tables that fit the terminal;
//     JSON returns the value of its documented JSON.
//  5. [Questions] has all of these as a table: each [Question] with its parameters, their defaults,
//     ranges and help, and the function that answers it. A command has a flag for each parameter, the
//     daemon a parameter of a URL. Whoever asks gets the profiles.
//
// Each list declares a [Column] once, with the function that reads it from a row: text, JSON
// and the schema come from that. A [Layout] lists the orders and the columns of a view.
// JSON has the exact figures, text has them rounded for people.
//
// Text begins with a line about the samples. It ends with a sentence that says how far to trust the
// figures. It names no flags or commands of a program: [Profile].Hints has advice. Only the help
// of a [Question] does, which is the help of a command.
//
// All text is safe to print: names in a profile are foreign, and characters in them that
// are not visible are replaced. JSON keeps them; its writer must escape them.
//
// Any goroutine may make views of one profile, once nothing changes the profile:
// [Profile.UsePhase], the parameter phase of a [Question] and
// [Profile.TakeCaution] do. They must be called before, or under a lock that views take, too.
package view
