// SPDX-License-Identifier: Apache-2.0

// The C program as a part of a Go program, whose runtime keeps all processors busy beside it.
package main

// #cgo CFLAGS: -Dmain=program_main
// #cgo LDFLAGS: -ldl
// int program_main(int argc, char **argv);
import "C"

import (
	"os"
	"runtime"
)

func main() {
	for i := 0; i < 4; i++ {
		go func() {
			for {
				runtime.Gosched()
			}
		}()
	}
	os.Exit(int(C.program_main(1, nil)))
}
