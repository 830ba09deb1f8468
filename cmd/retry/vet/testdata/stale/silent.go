package stale

import (
	"context"
	"database/sql"
	"errors"
	"net"
	"time"

	"github.com/goretry/retry"
)

func savepoint(ctx context.Context, p retry.Policy, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	return retry.Do(ctx, p, func(ctx context.Context) error {
		if _, err := tx.ExecContext(ctx, "SAVEPOINT s"); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "UPDATE t SET n = n + 1")
		return err
	})
}

func packets(ctx context.Context, p retry.Policy) error {
	conn, err := net.Dial("udp", "localhost:1")
	if err != nil {
		return err
	}
	return retry.Do(ctx, p, func(context.Context) error {
		_, err := conn.Write([]byte("?"))
		return err
	})
}

func redialed(ctx context.Context, p retry.Policy) error {
	conn, err := net.Dial("tcp", "localhost:1")
	if err != nil {
		return err
	}
	return retry.Do(ctx, p, func(context.Context) error {
		if _, err := conn.Write([]byte("?")); err != nil {
			conn, _ = net.Dial("tcp", "localhost:1")
			return err
		}
		return nil
	})
}

// A bound of all attempts.
func all(ctx context.Context, p retry.Policy, acks chan error) error {
	deadline := time.After(time.Minute)
	return retry.Do(ctx, p, func(context.Context) error {
		select {
		case err := <-acks:
			return err
		case <-deadline:
			return retry.Permanent(errors.New("no ack in a minute"))
		}
	})
}
