// Package docs has what the snippets of docs/vet.md use.
package docs

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
	"github.com/goretry/retry/retrysql"
)

var (
	_ = bytes.NewReader
	_ = errors.Is
	_ = rand.New
	_ = time.Second
	_ = retrysql.Transient
	_ = sql.ErrNoRows
	_ = log.Println
	_ = http.Get
	_ = retryhttp.Check
)

func snippet(
	ctx context.Context, policy retry.Policy, db *sql.DB, conn *pgx.Conn,
	ping, confirm func(context.Context) error,
	upload func(context.Context, io.Reader) error,
	fetch func(context.Context) ([]string, error),
	save func(pgx.Tx) error,
	data []byte, url string, pings []func(context.Context) error, results chan error,
	all []string,
) (err error) {
	{
		// the snippet
	}
	return use(all)
}

func use([]string) error { return nil }
