package javaname

import "strings"

// withArgument are the options of the java command that take the next word, other than the
// paths of classes and modules (java(1), JDK 17 to 25).
var withArgument = map[string]bool{
	"--upgrade-module-path": true, "--add-modules": true, "--enable-native-access": true,
	"--add-reads": true, "--add-exports": true, "--add-opens": true, "--limit-modules": true, "--patch-module": true, "-d": true, "--describe-module": true,
}

// Program returns the main class, archive or module of a java command line, and its class path with the path of
// modules.
func Program(commandLine []string) (main string, classPath []string) {
	var modules []string
	defer func() { classPath = append(classPath, modules...) }()
	for i := 1; i < len(commandLine); i++ {
		arg, next := commandLine[i], ""
		if i+1 < len(commandLine) {
			next = commandLine[i+1]
		}
		switch {
		case arg == "-jar":
			return next, []string{next} // it excludes all other paths but that of modules
		case arg == "-m" || arg == "--module":
			return next, classPath
		case arg == "-cp" || arg == "-classpath" || arg == "--class-path":
			classPath = strings.Split(next, ":")
			i++
		case arg == "-p" || arg == "--module-path":
			modules = strings.Split(next, ":")
			i++
		case withArgument[arg]:
			i++
		case strings.HasPrefix(arg, "--class-path="):
			classPath = strings.Split(strings.TrimPrefix(arg, "--class-path="), ":")
		case strings.HasPrefix(arg, "--module-path="):
			modules = strings.Split(strings.TrimPrefix(arg, "--module-path="), ":")
		case !strings.HasPrefix(arg, "-") && !strings.HasPrefix(arg, "@"):
			return arg, classPath
		}
	}
	return "", classPath
}
