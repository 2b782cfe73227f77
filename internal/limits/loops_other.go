//go:build !amd64 || purego

package limits

const has256, has512, hasVNNI, hasAVXVNNI = false, false, false, false

func fma(_ Vectors, steps int) { fmaGo(steps) }

func integers(_ Integers, steps int) { integersGo(steps) }

func fmaLoads(_ Vectors, steps int) { fmaGo(steps) }

func read(_ Vectors, x []float32) { readGo(x) }

func readStreams(_ Vectors, x []float32) { readGo(x) }
