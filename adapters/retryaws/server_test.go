package retryaws_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsretry "github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/assert"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/retryaws"
	"github.com/goretry/retry/adapters/retryrpc/calltest"
)

// A server gives scripted answers and records the requests.
type server struct {
	answer func(w http.ResponseWriter, r *http.Request, attempt int)

	mu       sync.Mutex
	requests []request
}

type request struct{ attempt, date, body string } // Amz-Sdk-Request, X-Amz-Date

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		body = []byte(err.Error())
	}
	s.mu.Lock()
	s.requests = append(s.requests, request{r.Header.Get("Amz-Sdk-Request"), r.Header.Get("X-Amz-Date"), string(body)})
	attempt := len(s.requests)
	s.mu.Unlock()
	s.answer(w, r, attempt)
}

func (s *server) attempts() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.requests)
}

// serve serves s on a port of 127.0.0.1 until the test ends, and returns the
// configuration of a client with the middlewares.
func (s *server) serve(t testing.TB, middlewares ...retryaws.Middleware) aws.Config {
	t.Helper()
	srv := httptest.NewUnstartedServer(s)
	srv.Start()
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
	cfg := aws.Config{
		Region:       "eu-central-1",
		BaseEndpoint: aws.String(srv.URL),
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "key", SecretAccessKey: "secret"}, nil
		}),
	}
	for _, m := range middlewares {
		cfg.APIOptions = append(cfg.APIOptions, m.AddTo)
	}
	return cfg
}

// calls maps each service to a function that makes one call.
var calls = map[string]func(context.Context, aws.Config) error{
	"S3": func(ctx context.Context, cfg aws.Config) error {
		out, err := newS3(cfg).GetObject(ctx, &s3.GetObjectInput{Bucket: aws.String("bucket"), Key: aws.String("key")})
		if err != nil {
			return err
		}
		defer out.Body.Close()
		_, err = io.Copy(io.Discard, out.Body)
		return err
	},
	"DynamoDB": func(ctx context.Context, cfg aws.Config) error {
		_, err := getItem(ctx, cfg)
		return err
	},
}

func newS3(cfg aws.Config) *s3.Client {
	return s3.NewFromConfig(cfg, func(o *s3.Options) { o.UsePathStyle = true })
}

func getItem(ctx context.Context, cfg aws.Config, options ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	return dynamodb.NewFromConfig(cfg).GetItem(ctx, &dynamodb.GetItemInput{
		TableName: aws.String("table"), Key: map[string]types.AttributeValue{"id": &types.AttributeValueMemberS{Value: "1"}}}, options...)
}

func isS3(r *http.Request) bool { return r.Header.Get("X-Amz-Target") == "" }

// succeed answers with an object for S3 and an item for DynamoDB.
func succeed(w http.ResponseWriter, r *http.Request) {
	if isS3(r) {
		fmt.Fprint(w, "object")
		return
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	fmt.Fprint(w, `{"Item": {"id": {"S": "1"}}}`)
}

// fail answers with an error of the service. headers are pairs of keys and values.
func fail(w http.ResponseWriter, r *http.Request, status int, code string, headers ...string) {
	for i := 0; i < len(headers); i += 2 {
		w.Header().Set(headers[i], headers[i+1])
	}
	if isS3(r) {
		w.WriteHeader(status)
		fmt.Fprintf(w, `<?xml version="1.0"?><Error><Code>%s</Code><Message>sorry</Message></Error>`, code)
		return
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"__type": "com.amazonaws.dynamodb.v20120810#%s", "message": "sorry"}`, code)
}

// throttle answers as an overloaded service does.
func throttle(w http.ResponseWriter, r *http.Request, headers ...string) {
	if isS3(r) {
		fail(w, r, http.StatusServiceUnavailable, "SlowDown", headers...)
		return
	}
	fail(w, r, http.StatusBadRequest, "ProvisionedThroughputExceededException", headers...)
}

// reset resets the connection without an answer.
func reset(w http.ResponseWriter) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	if err := conn.(*net.TCPConn).SetLinger(0); err != nil {
		panic(err)
	}
	conn.Close()
}

// garble sends an answer that is not HTTP.
func garble(w http.ResponseWriter) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "SSH-2.0-OpenSSH_9.2\r\n")
}

// failTimes returns an answer that fails n times and then succeeds.
func failTimes(n int, failure func(http.ResponseWriter, *http.Request)) func(http.ResponseWriter, *http.Request, int) {
	return func(w http.ResponseWriter, r *http.Request, attempt int) {
		if attempt <= n {
			failure(w, r)
			return
		}
		succeed(w, r)
	}
}

func unavailable(w http.ResponseWriter, r *http.Request) {
	fail(w, r, http.StatusServiceUnavailable, "ServiceUnavailable")
}

func script(answer func(attempt int) calltest.Answer) func(http.ResponseWriter, *http.Request, int) {
	return func(w http.ResponseWriter, r *http.Request, attempt int) {
		switch answer(attempt) {
		case calltest.OK:
			succeed(w, r)
		case calltest.Down:
			unavailable(w, r)
		case calltest.Busy:
			throttle(w, r, "X-Amz-Retry-After", strconv.FormatInt(calltest.Wait.Milliseconds(), 10))
		case calltest.Hang:
			<-r.Context().Done()
		default:
			fail(w, r, http.StatusForbidden, "AccessDenied")
		}
	}
}

// soon is a policy with four attempts and very short delays.
func soon() retry.Policy {
	return retry.Policy{MaxAttempts: 4, Backoff: retry.Fixed(time.Millisecond)}
}

// inBothModes runs a test with the SDK's old defaults, from before v1.48.0, and with its new
// defaults. Since v1.48.0 the SDK does not read the environment variable, so both runs have the new
// defaults.
func inBothModes(t *testing.T, test func(t *testing.T)) {
	for _, mode := range []string{"", "true"} {
		t.Run("AWS_NEW_RETRIES_2026="+mode, func(t *testing.T) {
			t.Setenv("AWS_NEW_RETRIES_2026", mode)
			test(t)
		})
	}
}

func TestTable(t *testing.T) {
	inBothModes(t, func(t *testing.T) {
		for name, call := range calls {
			t.Run(name, func(t *testing.T) {
				calltest.Run(t, func(ctx context.Context, p retry.Policy, answer func(attempt int) calltest.Answer) (int, error) {
					s := &server{answer: script(answer)}
					err := call(ctx, s.serve(t, retryaws.Middleware{Policy: p}))
					return s.attempts(), err
				}, nil)
			})
		}
	})
}

// If the certificate of a server is not trusted, a call makes one attempt, as in retryhttp. The
// same is true with the SDK's quota. The SDK alone makes four attempts. A connection that is lost
// is retried.
func TestCertificateThatIsNotTrusted(t *testing.T) {
	quota := awsretry.NewStandard()
	for _, row := range []struct {
		name       string
		trusts     bool
		middleware []retryaws.Middleware
		want       int64 // the number of connections
	}{
		{"not trusted", false, []retryaws.Middleware{{Policy: soon()}}, 1},
		{"not trusted, with the SDK's quota", false, []retryaws.Middleware{{Policy: soon(), Retryer: quota}}, 1},
		{"not trusted, by the SDK alone", false, nil, 4},
		{"trusted", true, []retryaws.Middleware{{Policy: soon()}}, 4},
	} {
		for name, call := range calls {
			t.Run(row.name+", "+name, func(t *testing.T) {
				var connections atomic.Int64
				srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { reset(w) }))
				srv.Config.ErrorLog = log.New(io.Discard, "", 0)
				srv.Config.ConnState = func(_ net.Conn, state http.ConnState) {
					if state == http.StateNew {
						connections.Add(1)
					}
				}
				srv.StartTLS()
				defer srv.Close()
				cfg := plain(aws.Config{Region: "eu-central-1", BaseEndpoint: aws.String(srv.URL), Credentials: aws.AnonymousCredentials{}})
				for _, m := range row.middleware {
					cfg.APIOptions = append(cfg.APIOptions, m.AddTo)
				}
				if row.trusts {
					cfg.HTTPClient = srv.Client()
				}
				err := call(t.Context(), cfg)
				assert.Equal(t, !row.trusts, strings.Contains(err.Error(), "x509: certificate signed by unknown authority"), "%v", err)
				assert.Equal(t, row.want == 1, retry.ReasonOf(err) == retry.ReasonPermanent)
				assert.Equal(t, row.want, connections.Load())
			})
		}
	}
}
