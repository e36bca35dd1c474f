// Package classpath tells builds of Java programs apart, which have no build id, by what their class path has:
//
//  1. An archive counts by the names, lengths and checksums of its files, as its own directory lists them. Where it
//     lies and when it was written do not count: so a copy, and an archive that was built again to the same content,
//     are the same build.
//  2. A folder counts by the path and content of each class file below it.
//  3. Another file, for example a source file that java compiles itself, counts by its content.
//  4. A file that may not be read, or that is too much, counts by its path, length and time.
//  5. What was changed after the JVM began may not be what the JVM has loaded. Such a build is of this process alone.
//
// The first archive is read through the JVM's own descriptor. So one that was replaced since counts as it was. The path
// of modules counts as the class path does. What the program's own class loaders read does not count.
//
// The target chooses all paths. They are opened below its root, and only regular files and folders are read: the one
// that the JVM has open, those that all users may get to and read, and all of a target of this user's own. All of a
// class path together draws from one budget.
package classpath
