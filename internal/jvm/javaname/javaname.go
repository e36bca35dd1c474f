// Package javaname makes methods of the map out of what a JVM calls its classes and methods.
// All sources of Java stacks use it, so that a method has the same name whether it was read
// out of a JVM's memory or out of a recording, and in every run:
//
//	the VM                                       the map
//	java/util/HashMap, get                       java.util.HashMap.get
//	Main$$Lambda$45+0x00007f861c06f1c8, run      Main$$Lambda.run
//	jdk/proxy2/$Proxy17, equals                  jdk.proxy.$Proxy.equals
//
// A class that the VM spins at run time has a number or an address in its name, which differs
// from one run to the next. [Class] cuts it off: such classes become one.
//
// Any goroutine may call any function.
package javaname

import (
	"strings"
	"unicode/utf8"

	"github.com/ccmapd/ccmapd/ccmap"
)

// Parts are what a VM knows of a method. Only Class and Name must be there.
type Parts struct {
	Class      string // as in class files, "java/util/Map$Entry", or with dots
	Name       string // "get", "<init>"
	Descriptor string // "(Ljava/lang/Object;)I"; empty where unknown
	SourceFile string // the class's attribute, "HashMap.java"; empty where unknown
	Loader     string // name of the class loader; empty where it has none
	Static     bool
}

// Method returns the map's method. Its offsets are bytecode indices.
func (p Parts) Method() ccmap.Method {
	class := Class(p.Class)
	m := ccmap.Method{
		Name:       class + "." + p.Name,
		Signature:  p.Descriptor,
		File:       file(class, p.SourceFile),
		Coordinate: ccmap.CoordinateBytecode,
		Module:     module(p.Loader),
	}
	if !p.Static {
		m.Receiver = class
	}
	return m
}

// Class returns the name of a class with dots, without the parts that differ from run to
// run.
func Class(name string) string {
	for shorter := cutAddress(name); shorter != name; shorter = cutAddress(name) {
		name = shorter
	}
	name = strings.ReplaceAll(name, "/", ".")
	name = cutNumber(name)
	if rest, found := strings.CutPrefix(name, dynamicProxies); found {
		if number, class, found := strings.Cut(rest, "."); found && isDigits(number) {
			name = dynamicProxies + "." + class
		}
	}
	return name
}

// dynamicProxies begins the package of proxies of a class loader. Loaders are numbered as
// they come (java.lang.reflect.Proxy, JDK 16 and later).
const dynamicProxies = "jdk.proxy"

// cutAddress cuts the address of a hidden class, which follows its name: "+0x…" inside the
// VM, "/0x…" in Java and ".0x…" for tools (JVMTI); before JDK 15, and in recordings of 17, a
// decimal number after a slash.
func cutAddress(name string) string {
	at := strings.LastIndexAny(name, "+/.")
	if at <= 0 {
		return name
	}
	hex, marked := strings.CutPrefix(name[at+1:], "0x")
	if marked && isHex(hex) || isDigits(hex) && name[at] == '/' {
		return name[:at]
	}
	return name
}

// numbered are the ends of names that a number follows: lambdas before JDK 21, accessors of
// reflection before JDK 18, and proxies.
var numbered = []string{"$$Lambda$", "$$Lambda", "Accessor", "$Proxy"}

// hashed are marks of generated classes that a hash or a random text follows.
var hashed = []string{"ByCGLIB$$", "BySpringCGLIB$$", "ByGuice$$", "$ByteBuddy$", "$HibernateProxy$", "$MockitoMock$"}

// eventHandler begins the names of classes that JDK 17 spins for its own events. The rest is
// a number, a time and a pid.
const eventHandler = "jdk.jfr.internal.handlers.EventHandler"

func cutNumber(name string) string {
	if strings.HasPrefix(name, eventHandler) {
		return eventHandler
	}
	stem := strings.TrimRight(name, "0123456789")
	for _, end := range numbered {
		if strings.HasSuffix(stem, end) {
			return strings.TrimSuffix(stem, "$")
		}
	}
	for _, mark := range hashed {
		if at := strings.LastIndex(name, mark); at >= 0 && isWord(name[at+len(mark):]) {
			return name[:at] + strings.TrimRight(mark, "$")
		}
	}
	return name
}

func isDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
func isHex(s string) bool    { return s != "" && strings.Trim(s, "0123456789abcdefABCDEF") == "" }

func isWord(s string) bool {
	return !strings.ContainsAny(s, "$.") && s != ""
}

// file returns the path of a source file below the root of its sources. A class whose
// compiler left the name out is taken to be in the file of its outermost class.
func file(class, source string) string {
	pack, name := "", class
	if at := strings.LastIndexByte(class, '.'); at >= 0 {
		pack, name = strings.ReplaceAll(class[:at+1], ".", "/"), class[at+1:]
	}
	if source != "" {
		return pack + source
	}
	if outer := strings.IndexByte(name, '$'); outer > 0 {
		name = name[:outer]
	}
	return pack + name + ".java"
}

// module returns the name of a class loader, unless it is one of the VM's own.
func module(loader string) string {
	switch loader {
	case "bootstrap", "boot", "platform", "app", "null":
		return ""
	}
	return loader
}

// Text decodes the modified UTF-8 of class files (JVM specification 4.4.7): NUL has two bytes,
// and a character beyond U+FFFF is a pair of surrogates of three bytes each. Bytes that are
// neither that nor UTF-8 stay as they are.
func Text(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	var text strings.Builder
	for len(b) > 0 {
		r, size := modifiedRune(b)
		if size == 0 {
			text.WriteByte(b[0])
			b = b[1:]
			continue
		}
		text.WriteRune(r)
		b = b[size:]
	}
	return text.String()
}

// modifiedRune decodes the first character. Its size is 0 where there is none.
func modifiedRune(b []byte) (r rune, size int) {
	if r, size := utf8.DecodeRune(b); r != utf8.RuneError || size > 1 {
		return r, size
	}
	if len(b) >= 2 && b[0] == 0xc0 && b[1] == 0x80 {
		return 0, 2
	}
	high, low := surrogate(b), rune(0)
	if len(b) > 3 {
		low = surrogate(b[3:])
	}
	if high >= 0xd800 && high < 0xdc00 && low >= 0xdc00 {
		return 0x10000 + (high-0xd800)<<10 + (low - 0xdc00), 6
	}
	return 0, 0
}

// surrogate decodes half a pair of surrogates, three bytes; 0 if they are none.
func surrogate(b []byte) rune {
	if len(b) < 3 || b[0] != 0xed || b[1]&0xe0 != 0xa0 || b[2]&0xc0 != 0x80 {
		return 0
	}
	return 0xd000 | rune(b[1]&0x3f)<<6 | rune(b[2]&0x3f)
}
