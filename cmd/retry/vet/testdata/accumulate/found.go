package accumulate

import (
	"context"
	"database/sql"

	"github.com/goretry/retry"
)

type item struct {
	ID    string
	Count int
}

type client struct{}

func (client) page(ctx context.Context, token string) (items []item, next string, err error) {
	return nil, "", nil
}

func (client) each(ctx context.Context, f func(item)) error { return nil }

func pages(ctx context.Context, c client, p retry.Policy) ([]item, error) {
	var all []item
	err := retry.Do(ctx, p, func(ctx context.Context) error {
		for token := ""; ; {
			page, next, err := c.page(ctx, token)
			if err != nil {
				return err
			}
			all = append(all, page...) // want `all keeps what a failed attempt added, so the next one adds it again: begin the operation with all = nil, or build the result inside and assign it at the end`
			if token = next; next == "" {
				return nil
			}
		}
	})
	return all, err
}

func count(ctx context.Context, c client, p retry.Policy) (n int, err error) {
	op := func(ctx context.Context) error {
		for _, token := range []string{"a", "b"} {
			page, _, err := c.page(ctx, token)
			if err != nil {
				return err
			}
			n += len(page) // want `n keeps .* begin the operation with n = 0`
		}
		return nil
	}
	err = retry.Do(ctx, p, op)
	return n, err
}

type report struct {
	client
	policy retry.Policy
	items  []item
	byID   map[string]int
}

func (r *report) fill(ctx context.Context) error { return retry.Do(ctx, r.policy, r.load) }

func (r *report) load(ctx context.Context) error {
	return r.client.each(ctx, func(i item) {
		r.items = append(r.items, i) // want `r.items keeps .* begin the operation with r.items = nil`
	})
}

func (r *report) sum(ctx context.Context, rows func(context.Context) (*sql.Rows, error)) error {
	return retry.Do(ctx, r.policy, func(ctx context.Context) error {
		rows, err := rows(ctx)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var i item
			if err := rows.Scan(&i.ID, &i.Count); err != nil {
				return err
			}
			r.byID[i.ID] += i.Count // want `r.byID keeps .* begin the operation with clear\(r.byID\)`
		}
		return rows.Err()
	})
}

var known []string

func loadKnown(ctx context.Context, p retry.Policy) error { return retry.Do(ctx, p, readKnown) }

func readKnown(ctx context.Context) error {
	items, _, err := client{}.page(ctx, "")
	if err != nil {
		return err
	}
	for _, i := range items {
		known = append(known, i.ID) // want `known keeps`
	}
	_, _, err = client{}.page(ctx, "more")
	return err
}

func generic[T any](ctx context.Context, p retry.Policy, list func(context.Context, int) ([]T, error)) ([]T, error) {
	var all []T
	_, err := retry.DoValue(ctx, p, func(ctx context.Context) (int, error) {
		for i := range 3 {
			some, err := list(ctx, i)
			if err != nil {
				return 0, err
			}
			all = append(all, some...) // want `all keeps`
		}
		return len(known), nil
	})
	return all, err
}

func joined(ctx context.Context, c client, p retry.Policy) (text string, err error) {
	err = retry.Do(ctx, p, func(ctx context.Context) error {
		items, _, err := c.page(ctx, "")
		if err != nil {
			return err
		}
		for _, i := range items {
			text = text + i.ID // want `text keeps .* begin the operation with text = ""`
		}
		_, _, err = c.page(ctx, "more")
		return err
	})
	return text, err
}
