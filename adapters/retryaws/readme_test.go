package retryaws_test

import (
	"context"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsretry "github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/internal/readmetest"
	"github.com/goretry/retry/adapters/retryaws"
)

func TestREADME(t *testing.T) { readmetest.Run(t) }

// The tests below contain the snippets of the README and run each once.

// A loader stands for the package config of the SDK.
type loader struct{ aws.Config }

func (l loader) LoadDefaultConfig(context.Context) (aws.Config, error) { return l.Config, nil }

func TestREADMEClient(t *testing.T) {
	s := &server{answer: failTimes(1, unavailable)}
	config := loader{s.serve(t)}
	load := func(ctx context.Context) error {
		cfg, err := config.LoadDefaultConfig(ctx)
		if err != nil {
			return err
		}
		cfg.APIOptions = append(cfg.APIOptions, retryaws.Middleware{
			Policy: retry.Default(), // 5 attempts, 200ms x2, at most 5s, ±50 %
		}.AddTo)
		client := s3.NewFromConfig(cfg)

		_, err = client.GetObject(ctx, &s3.GetObjectInput{Bucket: aws.String("bucket"), Key: aws.String("key")},
			func(o *s3.Options) { o.UsePathStyle = true })
		return err
	}
	require.NoError(t, load(t.Context()))
	require.Len(t, s.requests, 2)
	assert.Equal(t, "attempt=2; max=5", s.requests[1].attempt)
}

func TestREADMERetryers(t *testing.T) {
	policy, code := soon(), "NoSuchKey"

	withQuota := retryaws.Middleware{Policy: policy, Retryer: awsretry.NewStandard()}
	withCode := retryaws.Middleware{Policy: policy, Retryer: awsretry.AddWithErrorCodes(awsretry.NewStandard(), code)}

	for attempts, m := range map[int]retryaws.Middleware{1: withQuota, 4: withCode} {
		s := &server{answer: with(404, "NoSuchKey")}
		require.Error(t, calls["S3"](t.Context(), s.serve(t, m)))
		assert.Equal(t, attempts, s.attempts())
	}
}

func TestREADMEOneOperation(t *testing.T) {
	ctx, patient := t.Context(), soon()
	s := &server{answer: failTimes(1, unavailable)}
	client := newS3(s.serve(t, retryaws.Middleware{}))
	input := &s3.PutObjectInput{Bucket: aws.String("bucket"), Key: aws.String("key"), Body: strings.NewReader("x")}

	_, err := client.PutObject(ctx, input, func(o *s3.Options) {
		o.APIOptions = append(o.APIOptions, retryaws.Middleware{Policy: patient}.AddTo)
	})

	require.NoError(t, err)
	assert.Equal(t, 2, s.attempts())
}
