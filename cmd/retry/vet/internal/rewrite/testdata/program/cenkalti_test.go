package program

import (
	"testing"

	"github.com/cenkalti/backoff/v4"
)

func TestPing(t *testing.T) {
	if err := backoff.Retry(func() error { return ping(t.Context()) }, &backoff.StopBackOff{}); err != nil {
		t.Fatal(err)
	}
	t.Log(tested().NextBackOff())
}
