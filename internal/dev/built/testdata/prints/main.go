// Command prints prints a line, as any program does.
package main

import "fmt"

func main() { fmt.Println("a line") }
