package javaname

import "strings"

// withArgument are the options of the java command that take the next word, other than the
// class path (java(1), JDK 17 to 25).
var withArgument = map[string]bool{
	"-p": true, "--module-path": true, "--upgrade-module-path": true, "--add-modules": true, "--enable-native-access": true,
	"--add-reads": true, "--add-exports": true, "--add-opens": true, "--limit-modules": true, "--patch-module": true, "-d": true, "--describe-module": true,
}

// Program returns the main class, archive or module of a java command line, and its class path.
func Program(commandLine []string) (main string, classPath []string) {
	for i := 1; i < len(commandLine); i++ {
		arg, next := commandLine[i], ""
		if i+1 < len(commandLine) {
			next = commandLine[i+1]
		}
		switch {
		case arg == "-jar":
			return next, []string{next}
		case arg == "-m" || arg == "--module":
			return next, classPath
		case arg == "-cp" || arg == "-classpath" || arg == "--class-path":
			classPath = strings.Split(next, ":")
			i++
		case withArgument[arg]:
			i++
		case strings.HasPrefix(arg, "--class-path="):
			classPath = strings.Split(strings.TrimPrefix(arg, "--class-path="), ":")
		case !strings.HasPrefix(arg, "-") && !strings.HasPrefix(arg, "@"):
			return arg, classPath
		}
	}
	return "", classPath
}
