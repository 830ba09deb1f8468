package stale

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/goretry/retry"
)

func tx(ctx context.Context, p retry.Policy, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	err = retry.Do(ctx, p, func(ctx context.Context) error {
		_, err := tx.ExecContext(ctx, "UPDATE t SET n = n + 1") // want `tx was begun outside of retry.Do`
		return err
	})
	return errors.Join(err, tx.Commit())
}

func conn(ctx context.Context, p retry.Policy, db *sql.DB) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return retry.Do(ctx, p, func(ctx context.Context) error {
		return conn.PingContext(ctx) // want `conn was connected outside of retry.Do`
	})
}

func written(ctx context.Context, p retry.Policy, d net.Dialer) error {
	conn, err := d.DialContext(ctx, "tcp", "localhost:1")
	if err != nil {
		return err
	}
	return retry.Do(ctx, p, func(context.Context) error {
		_, err := fmt.Fprintln(conn, "hello") // want `conn was connected outside of retry.Do`
		return err
	})
}

func timer(ctx context.Context, p retry.Policy, acks chan error) error {
	timer := time.NewTimer(time.Second)
	return retry.Do(ctx, p, func(context.Context) error {
		select {
		case err := <-acks:
			return err
		case <-timer.C: // want `timer was started outside of retry.Do`
			return errors.New("no ack")
		}
	})
}
