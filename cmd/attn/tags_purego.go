//go:build purego

package main

// pureGo: the build tag purego leaves the package's assembly out.
const pureGo = true
