package retrynet

import "syscall"

const hostDown = syscall.EHOSTUNREACH + 1<<16 // WASI has no such error, nor so high a number
