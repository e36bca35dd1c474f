package ccmap

import "strings"

// Parameters returns the types that a Java method takes, as Java writes them, without packages:
// "(int, String[])". It returns "" for a method whose Signature is no descriptor of the JVM
// (JVMS 4.3.3).
func (m Method) Parameters() string {
	list, found := strings.CutPrefix(m.Signature, "(")
	list, result, closed := strings.Cut(list, ")")
	if !found || !closed || result == "" || m.Coordinate != CoordinateBytecode {
		return ""
	}
	var types []string
	for list != "" {
		name, rest, ok := cutType(list)
		if !ok {
			return ""
		}
		types, list = append(types, name), rest
	}
	return "(" + strings.Join(types, ", ") + ")"
}

var primitives = map[byte]string{
	'Z': "boolean", 'B': "byte", 'C': "char", 'S': "short", 'I': "int", 'J': "long", 'F': "float", 'D': "double",
}

// cutType takes the first type off a list of types, which is not empty.
func cutType(list string) (name, rest string, ok bool) {
	const mostDimensions = 255 // JVMS 4.4.1
	element := strings.TrimLeft(list, "[")
	dimensions := len(list) - len(element)
	if element == "" || dimensions > mostDimensions {
		return "", "", false
	}
	if name, ok = primitives[element[0]]; ok {
		rest = element[1:]
	} else {
		if name, rest, ok = strings.Cut(element, ";"); !ok || !strings.HasPrefix(name, "L") || len(name) == 1 {
			return "", "", false
		}
		name = name[1+strings.LastIndexAny(name[1:], "/.")+1:]
	}
	return name + strings.Repeat("[]", dimensions), rest, true
}
