package javaname

import (
	"strings"
	"testing"
	"unicode/utf16"

	"pgregory.net/rapid"

	"github.com/ccmapd/ccmapd/ccmap"
)

// Each name was seen in a JVM, or is from the source of what makes it.
func TestClass(t *testing.T) {
	t.Parallel()
	for vm, want := range map[string]string{
		"java/util/HashMap$Node":                      "java.util.HashMap$Node",
		"Foo$Bar":                                     "Foo$Bar",
		"Foo$1":                                       "Foo$1", // javac's own number
		"Foo$$Lambda$45+0x00007f861c06f1c8":           "Foo$$Lambda",
		"Foo$$Lambda$17+0x800000025":                  "Foo$$Lambda",
		"Foo$$Lambda+0x000000008f061008":              "Foo$$Lambda",
		"Foo$$Lambda$88+0x00007f8384007c08/360062456": "Foo$$Lambda",
		"jdk/jfr/internal/handlers/EventHandler1353_1795445350673-18855": "jdk.jfr.internal.handlers.EventHandler",
		"Foo$$Lambda$1.0x00007f5ee8000c08":                               "Foo$$Lambda",
		"Foo$$Lambda$45/0x00007f861c06f1c8":                              "Foo$$Lambda",
		"a/Foo$$Lambda$14/1234567":                                       "a.Foo$$Lambda",
		"java/lang/invoke/LambdaForm$MH+0x00007f861c0":                   "java.lang.invoke.LambdaForm$MH",
		"java/lang/invoke/LambdaForm$DMH+0x00007f861c0":                  "java.lang.invoke.LambdaForm$DMH",
		"jdk/internal/reflect/GeneratedMethodAccessor123":                "jdk.internal.reflect.GeneratedMethodAccessor",
		"jdk/proxy2/$Proxy17":                                            "jdk.proxy.$Proxy",
		"jdk/proxyless/Foo":                                              "jdk.proxyless.Foo",
		"com/sun/proxy/$Proxy3":                                          "com.sun.proxy.$Proxy",
		"a/B$$FastClassBySpringCGLIB$$1a2b":                              "a.B$$FastClassBySpringCGLIB",
		"a/B$$EnhancerByCGLIB$$f00d":                                     "a.B$$EnhancerByCGLIB",
		"a/B$MockitoMock$123456":                                         "a.B$MockitoMock",
		"a/B$ByteBuddy$wYz12Ab":                                          "a.B$ByteBuddy",
		"a/B$ByteBuddy$":                                                 "a.B$ByteBuddy$",
		"org/apache/jsp/index_jsp":                                       "org.apache.jsp.index_jsp",
		"a/Utf8":                                                         "a.Utf8",
		"":                                                               "",
		"+0x1":                                                           "+0x1",
	} {
		if got := Class(vm); got != want {
			t.Errorf("%s is %s, want %s", vm, got, want)
		}
		if got := Class(want); got != want {
			t.Errorf("%s is not stable: %s", want, got)
		}
	}
}

func TestMethod(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		parts Parts
		want  ccmap.Method
	}{
		{
			Parts{Class: "java/util/HashMap$Node", Name: "<init>", Descriptor: "(I)V", Loader: "bootstrap"},
			ccmap.Method{Name: "java.util.HashMap$Node.<init>", Signature: "(I)V", Receiver: "java.util.HashMap$Node", File: "java/util/HashMap.java"},
		},
		{
			Parts{Class: "Main", Name: "main", Descriptor: "([Ljava/lang/String;)V", SourceFile: "Program.kt", Loader: "app", Static: true},
			ccmap.Method{Name: "Main.main", Signature: "([Ljava/lang/String;)V", File: "Program.kt"},
		},
		{
			Parts{Class: "web/$Page", Name: "show", Loader: "Catalina"},
			ccmap.Method{Name: "web.$Page.show", Receiver: "web.$Page", File: "web/$Page.java", Module: "Catalina"},
		},
	} {
		c.want.Coordinate = ccmap.CoordinateBytecode
		if got := c.parts.Method(); got != c.want {
			t.Errorf("%+v\nis %+v\nwant %+v", c.parts, got, c.want)
		}
	}
}

// Text undoes what a compiler of Java writes into class files.
func TestText(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.Rune()).Draw(t, "text")
		if got := Text(modified(text)); got != text {
			t.Errorf("%q became %q", text, got)
		}
	})
	for _, invalid := range []string{"a\xff", "\xed\xa0", "\xed\xa0\x80", "\xed\xb0\x80\xed\xa0\x80", "\xc0\x81"} {
		if got := Text([]byte(invalid)); got != invalid {
			t.Errorf("%q became %q", invalid, got)
		}
	}
}

func modified(text string) []byte {
	var b []byte
	for _, r := range text {
		switch first, second := utf16.EncodeRune(r); {
		case r == 0:
			b = append(b, 0xc0, 0x80)
		case r > 0xffff:
			for _, half := range []rune{first, second} {
				b = append(b, 0xed, byte(0x80|half>>6&0x3f), byte(0x80|half&0x3f))
			}
		default:
			b = append(b, string(r)...)
		}
	}
	return b
}

func FuzzClass(f *testing.F) {
	for _, seed := range []string{"Foo$$Lambda$45+0x7f", "jdk/proxy2/$Proxy17", "a/B$$FastClassBySpringCGLIB$$1a2b", "\xc0\x80", "\xed\xa0\x80\xed\xb0\x80"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		class := Class(Text(b))
		if len(class) > len(b) || strings.Contains(class, "/") {
			t.Errorf("%q became %q", b, class)
		}
	})
}
