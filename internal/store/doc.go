// Package store keeps profiles that outlive the run. It works like this:
//
//  1. The owner of a map, such as the daemon, begins a [Stream], and appends the gains of the map every few seconds
//     ([Store.Append]): one write and one sync for all maps.
//  2. When a period ends, [Store.File] writes all that was counted to an immutable file. The frames of the period in
//     the log count no more.
//  3. The next process opens the store, and gets what is in the log and in no file ([Store.Recovered]).
//  4. The best file of a build has a second name, which [Store.Retain] leaves alone. Old periods merge into hours
//     and days ([Store.Compact]).
//  5. What a compiler has made of methods is appended to a file of its own ([Store.AppendRecords]).
//  6. What a hub is to get waits in an [Outbox] until it is acknowledged.
//  7. A [Reader] lists and reads files and the log, while any process writes to them.
//
// A store is a directory:
//
//	lock                                              flock(2) of the writer, with its pid
//	format                                            version of the layout
//	log/<n>-<salt>.seg                                frames that are in no file yet: package deltalog
//	targets/NAME/BUILD/EVENT/FROM-TO.json.zst         a period; FROM-TO.hour.json.zst an hour, FROM-TO.day.json.zst a day
//	targets/NAME/BUILD/EVENT/best.json.zst            a second name of one of these, or the last one
//	targets/NAME/BUILD/EVENT/fleet.json.zst           what a hub knew of the build before it was sampled here
//	targets/NAME/BUILD/EVENT/phase-N.json.zst         the same, of a phase
//	targets/NAME/BUILD/EVENT/FROM.moments             when samples were counted: package moments. Nothing depends on it
//	targets/NAME/BUILD/records.log                    compile records: package compilation
//	targets/NAME/BUILD/fleet.fanin                    what a hub knows of the fan-in of a build: a line of JSON, package fanin
//	index                                             qualities of files: a cache
//	merging                                           a merge of files that was not ended
//	hub/                                              what a hub is to get: see Outbox
//
// .u<uid>g<gid> before .json.zst says that the processes of this user and group have counted the profile, and that
// the kernel lets the user trace them. All other files are for masters alone.
//
// # Nothing is lost, nothing counts twice
//
// A frame is a whole map of all counts since the last one: it needs no other frame, so one damaged frame is one frame
// lost. Before a file is written the log says which frames it will have. The file appears by a rename. From then on
// the frames are void, whether the log could be told or not; without the file they count. A merge of files is
// announced in the same way, by a file.
package store
