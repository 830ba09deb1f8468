package retryaws_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	awsretry "github.com/aws/aws-sdk-go-v2/aws/retry"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/retryaws"
)

// with returns an answer that fails.
func with(status int, code string, headers ...string) func(http.ResponseWriter, *http.Request, int) {
	return func(w http.ResponseWriter, r *http.Request, _ int) { fail(w, r, status, code, headers...) }
}

// plain returns the configuration of a client with the SDK's own retries, which
// make as many attempts as soon.
func plain(cfg aws.Config) aws.Config {
	cfg.APIOptions = nil
	cfg.Retryer = func() aws.Retryer {
		return awsretry.NewStandard(func(o *awsretry.StandardOptions) {
			o.MaxAttempts, o.RateLimiter = 4, ratelimit.None
			o.Backoff = awsretry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return 0, nil })
		})
	}
	return cfg
}

// A Middleware retries what the SDK alone would retry, even if the status says 200
// and the body holds an error.
func TestTheTableOfTheSDK(t *testing.T) {
	copyObject := func(ctx context.Context, cfg aws.Config) error {
		_, err := newS3(cfg).CopyObject(ctx, &s3.CopyObjectInput{Bucket: aws.String("b"), Key: aws.String("k"), CopySource: aws.String("b/k")})
		return err
	}
	inBothModes(t, func(t *testing.T) {
		for _, tc := range []struct {
			name     string
			answer   func(http.ResponseWriter, *http.Request, int)
			call     func(context.Context, aws.Config) error // nil: each of calls
			attempts int
		}{
			{"500", with(500, "InternalError"), nil, 4},
			{"502", with(502, "BadGateway"), nil, 4},
			{"503", with(503, "ServiceUnavailable"), nil, 4},
			{"504", with(504, "GatewayTimeout"), nil, 4},
			{"501", with(501, "NotImplemented"), nil, 1},
			{"400", with(400, "ValidationException"), nil, 1},
			{"403", with(403, "AccessDenied"), nil, 1},
			{"404", with(404, "NoSuchKey"), nil, 1},
			{"throttled", with(400, "ThrottlingException"), nil, 4},
			{"slow down", with(400, "SlowDown"), nil, 4},
			{"request timeout", with(400, "RequestTimeout"), nil, 4},
			{"reset", func(w http.ResponseWriter, _ *http.Request, _ int) { reset(w) }, nil, 4},
			{"not HTTP", func(w http.ResponseWriter, _ *http.Request, _ int) { garble(w) }, nil, 4},
			{"503 with a truncated body", func(w http.ResponseWriter, r *http.Request, _ int) {
				w.Header().Set("Content-Length", "1000")
				unavailable(w, r)
			}, nil, 4},
			{"200 with an error in the body", func(w http.ResponseWriter, _ *http.Request, _ int) {
				fmt.Fprint(w, `<?xml version="1.0"?><Error><Code>InternalError</Code><Message>sorry</Message></Error>`)
			}, copyObject, 4},
			{"200 without JSON", func(w http.ResponseWriter, _ *http.Request, _ int) { fmt.Fprint(w, "<html>") }, calls["DynamoDB"], 1},
		} {
			for name, call := range calls {
				if tc.call != nil {
					name, call = tc.name, tc.call
				}
				s := &server{answer: tc.answer}
				cfg := s.serve(t, retryaws.Middleware{Policy: soon()})
				require.Error(t, call(t.Context(), plain(cfg)), "%s, %s", tc.name, name)
				require.Equal(t, tc.attempts, s.attempts(), "%s, %s: attempts of the SDK alone", tc.name, name)
				err := call(t.Context(), cfg)
				assert.Equal(t, 2*tc.attempts, s.attempts(), "%s, %s: %v", tc.name, name, err)
				reason := retry.ReasonExhausted
				if tc.attempts == 1 {
					reason = retry.ReasonPermanent
				}
				assert.Equal(t, reason, retry.ReasonOf(err), "%s, %s: %v", tc.name, name, err)
			}
		}
	})
}

// A server whose clock is hours ahead rejects the first signature.
func TestClocksThatDiffer(t *testing.T) {
	inBothModes(t, func(t *testing.T) {
		date := time.Now().Add(3 * time.Hour).UTC()
		s := &server{answer: failTimes(1, func(w http.ResponseWriter, r *http.Request) {
			fail(w, r, 403, "RequestTimeTooSkewed", "Date", date.Format(http.TimeFormat))
		})}
		require.NoError(t, calls["S3"](t.Context(), s.serve(t, retryaws.Middleware{Policy: soon()})))
		require.Len(t, s.requests, 2)
		const layout = "20060102T150405Z"
		first, err := time.Parse(layout, s.requests[0].date)
		require.NoError(t, err)
		second, err := time.Parse(layout, s.requests[1].date)
		require.NoError(t, err)
		assert.Greater(t, second.Sub(first), 2*time.Hour, "the second attempt is signed with the server's time")
	})
}

func TestTheServersWait(t *testing.T) {
	inBothModes(t, func(t *testing.T) {
		for _, tc := range []struct {
			name    string
			headers []string
			wait    time.Duration
		}{
			{"none", nil, 0},
			{"X-Amz-Retry-After", []string{"X-Amz-Retry-After", "70000"}, 70 * time.Second},
			{"Retry-After", []string{"Retry-After", "70"}, 70 * time.Second},
			{"both, X-Amz-Retry-After longer", []string{"Retry-After", "70", "X-Amz-Retry-After", "80000"}, 80 * time.Second},
			{"both, Retry-After longer", []string{"Retry-After", "90", "X-Amz-Retry-After", "80000"}, 90 * time.Second},
			{"not a number", []string{"X-Amz-Retry-After", "soon"}, 0},
			{"negative", []string{"X-Amz-Retry-After", "-70000"}, 0},
			{"centuries", []string{"X-Amz-Retry-After", "9223372036854775807"}, math.MaxInt64},
			{"the first 128 bytes", []string{"X-Amz-Retry-After", strings.Repeat("0", 123) + "70000999"}, 70 * time.Second},
		} {
			for name, call := range calls {
				s := &server{answer: func(w http.ResponseWriter, r *http.Request, _ int) { throttle(w, r, tc.headers...) }}
				err := call(t.Context(), s.serve(t, retryaws.Middleware{Policy: soon()}))
				var e *retry.Error
				require.ErrorAs(t, err, &e, "%s, %s", tc.name, name)
				if tc.wait == 0 {
					assert.Equal(t, retry.ReasonExhausted, e.Reason, "%s, %s", tc.name, name)
					continue
				}
				assert.Equal(t, retry.ReasonRetryAfter, e.Reason, "%s, %s: %v", tc.name, name, err)
				assert.Equal(t, tc.wait, e.Delay, "%s, %s", tc.name, name)
			}
		}
	})
}

// The SDK passes the attempts 1, 2 and 3 to RetryDelay, or in the mode of 2026 the
// attempts 0, 1 and 2. A Middleware does not call it.
func TestTheNumberingOfTheSDK(t *testing.T) {
	for mode, want := range map[string][]int{"": {1, 2, 3}, "true": {0, 1, 2}} {
		t.Setenv("AWS_NEW_RETRIES_2026", mode)
		asked := &numbering{Retryer: plain(aws.Config{}).Retryer()}
		s := &server{answer: with(503, "SlowDown")}
		cfg := plain(s.serve(t))
		cfg.Retryer = func() aws.Retryer { return asked }
		require.Error(t, calls["S3"](t.Context(), cfg))
		assert.Equal(t, want, asked.attempts)

		asked.attempts = nil
		require.Error(t, calls["S3"](t.Context(), s.serve(t, retryaws.Middleware{Policy: soon(), Retryer: asked})))
		assert.Empty(t, asked.attempts)
	}
}

// numbering is a Retryer that records the attempts that RetryDelay gets.
type numbering struct {
	aws.Retryer
	attempts []int
}

func (n *numbering) RetryDelay(attempt int, err error) (time.Duration, error) {
	n.attempts = append(n.attempts, attempt)
	return n.Retryer.RetryDelay(attempt, err)
}

func TestEachAttemptIsNumberedSignedAndWhole(t *testing.T) {
	inBothModes(t, func(t *testing.T) {
		for name, call := range calls {
			s := &server{answer: failTimes(2, unavailable)}
			require.NoError(t, call(t.Context(), s.serve(t, retryaws.Middleware{Policy: soon()})), name)
			require.Len(t, s.requests, 3, name)
			for i, r := range s.requests {
				assert.Equal(t, fmt.Sprintf("attempt=%d; max=4", i+1), r.attempt, name)
				assert.NotEmpty(t, r.date, name)
				assert.Equal(t, s.requests[0].body, r.body, name)
			}
		}
		p := soon()
		p.MaxAttempts = retry.Unlimited
		s := &server{answer: failTimes(1, unavailable)}
		require.NoError(t, calls["S3"](t.Context(), s.serve(t, retryaws.Middleware{Policy: p})))
		assert.Equal(t, "attempt=2", s.requests[1].attempt)
	})
}

// Each attempt sends the body from the reader's original position. The reader is
// wrapped, so that it cannot be copied.
func TestBodiesAreRewound(t *testing.T) {
	inBothModes(t, func(t *testing.T) {
		s := &server{answer: failTimes(2, unavailable)}
		body := strings.NewReader("header:payload")
		_, err := body.Seek(7, io.SeekStart)
		require.NoError(t, err)
		_, err = newS3(s.serve(t, retryaws.Middleware{Policy: soon()})).PutObject(t.Context(), &s3.PutObjectInput{
			Bucket: aws.String("b"), Key: aws.String("k"), Body: io.ReadSeeker(struct{ io.ReadSeeker }{body})})
		require.NoError(t, err)
		require.Len(t, s.requests, 3)
		for _, r := range s.requests {
			assert.Contains(t, r.body, "payload")
			assert.NotContains(t, r.body, "header")
		}
	})
}

func TestABodyThatCannotBeRewound(t *testing.T) {
	s := &server{answer: with(503, "SlowDown")}
	unsigned := func(o *s3.Options) {
		o.APIOptions = append(o.APIOptions, v4.SwapComputePayloadSHA256ForUnsignedPayloadMiddleware)
		o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
	}
	_, err := newS3(s.serve(t, retryaws.Middleware{Policy: soon()})).PutObject(t.Context(), &s3.PutObjectInput{
		Bucket: aws.String("b"), Key: aws.String("k"), ContentLength: aws.Int64(1), Body: io.MultiReader(strings.NewReader("x"))}, unsigned)
	assert.ErrorContains(t, err, "(not retried: the body cannot be rewound: use an io.ReadSeeker)")
	assert.Equal(t, retry.ReasonPermanent, retry.ReasonOf(err))
	assert.Equal(t, 1, s.attempts())

	s = &server{answer: with(503, "SlowDown")}
	errDisk := errors.New("the disk is gone")
	body := &once{Reader: bytes.NewReader([]byte("x")), err: errDisk, s: s}
	_, err = newS3(s.serve(t, retryaws.Middleware{Policy: soon()})).PutObject(t.Context(), &s3.PutObjectInput{
		Bucket: aws.String("b"), Key: aws.String("k"), ContentLength: aws.Int64(1), Body: body}, unsigned)
	assert.ErrorContains(t, err, "SlowDown")
	assert.ErrorContains(t, err, "(not retried: the disk is gone)")
	assert.ErrorIs(t, err, errDisk)
	assert.Equal(t, 1, s.attempts())
}

// once is a body that cannot be rewound after it has been sent.
type once struct {
	*bytes.Reader
	err error
	s   *server
}

func (o *once) Seek(offset int64, whence int) (int64, error) {
	if o.s.attempts() > 0 && whence == io.SeekStart {
		return 0, o.err
	}
	return o.Reader.Seek(offset, whence)
}

// quota returns a Retryer with a quota of n retries.
func quota(n uint) aws.Retryer {
	return awsretry.NewStandard(func(o *awsretry.StandardOptions) {
		o.RateLimiter = ratelimit.NewTokenRateLimit(10 * n)
		o.RetryCost, o.RetryTimeoutCost, o.ThrottlingRetryCost, o.NoRetryIncrement = 10, 10, 10, 5
	})
}

func TestTheQuotaOfTheSDK(t *testing.T) {
	inBothModes(t, func(t *testing.T) {
		s := &server{answer: with(503, "SlowDown")}
		cfg := s.serve(t, retryaws.Middleware{Policy: soon(), Retryer: quota(4)})
		for call, attempts := range []int{4, 2, 1} { // with 3 retries, 1 and none
			before := s.attempts()
			err := calls["S3"](t.Context(), cfg)
			assert.Equal(t, attempts, s.attempts()-before, "call %d", call)
			assert.Equal(t, attempts == 4, retry.ReasonOf(err) == retry.ReasonExhausted, "call %d: %v", call, err)
			if attempts < 4 {
				assert.ErrorContains(t, err, "(not retried: failed to get rate limit token, retry quota exceeded, 0 available, 10 requested)")
				var exceeded ratelimit.QuotaExceededError
				assert.ErrorAs(t, err, &exceeded)
			}
		}

		// A call that uses up the whole quota still ends by its own limit.
		s = &server{answer: with(503, "SlowDown")}
		err := calls["S3"](t.Context(), s.serve(t, retryaws.Middleware{Policy: soon(), Retryer: quota(3)}))
		assert.Equal(t, retry.ReasonExhausted, retry.ReasonOf(err), "%v", err)
		assert.Equal(t, 4, s.attempts())

		// Without a Retryer there is no quota. The SDK's would allow 100 retries.
		s = &server{answer: with(503, "SlowDown")}
		cfg = s.serve(t, retryaws.Middleware{Policy: soon()})
		for range 50 {
			require.Error(t, calls["S3"](t.Context(), cfg))
		}
		assert.Equal(t, 200, s.attempts())
	})
}

// A retry returns what it took from the quota if it succeeds, and if it is not
// made.
func TestTheQuotaIsPaidBack(t *testing.T) {
	inBothModes(t, func(t *testing.T) {
		late := soon()
		late.Backoff, late.MaxElapsed = retry.Fixed(2*time.Hour), time.Hour
		never := soon()
		never.RetryIf = func(error) bool { return false }
		two := soon()
		two.MaxAttempts = 2
		for name, tc := range map[string]struct {
			first retry.Policy
			fails int
		}{"the retry succeeds": {two, 1}, "it would start too late": {late, 1}, "RetryIf says no": {never, 1}} {
			retryer := quota(1)
			s := &server{answer: failTimes(tc.fails, unavailable)}
			err := calls["S3"](t.Context(), s.serve(t, retryaws.Middleware{Policy: tc.first, Retryer: retryer}))
			assert.Equal(t, name == "the retry succeeds", err == nil, name)

			s = &server{answer: with(503, "SlowDown")}
			require.Error(t, calls["S3"](t.Context(), s.serve(t, retryaws.Middleware{Policy: two, Retryer: retryer})), name)
			assert.Equal(t, 2, s.attempts(), "%s: the quota has its one retry again", name)
		}

		// The last attempt takes nothing from the quota.
		retryer := quota(1)
		s := &server{answer: with(503, "SlowDown")}
		require.Error(t, calls["S3"](t.Context(), s.serve(t, retryaws.Middleware{Policy: retry.Policy{MaxAttempts: 1}, Retryer: retryer})))
		s = &server{answer: with(503, "SlowDown")}
		require.Error(t, calls["S3"](t.Context(), s.serve(t, retryaws.Middleware{Policy: two, Retryer: retryer})))
		assert.Equal(t, 2, s.attempts())
	})
}

// Each success that the SDK counts refills the quota. In the mode of 2026 only the
// success of a first attempt counts. counting implements only the first version of
// the Retryer interface, without contexts.
func TestSuccessesFillTheQuota(t *testing.T) {
	inBothModes(t, func(t *testing.T) {
		for _, fails := range []int{0, 1, 4} {
			var alone, ours counting
			alone.Retryer, ours.Retryer = plain(aws.Config{}).Retryer(), quota(10)
			s := &server{answer: failTimes(fails, unavailable)}
			cfg := plain(s.serve(t))
			cfg.Retryer = func() aws.Retryer { return &alone }
			err := calls["S3"](t.Context(), cfg)
			assert.Equal(t, fails == 4, err != nil)

			s = &server{answer: failTimes(fails, unavailable)}
			err = calls["S3"](t.Context(), s.serve(t, retryaws.Middleware{Policy: soon(), Retryer: &ours}))
			assert.Equal(t, fails == 4, err != nil)
			assert.Equal(t, alone.results, ours.results, "the same as with the SDK alone")
			assert.Len(t, ours.results, min(fails+1, 4))
		}
	})
}

// counting is a Retryer of the first version that records how attempts end.
type counting struct {
	aws.Retryer
	results []string
}

func (c *counting) GetInitialToken() func(error) error {
	at := len(c.results)
	c.results = append(c.results, "not counted")
	return func(err error) error {
		c.results[at] = "success"
		if err != nil {
			c.results[at] = "failure"
		}
		return nil
	}
}

// A Retryer may accept more errors or delay attempts.
func TestRetryersOfTheSDK(t *testing.T) {
	for name, retryer := range map[string]aws.Retryer{
		"AddWithErrorCodes": awsretry.AddWithErrorCodes(awsretry.NewStandard(), "NoSuchKey"),
		"the adaptive mode": awsretry.AddWithErrorCodes(awsretry.NewAdaptiveMode(), "NoSuchKey"),
		"its limit":         awsretry.AddWithErrorCodes(awsretry.AddWithMaxAttempts(awsretry.NewStandard(), 1), "NoSuchKey"),
	} {
		s := &server{answer: with(404, "NoSuchKey")}
		require.Error(t, calls["S3"](t.Context(), s.serve(t, retryaws.Middleware{Policy: soon(), Retryer: retryer})), name)
		assert.Equal(t, 4, s.attempts(), name)
	}
	s := &server{answer: with(503, "SlowDown")}
	require.Error(t, calls["S3"](t.Context(), s.serve(t, retryaws.Middleware{Policy: soon(), Retryer: aws.NopRetryer{}})))
	assert.Equal(t, 1, s.attempts())
}

func TestTheOptionsOfAClientHaveNoEffect(t *testing.T) {
	s := &server{answer: with(503, "SlowDown")}
	cfg := s.serve(t, retryaws.Middleware{Policy: soon()})
	cfg.RetryMaxAttempts, cfg.RetryMode = 7, aws.RetryModeAdaptive
	cfg.Retryer = func() aws.Retryer { return aws.NopRetryer{} }
	require.Error(t, calls["S3"](t.Context(), cfg))
	assert.Equal(t, 4, s.attempts())
}

func TestThePolicyOfAnOperation(t *testing.T) {
	s := &server{answer: with(503, "SlowDown")}
	two := soon()
	two.MaxAttempts = 2
	cfg := s.serve(t, retryaws.Middleware{Policy: soon()})
	_, err := getItem(t.Context(), cfg, func(o *dynamodb.Options) { o.APIOptions = append(o.APIOptions, retryaws.Middleware{Policy: two}.AddTo) })
	require.Error(t, err)
	assert.Equal(t, 2, s.attempts())
	assert.Equal(t, "attempt=2; max=2", s.requests[1].attempt)
}

func TestPresignedRequests(t *testing.T) {
	s := &server{}
	signed, err := s3.NewPresignClient(newS3(s.serve(t, retryaws.Middleware{Policy: soon()}))).PresignGetObject(t.Context(),
		&s3.GetObjectInput{Bucket: aws.String("b"), Key: aws.String("k")})
	require.NoError(t, err)
	assert.Contains(t, signed.URL, "X-Amz-Signature=")
	assert.Zero(t, s.attempts())
}

type foreign struct{}

func (foreign) ID() string { return "Retry" }

func (foreign) HandleFinalize(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (middleware.FinalizeOutput, middleware.Metadata, error) {
	return next.HandleFinalize(ctx, in)
}

func TestRetriesOfSomeoneElse(t *testing.T) {
	stack := middleware.NewStack("test", func() any { return nil })
	require.NoError(t, stack.Finalize.Add(foreign{}, middleware.After))
	assert.EqualError(t, retryaws.Middleware{}.AddTo(stack), "retryaws: the middleware Retry is a retryaws_test.foreign, want the SDK's own")
}

func TestTheError(t *testing.T) {
	s := &server{answer: with(400, "ResourceNotFoundException")}
	err := calls["DynamoDB"](t.Context(), s.serve(t, retryaws.Middleware{Policy: soon()}))
	var missing *types.ResourceNotFoundException
	require.ErrorAs(t, err, &missing)
	var operation *smithy.OperationError
	require.ErrorAs(t, err, &operation)
	assert.Equal(t, "GetItem", operation.Operation())
	assert.Equal(t, retry.ReasonPermanent, retry.ReasonOf(err))

	s = &server{answer: with(503, "SlowDown")}
	err = calls["S3"](t.Context(), s.serve(t, retryaws.Middleware{Policy: soon()}))
	var api smithy.APIError
	require.ErrorAs(t, err, &api)
	assert.Equal(t, "SlowDown", api.ErrorCode())
	assert.ErrorContains(t, err, "operation error S3: GetObject, retry: attempts exhausted after 4 attempts (3ms waited): ")
}

// The AttemptTimeout bounds the attempt, not the reading of the body.
func TestTheBodyMayTakeLonger(t *testing.T) {
	goOn := make(chan struct{})
	s := &server{answer: func(w http.ResponseWriter, r *http.Request, _ int) {
		fmt.Fprint(w, "first ")
		w.(http.Flusher).Flush()
		<-goOn
		fmt.Fprint(w, "second")
	}}
	p := soon()
	p.AttemptTimeout = 250 * time.Millisecond
	out, err := newS3(s.serve(t, retryaws.Middleware{Policy: p})).GetObject(t.Context(), &s3.GetObjectInput{Bucket: aws.String("b"), Key: aws.String("k")})
	require.NoError(t, err)
	time.AfterFunc(2*p.AttemptTimeout, func() { close(goOn) })
	body, err := io.ReadAll(out.Body)
	require.NoError(t, err)
	assert.Equal(t, "first second", string(body))
	assert.NoError(t, out.Body.Close())
}

// With an AttemptTimeout, the context of a request ends when the body of its
// response is closed, or when the attempt fails.
func TestTheContextIsReleased(t *testing.T) {
	for _, timeout := range []time.Duration{0, time.Minute} {
		for name, answer := range map[string]func(http.ResponseWriter, *http.Request, int){
			"success": failTimes(0, nil), "failure": with(403, "AccessDenied"), "reset": func(w http.ResponseWriter, _ *http.Request, _ int) { reset(w) },
		} {
			var sent []context.Context
			s := &server{answer: answer}
			p := soon()
			p.AttemptTimeout = timeout
			cfg := s.serve(t, retryaws.Middleware{Policy: p})
			cfg.HTTPClient = client(func(r *http.Request) (*http.Response, error) {
				sent = append(sent, r.Context())
				return http.DefaultClient.Do(r)
			})
			out, err := newS3(cfg).GetObject(t.Context(), &s3.GetObjectInput{Bucket: aws.String("b"), Key: aws.String("k")})
			assert.Equal(t, name == "success", err == nil, name)
			if err == nil {
				require.NoError(t, sent[0].Err())
				_, err = io.ReadAll(out.Body)
				require.NoError(t, err)
				require.NoError(t, out.Body.Close())
			}
			for _, ctx := range sent {
				assert.Equal(t, timeout > 0, ctx.Err() != nil, "%s, %v", name, timeout)
			}
		}
	}
}

// The context of a request ends even if the request is never sent.
func TestTheContextOfARequestThatIsNotSent(t *testing.T) {
	var ended context.Context
	p := soon()
	p.AttemptTimeout = time.Minute
	s := &server{}
	cfg := s.serve(t, retryaws.Middleware{Policy: p})
	cfg.APIOptions = append(cfg.APIOptions, func(stack *middleware.Stack) error {
		return stack.Finalize.Insert(middleware.FinalizeMiddlewareFunc("fault", func(ctx context.Context, _ middleware.FinalizeInput, _ middleware.FinalizeHandler) (out middleware.FinalizeOutput, metadata middleware.Metadata, err error) {
			ended = ctx
			return out, metadata, errors.New("no credentials")
		}), "Retry", middleware.After)
	})
	err := calls["S3"](t.Context(), cfg)
	assert.Equal(t, retry.ReasonPermanent, retry.ReasonOf(err))
	assert.ErrorContains(t, err, "no credentials")
	assert.Error(t, ended.Err())
	assert.Zero(t, s.attempts())
}

type client func(*http.Request) (*http.Response, error)

func (c client) Do(r *http.Request) (*http.Response, error) { return c(r) }

func TestTheTextOfATimeout(t *testing.T) {
	s := &server{answer: func(_ http.ResponseWriter, r *http.Request, _ int) { <-r.Context().Done() }}
	p := soon()
	p.MaxAttempts, p.AttemptTimeout = 2, 30*time.Millisecond
	err := calls["DynamoDB"](t.Context(), s.serve(t, retryaws.Middleware{Policy: p}))
	assert.Equal(t, retry.ReasonExhausted, retry.ReasonOf(err))
	assert.ErrorContains(t, retry.Unwrap(err), "no response within AttemptTimeout (30ms): ")
}
