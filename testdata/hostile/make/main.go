// Command make writes a hostile program to a file, or lists the kinds.
package main

import (
	"fmt"
	"os"

	"github.com/ccmapd/ccmapd/testdata/hostile"
)

func main() {
	for _, t := range hostile.All() {
		switch {
		case len(os.Args) != 3:
			fmt.Println(t.Name)
		case t.Name == os.Args[1]:
			if err := t.Make().Write(os.Args[2]); err != nil {
				fmt.Fprintln(os.Stderr, "make:", err)
				os.Exit(1)
			}
			return
		}
	}
	if len(os.Args) == 3 {
		fmt.Fprintf(os.Stderr, "make: there is no kind %q\n", os.Args[1])
		os.Exit(2)
	}
}
