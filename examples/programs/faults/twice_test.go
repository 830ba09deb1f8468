//go:build retrytwice

package faults

import "os"

func init() {
	os.Setenv("RETRY_TWICE", "1,123") // each answer is lost that may be
	lost = []string{
		"a body read once", "an unbuffered pipe", "a slice appended to", "money added twice",
		"a transaction retried around its commit", "a POST without a key",
	}
}
