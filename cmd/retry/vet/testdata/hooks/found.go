package hooks

import (
	"context"
	"log"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
	"github.com/goretry/retry/retrysql"
)

var retries atomic.Int64

func events(ch chan retry.Event) []retry.Policy {
	return []retry.Policy{
		{OnEvent: func(_ context.Context, e retry.Event) {
			ch <- e // want `OnEvent waits here`
		}},
		{OnEvent: func(_ context.Context, e retry.Event) {
			if e.Kind == retry.RetryScheduled {
				time.Sleep(e.Delay) // want `the call waits until OnEvent returns`
			}
		}},
		{OnEvent: func(_ context.Context, e retry.Event) {
			if e.Kind == retry.Stopped {
				http.Get("http://localhost") // want `the call waits until http.Get returns`
			}
		}},
		{OnEvent: func(context.Context, retry.Event) {
			retries.Add(1) // want `OnEvent is called for each event`
		}},
		{OnEvent: func(_ context.Context, e retry.Event) {
			log.Printf("retrying: %v", e.Err) // want `OnEvent is called for each event`
		}},
	}
}

func memory() retry.Policy {
	n := 0
	return retry.Policy{RetryIf: func(error) bool {
		n++ // want `RetryIf counts across all calls`
		return n < 3
	}}
}

func turned() retry.Policy {
	p := retry.Default()
	p.RetryIf = func(err error) bool {
		return retry.IsPermanent(err) // want `RetryIf returns true for what to retry`
	}
	return p
}

func twice(a, b func(context.Context, retry.Event)) retry.Policy {
	p := retry.Default()
	p.OnEvent = a
	p.OnEvent = b // want `this replaces the OnEvent`
	return p
}

var transport = &retryhttp.Transport{Policy: retry.Policy{
	MaxAttempts: 3,
	RetryIf:     retrysql.Transient, // want `retrysql.Transient knows no HTTP status`
}}
