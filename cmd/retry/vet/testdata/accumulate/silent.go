package accumulate

import (
	"bufio"
	"context"
	"fmt"
	"time"

	"github.com/goretry/retry"
)

// What is added last cannot be added again.
func addedLast(ctx context.Context, c client, p retry.Policy) (all []item, err error) {
	for token := ""; err == nil; {
		err = retry.Do(ctx, p, func(ctx context.Context) error {
			page, next, err := c.page(ctx, token)
			if err != nil {
				return fmt.Errorf("page %q: %w", token, err)
			}
			all = append(all, page...)
			token = next
			return nil
		})
	}
	return all, err
}

func addedAnyway(ctx context.Context, c client, p retry.Policy) (all []item, err error) {
	err = retry.Do(ctx, p, func(ctx context.Context) error {
		page, _, err := c.page(ctx, "")
		all = append(all, page...)
		return err
	})
	return all, err
}

func failedBefore(ctx context.Context, c client, p retry.Policy) (all []item, err error) {
	err = retry.Do(ctx, p, func(ctx context.Context) error {
		page, _, err := c.page(ctx, "")
		all = append(all, page...)
		c.each(ctx, func(item) {})
		if err != nil {
			return fmt.Errorf("page: %w", err)
		}
		return nil
	})
	return all, err
}

func failedWithoutHarm(ctx context.Context, c client, p retry.Policy) (all []item, err error) {
	err = retry.Do(ctx, p, func(ctx context.Context) error {
		page, _, err := c.page(ctx, "")
		if err != nil {
			return err
		}
		all = append(all, page...)
		if _, _, err := c.page(ctx, "more"); err != nil {
			fmt.Println(err)
		}
		return nil
	})
	return all, err
}

// An operation that goes on where the last attempt stopped.
func cursor(ctx context.Context, c client, p retry.Policy) (all []item, err error) {
	token := ""
	err = retry.Do(ctx, p, func(ctx context.Context) error {
		for {
			page, next, err := c.page(ctx, token)
			if err != nil {
				return err
			}
			all = append(all, page...)
			if token = next; token == "" {
				return nil
			}
		}
	})
	return all, err
}

func offset(ctx context.Context, p retry.Policy, list func(ctx context.Context, offset int) ([]item, error)) (all []item, err error) {
	err = retry.Do(ctx, p, func(ctx context.Context) error {
		for {
			page, err := list(ctx, len(all))
			if err != nil || len(page) == 0 {
				return err
			}
			all = append(all, page...)
		}
	})
	return all, err
}

func upload(ctx context.Context, p retry.Policy, data []byte, send func(ctx context.Context, data []byte) (int, error)) (sent int, err error) {
	err = retry.Do(ctx, p, func(ctx context.Context) error {
		for sent < len(data) {
			n, err := send(ctx, data[sent:])
			sent += n
			if err != nil {
				return err
			}
		}
		return nil
	})
	return sent, err
}

func done(ctx context.Context, c client, p retry.Policy, tokens []string) (all []item, err error) {
	done := map[string]bool{}
	err = retry.Do(ctx, p, func(ctx context.Context) error {
		for _, token := range tokens {
			if done[token] {
				continue
			}
			page, _, err := c.page(ctx, token)
			if err != nil {
				return err
			}
			all = append(all, page...)
			done[token] = true
		}
		return nil
	})
	return all, err
}

type set struct{}

func (*set) add(string) bool { return true }

func doneByMethod(ctx context.Context, c client, p retry.Policy, seen *set) (all []item, err error) {
	err = retry.Do(ctx, p, func(ctx context.Context) error {
		return c.each(ctx, func(i item) {
			if seen.add(i.ID) {
				all = append(all, i)
			}
		})
	})
	return all, err
}

func consumed(ctx context.Context, p retry.Policy, lines *bufio.Scanner, send func(context.Context, string) error) (sent []string, err error) {
	err = retry.Do(ctx, p, func(ctx context.Context) error {
		for lines.Scan() {
			sent = append(sent, lines.Text())
			if err := send(ctx, lines.Text()); err != nil {
				return err
			}
		}
		return lines.Err()
	})
	return sent, err
}

func channel(ctx context.Context, p retry.Policy, work <-chan item, send func(context.Context, item) error) (done []item, err error) {
	err = retry.Do(ctx, p, func(ctx context.Context) error {
		for i := range work {
			done = append(done, i)
			if err := send(ctx, i); err != nil {
				return err
			}
		}
		return nil
	})
	return done, err
}

// Records of the attempts, not of their results.
func records(ctx context.Context, c client, p retry.Policy) (err error) {
	var (
		calls    int
		failures []error
		took     time.Duration
		times    []time.Time
		created  []string
		trace    []string
	)
	err = retry.Do(ctx, p, func(ctx context.Context) error {
		calls++
		start := time.Now()
		times = append(times, start)
		trace = append(trace, fmt.Sprintf("attempt %d", calls))
		created = append(created, start.String())
		for _, token := range []string{"a", "b"} {
			_, _, err := c.page(ctx, token)
			took += time.Since(start)
			if err != nil {
				failures = append(failures, err)
				return err
			}
		}
		return nil
	})
	fmt.Println(calls, failures, took, times, created, trace)
	return err
}

// A map that an attempt writes again has the same keys.
func rewritten(ctx context.Context, c client, p retry.Policy) (byID map[string]item, err error) {
	byID = map[string]item{}
	err = retry.Do(ctx, p, func(ctx context.Context) error {
		for _, token := range []string{"a", "b"} {
			page, _, err := c.page(ctx, token)
			if err != nil {
				return err
			}
			for _, i := range page {
				byID[i.ID] = i
			}
		}
		return nil
	})
	return byID, err
}

// A method that may begin anew.
func (r *report) reset() { r.items = nil }

func (r *report) reload(ctx context.Context) error {
	return retry.Do(ctx, r.policy, func(ctx context.Context) error {
		r.reset()
		return r.client.each(ctx, func(i item) { r.items = append(r.items, i) })
	})
}
