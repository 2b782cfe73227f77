// Package built bounds the sizes of programs that use this module.
package built
