package bufio

import (
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
)

// receiver is a dynamic type at a call site, named by the function that it is in.
type receiver struct {
	site string
	of   reflect.Type
}

var receivers sync.Map // of *atomic.Int64, by receiver

// CountReceiver counts a call of a site, through an interface that holds v.
func CountReceiver(site string, v any) {
	key := receiver{site, reflect.TypeOf(v)}
	n, ok := receivers.Load(key)
	if !ok {
		n, _ = receivers.LoadOrStore(key, new(atomic.Int64))
	}
	n.(*atomic.Int64).Add(1)
}

// Receivers returns the calls that were counted, by site and dynamic type. The
// type has its whole import path.
func Receivers() map[string]map[string]int64 {
	all := make(map[string]map[string]int64)
	for key, n := range receivers.Range {
		r := key.(receiver)
		if all[r.site] == nil {
			all[r.site] = make(map[string]int64)
		}
		all[r.site][typeName(r.of)] = n.(*atomic.Int64).Load()
	}
	return all
}

func typeName(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		return "*" + typeName(t.Elem())
	}
	_, name, _ := strings.Cut(t.String(), ".")
	return t.PkgPath() + "." + name
}
