package retrynet

// systemPasses returns false, because the errors of Plan 9 are texts.
func systemPasses(error) bool { return false }
