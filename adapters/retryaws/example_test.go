package retryaws_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/retryaws"
)

func Example() {
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests++; requests < 3 {
			w.Header().Set("X-Amz-Retry-After", "5")
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, "<Error><Code>SlowDown</Code></Error>")
			return
		}
		fmt.Fprint(w, "the object")
	}))
	defer server.Close()

	cfg := aws.Config{
		Region:       "eu-central-1",
		BaseEndpoint: aws.String(server.URL),
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "key", SecretAccessKey: "secret"}, nil
		}),
	}
	policy := retry.Policy{
		MaxAttempts: 4,
		Backoff:     retry.Exponential{Base: time.Millisecond},
		OnEvent: func(_ context.Context, e retry.Event) {
			if e.Kind == retry.RetryScheduled {
				fmt.Printf("attempt %d failed; the server asks for %v, next in %v\n", e.Attempt, e.RetryAfter, e.Delay)
			}
		},
	}
	cfg.APIOptions = append(cfg.APIOptions, retryaws.Middleware{Policy: policy}.AddTo)
	client := s3.NewFromConfig(cfg, func(o *s3.Options) { o.UsePathStyle = true })

	out, err := client.GetObject(context.Background(), &s3.GetObjectInput{Bucket: aws.String("bucket"), Key: aws.String("key")})
	if err != nil {
		log.Fatal(err)
	}
	defer out.Body.Close()
	body, err := io.ReadAll(out.Body)
	fmt.Println(string(body), err)
	// Output:
	// attempt 1 failed; the server asks for 5ms, next in 5ms
	// attempt 2 failed; the server asks for 5ms, next in 5ms
	// the object <nil>
}
