package classes

import (
	"strings"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/jvm/javaname"
)

// FullName returns the name with the class's, such as java.util.HashMap.get.
func (m *Method) FullName() string { return m.Class.Name + "." + m.Name }

// Map returns the method as maps have it.
func (m *Method) Map() ccmap.Method {
	method := javaname.Parts{
		Class: m.Class.internal, Name: m.Name, Descriptor: m.Descriptor, SourceFile: m.Source,
		Loader: m.Class.Loader, Static: m.Static,
	}.Method()
	method.StartLine = int32(m.Line(0))
	return method
}

// isMade reports whether the JVM or a library has made the class at run time, with a name that differs from run to run.
func (c *Class) isMade() bool {
	return strings.ReplaceAll(c.internal, "/", ".") != javaname.Class(c.internal)
}

// javaName returns a class name of the JVM in Java's form: "java/util/Map$Entry" is
// java.util.Map$Entry, and "[[I" is int[][].
func javaName(internal string) string {
	element := strings.TrimLeft(internal, "[")
	dimensions := len(internal) - len(element)
	if dimensions > 0 {
		element = elementName(element)
	}
	return javaname.Class(element) + strings.Repeat("[]", min(dimensions, maxDimensions))
}

// maxDimensions of an array (JVMS 4.4.1).
const maxDimensions = 255

// elementName returns the type of an array's elements.
func elementName(descriptor string) string {
	if name, isClass := strings.CutPrefix(descriptor, "L"); isClass {
		return strings.TrimSuffix(name, ";")
	}
	if name, isPrimitive := primitives[descriptor]; isPrimitive {
		return name
	}
	return descriptor
}

var primitives = map[string]string{
	"Z": "boolean", "B": "byte", "C": "char", "S": "short", "I": "int", "J": "long", "F": "float", "D": "double",
}

// loaderName returns the name of a class loader out of the JVM's "app",
// "'name' @1b2c3d" or "org.example.Loader @1b2c3d". The number differs from run to run.
func loaderName(nameAndID string) string {
	name := nameAndID
	if at := strings.LastIndex(name, " @"); at >= 0 {
		name = name[:at]
	}
	if len(name) >= 2 && name[0] == '\'' && name[len(name)-1] == '\'' {
		name = name[1 : len(name)-1]
	}
	switch name {
	case "bootstrap", "platform", "app":
		return ""
	}
	return name
}
