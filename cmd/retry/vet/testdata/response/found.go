package response

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

func decoded(ctx context.Context, p retry.Policy, url string, v any) error {
	return retry.Do(ctx, p, func(ctx context.Context) error {
		resp, err := http.Get(url) // want `nothing looks at the status, and retry.Do takes a 503 for success`
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		return json.NewDecoder(resp.Body).Decode(v)
	})
}

func newClient() *http.Client {
	return &http.Client{Transport: &retryhttp.Transport{Policy: retry.Default()}}
}

type api struct{ client *http.Client }

func newAPI() *api { return &api{client: newClient()} }

func (a *api) read(url string, v any) error {
	resp, err := a.client.Get(url) // want `nothing looks at the status, and after its retries the Transport returns the last response`
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return json.NewDecoder(resp.Body).Decode(v)
}

func leaked(ctx context.Context, p retry.Policy, client *http.Client, req *http.Request) error {
	return retry.Do(ctx, p, func(ctx context.Context) error {
		resp, err := client.Do(req.WithContext(ctx))
		if err != nil {
			return err
		}
		if resp.StatusCode >= 500 {
			return fmt.Errorf("status %d", resp.StatusCode) // want `an attempt that fails here leaves the body of resp open`
		}
		defer resp.Body.Close()
		return nil
	})
}

var errBusy = errors.New("busy")

func returned(ctx context.Context, p retry.Policy, client *http.Client, req *http.Request) (*http.Response, error) {
	return retry.DoValue(ctx, p, func(ctx context.Context) (*http.Response, error) {
		resp, err := client.Do(req.WithContext(ctx))
		if err != nil {
			return nil, err
		}
		if resp.StatusCode == 503 {
			return nil, errBusy // want `an attempt that fails here leaves the body of resp open`
		}
		return resp, nil
	})
}

func rows(ctx context.Context, db *sql.DB) (rows *sql.Rows, err error) {
	p := retry.Policy{MaxAttempts: 3, AttemptTimeout: time.Second}
	err = retry.Do(ctx, p, func(ctx context.Context) (err error) {
		rows, err = db.QueryContext(ctx, "SELECT 1") // want `what db.QueryContext returns ends with its attempt`
		return err
	})
	return rows, err
}

func timed() retry.Policy { return retry.Policy{MaxAttempts: 2, AttemptTimeout: time.Second} }

func begun(ctx context.Context, db *sql.DB) (*sql.Tx, error) {
	return retry.DoValue(ctx, timed(), func(ctx context.Context) (*sql.Tx, error) {
		return db.BeginTx(ctx, nil) // want `what db.BeginTx returns ends with its attempt`
	})
}
