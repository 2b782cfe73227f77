// Command calltrace counts what a reader who follows a call of package attn goes through:
// functions, files, ways between functions of different files, and how often the call changes from
// one file to another. From a clone:
//
//	go run ./internal/dev/calltrace           # the counts
//	go run ./internal/dev/calltrace -list     # and the functions of each call
//
// It compiles the package, and those below it, with a line more in each function, as an overlay: no
// file changes. Functions count even if they are inlined. Assembly, function literals and other
// modules do not count.
package main

import (
	"flag"
	"fmt"
	"log"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"slices"

	"github.com/seed-1415985d/attn/internal/dev/calltrace/record"
)

func main() {
	list := flag.Bool("list", false, "print the functions of each call and how often they were called")
	flag.Parse()
	if record.Functions == nil { // this is the build without instruments
		must(runInstrumented(os.Stdout, os.Args[1:]...))
		return
	}
	fmt.Printf("%-38s functions  files   ways  changes     calls\n", "call")
	// A garbage collection, or another processor, would take scratch memory away between two calls.
	debug.SetGCPercent(-1)
	runtime.GOMAXPROCS(1)
	for _, c := range cases() {
		c.run() // takes scratch memory, which the next call finds
		t := count(record.Of(c.run))
		fmt.Printf("%-38s %v\n", c.name, t)
		for _, f := range slices.Sorted(maps.Keys(t.functions)) {
			if *list {
				fmt.Printf("%9d %s\n", t.functions[f], f)
			}
		}
	}
}

func must(err error) {
	if err != nil {
		log.Fatal("calltrace: ", err)
	}
}
