package retrynet

// systemPasses says no: the errors of Plan 9 are texts.
func systemPasses(error) bool { return false }
