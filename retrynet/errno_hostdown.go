//go:build !plan9 && !wasip1

package retrynet

import "syscall"

const hostDown = syscall.EHOSTDOWN
