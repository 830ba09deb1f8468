package retrynet

// systemPasses returns false, because Plan 9 reports an error as a text without a number.
func systemPasses(error) bool { return false }
