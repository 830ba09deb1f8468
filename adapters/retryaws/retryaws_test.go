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

// with returns an answer that fails with a status and a code.
func with(status int, code string, headers ...string) func(http.ResponseWriter, *http.Request, int) {
	return func(w http.ResponseWriter, r *http.Request, _ int) { fail(w, r, status, code, headers...) }
}

// plain returns the configuration of a client with the SDK's own retries. This client makes as many
// attempts as the policy that the function soon returns.
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

// A Middleware retries the errors that the SDK alone would retry, even if the status is 200 and
// the body has an error.
func TestTheTableOfTheSDK(t *testing.T) {
	copyObject := func(ctx context.Context, cfg aws.Config) error {
		_, err := newS3(cfg).CopyObject(ctx, &s3.CopyObjectInput{Bucket: aws.String("b"), Key: aws.String("k"), CopySource: aws.String("b/k")})
		return err
	}
	inBothModes(t, func(t *testing.T) {
		for _, tc := range []struct {
			name     string
			answer   func(http.ResponseWriter, *http.Request, int)
			call     func(context.Context, aws.Config) error // nil means each function in calls
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

func TestRetryAfterOfTheServer(t *testing.T) {
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
			{"only the first 128 bytes are read", []string{"X-Amz-Retry-After", strings.Repeat("0", 123) + "70000999"}, 70 * time.Second},
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
		for call, attempts := range []int{4, 2, 1} { // the quota has tokens for 3 retries, then 1, then 0
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

		// Without a Retryer there is no quota. The SDK's own quota would allow 100 retries.
		s = &server{answer: with(503, "SlowDown")}
		cfg = s.serve(t, retryaws.Middleware{Policy: soon()})
		for range 50 {
			require.Error(t, calls["S3"](t.Context(), cfg))
		}
		assert.Equal(t, 200, s.attempts())
	})
}

// A retry that succeeds puts its tokens back into the quota. A retry that is not made does so
// too.
func TestTokensGoBackIntoTheQuota(t *testing.T) {
	inBothModes(t, func(t *testing.T) {
		late := soon()
		late.Backoff, late.MaxElapsed = retry.Fixed(2*time.Hour), time.Hour
		never := soon()
		never.RetryIf = func(error) bool { return false }
		two := soon()
		two.MaxAttempts = 2
		one := soon()
		one.MaxAttempts = 1
		for name, first := range map[string]retry.Policy{
			"the retry succeeds": two, "it would start too late": late, "RetryIf says no": never, "the last attempt takes nothing": one,
		} {
			retryer := quota(1)
			s := &server{answer: failTimes(1, unavailable)}
			err := calls["S3"](t.Context(), s.serve(t, retryaws.Middleware{Policy: first, Retryer: retryer}))
			assert.Equal(t, name == "the retry succeeds", err == nil, name)

			s = &server{answer: with(503, "SlowDown")}
			require.Error(t, calls["S3"](t.Context(), s.serve(t, retryaws.Middleware{Policy: two, Retryer: retryer})), name)
			assert.Equal(t, 2, s.attempts(), "%s: the quota has its one retry again", name)
		}
	})
}

// Each success that the SDK reports refills the quota. The versions of the SDK differ in which
// successes they report. counting implements only the first version of the Retryer interface,
// without contexts.
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

// A call leaves as many tokens in the quota of the SDK's own Retryers as a call of the SDK
// alone. A retry that succeeds gives back the tokens that it took. In the newer modes it gives
// back no more than these tokens.
func TestACallLeavesAsManyTokensAsTheSDK(t *testing.T) {
	atOnce := func(tokens *ratelimit.TokenRateLimit) func(*awsretry.StandardOptions) {
		return func(o *awsretry.StandardOptions) {
			o.RateLimiter = tokens
			o.Backoff = awsretry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return 0, nil })
		}
	}
	standard := func(tokens *ratelimit.TokenRateLimit) aws.Retryer {
		return awsretry.NewStandard(atOnce(tokens))
	}
	retryers := map[string]func(*ratelimit.TokenRateLimit) aws.Retryer{
		"standard": standard,
		"standard, wrapped": func(tokens *ratelimit.TokenRateLimit) aws.Retryer {
			return awsretry.AddWithErrorCodes(standard(tokens), "NoSuchKey")
		},
		"adaptive": func(tokens *ratelimit.TokenRateLimit) aws.Retryer {
			return awsretry.NewAdaptiveMode(func(o *awsretry.AdaptiveModeOptions) {
				o.StandardOptions = append(o.StandardOptions, atOnce(tokens))
			})
		},
	}
	inBothModes(t, func(t *testing.T) {
		for name, retryer := range retryers {
			for _, fails := range []int{0, 1, 2, 4} {
				left := func(serve func(s *server, r aws.Retryer) aws.Config) uint {
					tokens := ratelimit.NewTokenRateLimit(500)
					_, err := tokens.GetToken(t.Context(), 100)
					require.NoError(t, err)
					s := &server{answer: failTimes(fails, unavailable)}
					_ = calls["S3"](t.Context(), serve(s, retryer(tokens)))
					assert.Equal(t, min(fails+1, 3), s.attempts(), name)
					return tokens.Remaining()
				}
				alone := left(func(s *server, r aws.Retryer) aws.Config {
					cfg := plain(s.serve(t))
					cfg.Retryer = func() aws.Retryer { return r }
					return cfg
				})
				three := soon()
				three.MaxAttempts = 3 // the default of the SDK
				ours := left(func(s *server, r aws.Retryer) aws.Config {
					return s.serve(t, retryaws.Middleware{Policy: three, Retryer: r})
				})
				assert.Equal(t, int(alone), int(ours), "%s, %d failures", name, fails)
			}
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

// A Retryer may accept more errors or delay attempts. The options of a client have no effect.
func TestRetryersOfTheSDK(t *testing.T) {
	policy, code := soon(), "NoSuchKey"

	withQuota := retryaws.Middleware{Policy: policy, Retryer: awsretry.NewStandard()}
	withCode := retryaws.Middleware{Policy: policy, Retryer: awsretry.AddWithErrorCodes(awsretry.NewStandard(), code)}

	for name, tc := range map[string]struct {
		m        retryaws.Middleware
		attempts int
	}{
		"no other code":     {withQuota, 1},
		"another code":      {withCode, 4},
		"the adaptive mode": {retryaws.Middleware{Policy: policy, Retryer: awsretry.AddWithErrorCodes(awsretry.NewAdaptiveMode(), code)}, 4},
		"its limit":         {retryaws.Middleware{Policy: policy, Retryer: awsretry.AddWithMaxAttempts(withCode.Retryer, 1)}, 4},
		"none":              {retryaws.Middleware{Policy: policy, Retryer: aws.NopRetryer{}}, 1},
	} {
		s := &server{answer: with(404, code)}
		cfg := s.serve(t, tc.m)
		cfg.RetryMaxAttempts, cfg.RetryMode = 7, aws.RetryModeAdaptive
		cfg.Retryer = func() aws.Retryer { return aws.NopRetryer{} }
		require.Error(t, calls["S3"](t.Context(), cfg), name)
		assert.Equal(t, tc.attempts, s.attempts(), name)
	}
}

func TestThePolicyOfAnOperation(t *testing.T) {
	s, two := &server{answer: with(503, "SlowDown")}, soon()
	two.MaxAttempts = 2
	_, err := getItem(t.Context(), s.serve(t, retryaws.Middleware{Policy: soon()}), func(o *dynamodb.Options) { o.APIOptions = append(o.APIOptions, retryaws.Middleware{Policy: two}.AddTo) })
	require.Error(t, err)
	require.Len(t, s.requests, 2)
	assert.Equal(t, "attempt=2; max=2", s.requests[1].attempt)
}

// Each attempt is numbered, signed and whole. The SDK corrects its clock after the first attempt,
// and sends the body from the reader's original position.
func TestEachAttempt(t *testing.T) {
	unlimited, body := soon(), strings.NewReader("header:payload")
	unlimited.MaxAttempts = retry.Unlimited
	all := map[string]func(context.Context, aws.Config) error{"S3": calls["S3"], "DynamoDB": calls["DynamoDB"], "PutObject": func(ctx context.Context, cfg aws.Config) error {
		_, err := body.Seek(7, io.SeekStart)
		require.NoError(t, err)
		_, err = newS3(cfg).PutObject(ctx, &s3.PutObjectInput{
			Bucket: aws.String("b"), Key: aws.String("k"), Body: io.ReadSeeker(struct{ io.ReadSeeker }{body})}) // wrapped, so that it cannot be copied
		return err
	}}
	inBothModes(t, func(t *testing.T) {
		for name, call := range all {
			for limit, p := range map[string]retry.Policy{"; max=4": soon(), "": unlimited} {
				ahead := time.Now().Add(3 * time.Hour).UTC().Format(http.TimeFormat)
				s := &server{answer: func(w http.ResponseWriter, r *http.Request, attempt int) {
					switch attempt {
					case 1:
						fail(w, r, 403, "RequestTimeTooSkewed", "Date", ahead)
					case 2:
						unavailable(w, r)
					default:
						succeed(w, r)
					}
				}}
				require.NoError(t, call(t.Context(), s.serve(t, retryaws.Middleware{Policy: p})), name)
				require.Len(t, s.requests, 3, name)
				var signed [3]time.Time
				for i, r := range s.requests {
					assert.Equal(t, fmt.Sprintf("attempt=%d%s", i+1, limit), r.attempt, name)
					assert.Equal(t, s.requests[0].body, r.body, name)
					assert.Equal(t, []bool{name == "PutObject", false}, []bool{strings.Contains(r.body, "payload"), strings.Contains(r.body, "header")}, name)
					var err error
					signed[i], err = time.Parse("20060102T150405Z", r.date)
					require.NoError(t, err)
				}
				assert.Greater(t, signed[1].Sub(signed[0]), 2*time.Hour, "the second attempt is signed with the server's time")
			}
		}
	})
}

func TestABodyThatCannotBeRewound(t *testing.T) {
	errDisk, s := errors.New("the disk is gone"), &server{answer: with(503, "SlowDown")}
	for text, body := range map[string]io.Reader{
		"the body cannot be rewound: use an io.ReadSeeker": io.MultiReader(strings.NewReader("x")),
		"the disk is gone": &once{Reader: bytes.NewReader([]byte("x")), err: errDisk, s: s},
	} {
		s.requests = nil
		_, err := newS3(s.serve(t, retryaws.Middleware{Policy: soon()})).PutObject(t.Context(), &s3.PutObjectInput{
			Bucket: aws.String("b"), Key: aws.String("k"), ContentLength: aws.Int64(1), Body: body}, func(o *s3.Options) {
			o.APIOptions = append(o.APIOptions, v4.SwapComputePayloadSHA256ForUnsignedPayloadMiddleware)
			o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		})
		assert.ErrorContains(t, err, "SlowDown")
		assert.ErrorContains(t, err, "(not retried: "+text+")")
		assert.Equal(t, text == errDisk.Error(), errors.Is(err, errDisk))
		assert.Equal(t, retry.ReasonPermanent, retry.ReasonOf(err))
		assert.Equal(t, 1, s.attempts())
	}
}

// The caller of the SDK finds the SDK's errors in the error.
func TestTheError(t *testing.T) {
	timeout := soon()
	timeout.MaxAttempts, timeout.AttemptTimeout = 2, 30*time.Millisecond
	for text, tc := range map[string]struct {
		answer func(http.ResponseWriter, *http.Request, int)
		policy retry.Policy
		code   string
	}{
		"permanent error after 1 attempt: ":                  {with(400, "ResourceNotFoundException"), soon(), "ResourceNotFoundException"},
		"attempts exhausted after 4 attempts (3ms waited): ": {with(503, "SlowDown"), soon(), "SlowDown"},
		"attempts exhausted after 2 attempts (1ms waited, attempt 2 ran out of its 30ms): no response within AttemptTimeout (30ms): ": {func(_ http.ResponseWriter, r *http.Request, _ int) { <-r.Context().Done() }, timeout, ""},
	} {
		s := &server{answer: tc.answer}
		err := calls["DynamoDB"](t.Context(), s.serve(t, retryaws.Middleware{Policy: tc.policy}))
		assert.ErrorContains(t, err, "operation error DynamoDB: GetItem, retry: "+text)
		var operation *smithy.OperationError
		require.ErrorAs(t, err, &operation)
		var api smithy.APIError
		assert.Equal(t, tc.code != "", errors.As(err, &api))
		assert.True(t, api == nil || api.ErrorCode() == tc.code)
		var missing *types.ResourceNotFoundException
		assert.Equal(t, tc.code == "ResourceNotFoundException", errors.As(err, &missing))
	}
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

func TestAddToRefusesForeignMiddleware(t *testing.T) {
	stack := middleware.NewStack("test", func() any { return nil })
	require.NoError(t, stack.Finalize.Add(foreign{}, middleware.After))
	assert.EqualError(t, retryaws.Middleware{}.AddTo(stack), "retryaws: the middleware Retry is a retryaws_test.foreign, want the SDK's own: remove the other package's middleware")
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
	p.MaxAttempts, p.AttemptTimeout = retry.Unlimited, 250*time.Millisecond
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

type client func(*http.Request) (*http.Response, error)

func (c client) Do(r *http.Request) (*http.Response, error) { return c(r) }
