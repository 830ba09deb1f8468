package consumed

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/goretry/retry"
)

type input struct{ Body io.Reader }

func put(context.Context, *input) error { return nil }

func send(ctx context.Context, body io.Reader) error { return nil }

func parameter(ctx context.Context, p retry.Policy, body io.Reader) error {
	return retry.Do(ctx, p, func(ctx context.Context) error {
		return send(ctx, body) // want `^body comes from outside of retry.Do and is empty from the second attempt on: keep the bytes outside, and make a reader of them in each attempt \[consumed\]$`
	})
}

func post(ctx context.Context, p retry.Policy, url, text string) error {
	body := strings.NewReader(text)
	return retry.Do(ctx, p, func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, body) // want `^body comes from outside`
		if err != nil {
			return retry.Permanent(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		return resp.Body.Close()
	})
}

func request(ctx context.Context, p retry.Policy, url string, data []byte) error {
	req, err := http.NewRequest("PUT", url, bytes.NewReader(data))
	if err != nil {
		return err
	}
	return retry.Do(ctx, p, func(ctx context.Context) error {
		resp, err := http.DefaultClient.Do(req.WithContext(ctx)) // want `^req comes from outside of retry.Do and its body is empty from the second attempt on: make the request in each attempt, or set Body from GetBody before it is sent \[consumed\]$`
		if err != nil {
			return err
		}
		return resp.Body.Close()
	})
}

func rows(ctx context.Context, p retry.Policy, db *sql.DB) (int, error) {
	found, err := db.QueryContext(ctx, "SELECT 1")
	if err != nil {
		return 0, err
	}
	defer found.Close()
	return retry.DoValue(ctx, p, func(context.Context) (int, error) {
		n := 0
		for found.Next() { // want `^found comes from outside of retry.DoValue and the first attempt reads it to its end: run the query in each attempt \[consumed\]$`
			n++
		}
		return n, found.Err()
	})
}

type upload struct {
	policy retry.Policy
	file   *os.File
}

func (u *upload) run(ctx context.Context) error { return retry.Do(ctx, u.policy, u.attempt) }

func (u *upload) attempt(ctx context.Context) error {
	return put(ctx, &input{Body: u.file}) // want `^u.file comes from outside of retry.Do`
}

func generic[T any](ctx context.Context, p retry.Policy, v T) error {
	var buf bytes.Buffer
	if err := json.NewEncoder(&buf).Encode(v); err != nil {
		return err
	}
	op := func(ctx context.Context) error {
		return send(ctx, io.LimitReader(&buf, 1<<20)) // want `^buf comes from outside`
	}
	return retry.Do(ctx, p, op)
}

func handler(w http.ResponseWriter, r *http.Request) {
	_, _ = retry.DoValue(r.Context(), retry.Default(), func(context.Context) (v map[string]any, err error) {
		return v, json.NewDecoder(r.Body).Decode(&v) // want `^r.Body comes from outside of retry.DoValue`
	})
}

var greeting = bytes.NewBufferString("hello")

func named(ctx context.Context) error { return retry.Do(ctx, retry.Default(), greet) }

func greet(ctx context.Context) error {
	_, err := greeting.WriteTo(os.Stdout) // want `^greeting comes from outside`
	return err
}
