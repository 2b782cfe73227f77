// Package pages asks the system for large pages.
package pages

// fewestBytes: with less, no huge page may fit.
const fewestBytes = 4 << 20
