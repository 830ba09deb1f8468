package retrynet

import "syscall"

const hostDown = syscall.EHOSTUNREACH + 1<<16 // a number that WASI never returns
