package retrynet

import "syscall"

// WASI has no EHOSTDOWN, so hostDown is a number that WASI never returns.
const hostDown = syscall.EHOSTUNREACH + 1<<16
