// Package faults has twelve small programs that retry, each with a different bug
// that only a retry brings out, and a repaired version of each. The tests find the
// bugs with retrytest, retryhttp/httpfault and retrysql/sqlfault, and find nothing
// in the repaired versions. Use them as patterns for your own tests. With the tag
// retrytwice, six of them are found though nothing fails: those whose state survives
// an attempt.
package faults

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/goretry/retry"
)

// send sends a request and returns the body of an answer with status 200.
func send(client *http.Client, req *http.Request) ([]byte, error) {
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s %s: %s", req.Method, req.URL, resp.Status)
	}
	return io.ReadAll(resp.Body)
}

// 1. A body read once: the first attempt reads all of it, so the second one sends
// nothing.

func uploadBroken(ctx context.Context, client *http.Client, p retry.Policy, url string, body io.Reader) error {
	return retry.Do(ctx, p, func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, "PUT", url, body) //retry:vet-ignore consumed the fault that this shows
		if err != nil {
			return err
		}
		_, err = send(client, req)
		return err
	})
}

func upload(ctx context.Context, client *http.Client, p retry.Policy, url string, body io.Reader) error {
	whole, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	return retry.Do(ctx, p, func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, "PUT", url, bytes.NewReader(whole))
		if err != nil {
			return err
		}
		_, err = send(client, req)
		return err
	})
}

// 2. An unbuffered pipe: the first attempt closes it, so no later attempt can read
// from it.

func exportBroken(ctx context.Context, client *http.Client, p retry.Policy, url string, rows []string) error {
	body := encode(rows)
	return retry.Do(ctx, p, func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, "PUT", url, body) //retry:vet-ignore consumed the fault that this shows
		if err != nil {
			return err
		}
		_, err = send(client, req)
		return err
	})
}

func export(ctx context.Context, client *http.Client, p retry.Policy, url string, rows []string) error {
	return retry.Do(ctx, p, func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, "PUT", url, encode(rows))
		if err != nil {
			return err
		}
		_, err = send(client, req)
		return err
	})
}

// encode writes the rows while they are read.
func encode(rows []string) io.Reader {
	r, w := io.Pipe()
	go func() {
		for _, row := range rows {
			if _, err := fmt.Fprintln(w, row); err != nil {
				return // the reader has been closed
			}
		}
		_ = w.Close()
	}()
	return r
}

// 3. A slice appended to: the second attempt begins at the first page again, but
// the names from the first attempt are still in the slice.

func listBroken(ctx context.Context, client *http.Client, p retry.Policy, url string) (names []string, err error) {
	err = retry.Do(ctx, p, func(ctx context.Context) error {
		for page := 1; page <= 2; page++ {
			more, err := get(ctx, client, url+"?page="+strconv.Itoa(page))
			if err != nil {
				return err
			}
			names = append(names, strings.Fields(string(more))...)
		}
		return nil
	})
	return names, err
}

func list(ctx context.Context, client *http.Client, p retry.Policy, url string) ([]string, error) {
	return retry.DoValue(ctx, p, func(ctx context.Context) (names []string, err error) {
		for page := 1; page <= 2; page++ {
			more, err := get(ctx, client, url+"?page="+strconv.Itoa(page))
			if err != nil {
				return nil, err
			}
			names = append(names, strings.Fields(string(more))...)
		}
		return names, nil
	})
}

func get(ctx context.Context, client *http.Client, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		return nil, err
	}
	return send(client, req)
}

// 4. Money added twice: the balance changes in each attempt instead of once.

type account struct {
	Balance int
}

func (a *account) depositBroken(ctx context.Context, save func(context.Context, account) error, amount int) error {
	a.Balance += amount
	return save(ctx, *a)
}

func (a *account) deposit(ctx context.Context, save func(context.Context, account) error, amount int) (account, error) {
	next := account{Balance: a.Balance + amount}
	return next, save(ctx, next)
}

func payInBroken(ctx context.Context, client *http.Client, p retry.Policy, url string, a *account, amount int) error {
	return retry.Do(ctx, p, func(ctx context.Context) error { return a.depositBroken(ctx, saver(client, url), amount) })
}

func payIn(ctx context.Context, client *http.Client, p retry.Policy, url string, a *account, amount int) error {
	next, err := retry.DoValue(ctx, p, func(ctx context.Context) (account, error) { return a.deposit(ctx, saver(client, url), amount) })
	if err == nil {
		*a = next
	}
	return err
}

func saver(client *http.Client, url string) func(context.Context, account) error {
	return func(ctx context.Context, a account) error {
		body, err := json.Marshal(a)
		if err != nil {
			return err
		}
		req, err := http.NewRequestWithContext(ctx, "PUT", url, bytes.NewReader(body))
		if err != nil {
			return err
		}
		_, err = send(client, req)
		return err
	}
}

// 7. A POST without a key: the server cannot tell the second attempt from a
// second order.

func orderBroken(ctx context.Context, client *http.Client, p retry.Policy, url, what string) error {
	return retry.Do(ctx, p, func(ctx context.Context) error {
		return post(ctx, client, url, what, "")
	})
}

func order(ctx context.Context, client *http.Client, p retry.Policy, url, what string) error {
	key := rand.Text()
	return retry.Do(ctx, p, func(ctx context.Context) error {
		return post(ctx, client, url, what, key)
	})
}

func post(ctx context.Context, client *http.Client, url, what, key string) error {
	req, err := http.NewRequestWithContext(ctx, "POST", url, strings.NewReader(what))
	if err != nil {
		return err
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	_, err = send(client, req)
	return err
}

// 8. A Retry-After ignored: the server says when to come back, but the program
// uses its own delays.

func pollBroken(ctx context.Context, client *http.Client, p retry.Policy, url string) error {
	return retry.Do(ctx, p, func(ctx context.Context) error {
		_, err := get(ctx, client, url)
		return err
	})
}

func poll(ctx context.Context, client *http.Client, p retry.Policy, url string) error {
	return retry.Do(ctx, p, func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return nil
		}
		err = fmt.Errorf("GET %s: %s", url, resp.Status)
		if seconds, bad := strconv.Atoi(resp.Header.Get("Retry-After")); bad == nil {
			err = retry.After(time.Duration(seconds)*time.Second, err)
		}
		return err
	})
}

// 9. A cancel ignored: the request does not have the context, so it goes on after
// the caller has gone away.

func fetchBroken(ctx context.Context, client *http.Client, p retry.Policy, url string) error {
	return retry.Do(ctx, p, func(context.Context) error {
		_, err := get(context.Background(), client, url) //retry:vet-ignore outerctx the fault that this shows
		return err
	})
}

func fetch(ctx context.Context, client *http.Client, p retry.Policy, url string) error {
	return retry.Do(ctx, p, func(ctx context.Context) error {
		_, err := get(ctx, client, url)
		return err
	})
}

// 10. A 404 retried: a page that does not exist will not exist a second later.

func lookUpBroken(ctx context.Context, client *http.Client, p retry.Policy, url string) error {
	return retry.Do(ctx, p, func(ctx context.Context) error {
		_, err := get(ctx, client, url)
		return err
	})
}

func lookUp(ctx context.Context, client *http.Client, p retry.Policy, url string) error {
	return retry.Do(ctx, p, func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		switch err := fmt.Errorf("GET %s: %s", url, resp.Status); resp.StatusCode {
		case http.StatusOK:
			return nil
		case http.StatusNotFound:
			return retry.Permanent(err)
		default:
			return err
		}
	})
}

// 11. A response body leaked: each attempt that fails keeps its connection.

func pingBroken(ctx context.Context, client *http.Client, p retry.Policy, url string) error {
	return retry.Do(ctx, p, func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("GET %s: %s", url, resp.Status)
		}
		return resp.Body.Close()
	})
}

func ping(ctx context.Context, client *http.Client, p retry.Policy, url string) error {
	return retry.Do(ctx, p, func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("GET %s: %s", url, resp.Status)
		}
		return nil
	})
}

// 12. A lock held during the wait: while one goroutine waits for its next attempt,
// no other can read the data.

type cache struct {
	mu    sync.Mutex
	value string
}

func (c *cache) refreshBroken(ctx context.Context, client *http.Client, p retry.Policy, url string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return retry.Do(ctx, p, func(ctx context.Context) error { //retry:vet-ignore held the fault that this shows
		value, err := get(ctx, client, url)
		if err == nil {
			c.value = string(value)
		}
		return err
	})
}

func (c *cache) refresh(ctx context.Context, client *http.Client, p retry.Policy, url string) error {
	value, err := retry.DoValue(ctx, p, func(ctx context.Context) ([]byte, error) {
		return get(ctx, client, url)
	})
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.value = string(value)
	return nil
}
