package consumed

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"sync"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

// A reader that is rewound or filled can be read again.
func rewound(ctx context.Context, p retry.Policy, file *os.File) error {
	return retry.Do(ctx, p, func(ctx context.Context) error {
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			return retry.Permanent(err)
		}
		return send(ctx, file)
	})
}

func filled(ctx context.Context, p retry.Policy, text string) error {
	var buf bytes.Buffer
	return retry.Do(ctx, p, func(ctx context.Context) error {
		buf.Reset()
		buf.WriteString(text)
		return send(ctx, &buf)
	})
}

func seeker(ctx context.Context, p retry.Policy, body io.ReadSeeker, put func(io.ReadSeeker) error) error {
	return retry.Do(ctx, p, func(context.Context) error { return put(body) })
}

// Reading the Bytes of a buffer does not change the buffer.
func stays(ctx context.Context, p retry.Policy, buf *bytes.Buffer) error {
	return retry.Do(ctx, p, func(ctx context.Context) error { return send(ctx, bytes.NewReader(buf.Bytes())) })
}

func empty(ctx context.Context, p retry.Policy, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	return retry.Do(ctx, p, func(ctx context.Context) error {
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		return resp.Body.Close()
	})
}

func again(ctx context.Context, p retry.Policy, url string, data []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, url, bytes.NewReader(data))
	if err != nil {
		return err
	}
	return retry.Do(ctx, p, func(ctx context.Context) (err error) {
		if req.Body, err = req.GetBody(); err != nil {
			return retry.Permanent(err)
		}
		_, err = http.DefaultClient.Do(req)
		return err
	})
}

// Each attempt makes its own response.
func response(ctx context.Context, p retry.Policy, url string) (data []byte, err error) {
	var resp *http.Response
	err = retry.Do(ctx, p, func(ctx context.Context) (err error) {
		if resp, err = http.Get(url); err != nil {
			return err
		}
		data, err = io.ReadAll(resp.Body)
		return err
	})
	return data, err
}

// Each attempt makes its own row. The query is outside.
func rowByRow(ctx context.Context, p retry.Policy, found *sql.Rows, use func(int) error) error {
	for found.Next() {
		err := retry.Do(ctx, p, func(context.Context) error {
			var n int
			if err := found.Scan(&n); err != nil {
				return err
			}
			return use(n)
		})
		if err != nil {
			return err
		}
	}
	return found.Err()
}

// A connection and a source of random bytes have no end. A terminal waits for a
// person.
func endless(ctx context.Context, p retry.Policy, conn net.Conn, random io.Reader) error {
	source := rand.Reader
	return retry.Do(ctx, p, func(ctx context.Context) error {
		key := make([]byte, 32)
		for _, r := range []io.Reader{random, source} {
			if _, err := io.ReadFull(r, key); err != nil {
				return err
			}
		}
		if err := send(ctx, random); err != nil {
			return err
		}
		if err := send(ctx, source); err != nil {
			return err
		}
		if err := send(ctx, os.Stdin); err != nil {
			return err
		}
		return send(ctx, conn)
	})
}

func final(ctx context.Context, p retry.Policy, body io.Reader, dial func(context.Context) error) error {
	return retry.Do(ctx, p, func(ctx context.Context) error {
		if err := dial(ctx); err != nil {
			return err
		}
		return retry.Permanent(send(ctx, body))
	})
}

// The body is read once and kept.
func kept(ctx context.Context, p retry.Policy, body io.Reader) error {
	var data []byte
	var once sync.Once
	return retry.Do(ctx, p, func(ctx context.Context) (err error) {
		if data == nil {
			if data, err = io.ReadAll(body); err != nil {
				return retry.Permanent(err)
			}
		}
		once.Do(func() { err = send(ctx, body) })
		return send(ctx, bytes.NewReader(data))
	})
}

// Each attempt fills the buffer.
func output(ctx context.Context, p retry.Policy, use func(io.Reader) error) error {
	var out, errs bytes.Buffer
	return retry.Do(ctx, p, func(ctx context.Context) error {
		cmd := exec.CommandContext(ctx, "true")
		cmd.Stdout = &out
		_ = exec.Cmd{Path: "true", Stderr: &errs}
		if err := cmd.Run(); err != nil {
			return errors.Join(err, use(&errs))
		}
		return use(&out)
	})
}

// SetBody does not change the position of a file.
func uploadsFile(ctx context.Context, p retry.Policy, file *os.File) error {
	return retry.Do(ctx, p, func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, "PUT", "https://example.com", nil)
		if err != nil {
			return retry.Permanent(err)
		}
		if err := retryhttp.SetBody(req, file, 0); err != nil {
			return retry.Permanent(err)
		}
		_, err = retryhttp.Result(http.DefaultClient.Do(req))
		return err
	})
}

// These types are not readers.
func none(ctx context.Context, p retry.Policy) error {
	var body io.Reader
	return retry.Do(ctx, p, func(ctx context.Context) error { return send(ctx, body) })
}
