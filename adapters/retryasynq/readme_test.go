package retryasynq_test

import (
	"testing"

	"github.com/hibiken/asynq"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/internal/readmetest"
	"github.com/goretry/retry/adapters/retryasynq"
)

func TestREADME(t *testing.T) { readmetest.Run(t) }

// The snippet of the README is only compiled, because Run returns after a signal.
var _ = func(policy retry.Policy, redis asynq.RedisConnOpt) error {
	retries, err := retryasynq.New(policy)
	if err != nil {
		return err
	}
	config := asynq.Config{Concurrency: 10}
	retries.Configure(&config)
	mux := asynq.NewServeMux()
	mux.Use(retries.Middleware)
	mux.HandleFunc("email", sendEmail)
	return asynq.NewServer(redis, config).Run(mux)
}
