package retrynet

// systemPasses returns false, because Plan 9 has error texts and no error numbers.
func systemPasses(error) bool { return false }
