package response

import (
	"bytes"
	"context"
	"database/sql"
	"io"
	"net/http"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

func checked(ctx context.Context, p retry.Policy, url string, accept func(*http.Response) error) error {
	return retry.Do(ctx, p, func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err := retryhttp.Check(req, resp, err); err != nil {
			return err
		}
		defer resp.Body.Close()
		return accept(resp)
	})
}

// Whole in memory when the attempt returns.
func whole(ctx context.Context, p retry.Policy, client *http.Client, req *http.Request) (*http.Response, error) {
	p.AttemptTimeout = time.Second
	return retry.DoValue(ctx, p, func(ctx context.Context) (*http.Response, error) {
		resp, err := client.Do(req.WithContext(ctx))
		if err != nil {
			return nil, err
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		resp.Body = io.NopCloser(bytes.NewReader(body))
		return resp, err
	})
}

func status(ctx context.Context, p retry.Policy, client *http.Client, req *http.Request) (int, error) {
	p.AttemptTimeout = time.Second
	resp, err := retry.DoValue(ctx, p, func(ctx context.Context) (*http.Response, error) { return client.Do(req.WithContext(ctx)) })
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// Without an AttemptTimeout, and inside the attempt.
func counted(ctx context.Context, p retry.Policy, db *sql.DB) (n int, err error) {
	rows, err := retry.DoValue(ctx, retry.Default(), func(ctx context.Context) (*sql.Rows, error) { return db.QueryContext(ctx, "SELECT 1") })
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	p.AttemptTimeout = time.Second
	err = retry.Do(ctx, p, func(ctx context.Context) error {
		rows, err := db.QueryContext(ctx, "SELECT 1")
		if err != nil {
			return err
		}
		defer rows.Close()
		for n = 0; rows.Next(); n++ {
		}
		return rows.Err()
	})
	return n, err
}
