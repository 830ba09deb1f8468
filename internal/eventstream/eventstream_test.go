package eventstream

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// all returns everything that a parser reports: each event, each ID that changed without an event,
// and each new wait.
func all(p *Parser) (told []string, err error) {
	wait := p.Retry
	for err == nil {
		err = p.Next()
		if p.Retry != wait {
			wait = p.Retry
			told = append(told, fmt.Sprint("retry ", wait))
		}
		switch {
		case err != nil:
		case p.Data == nil:
			told = append(told, fmt.Sprintf("id %q", p.ID))
		default:
			told = append(told, fmt.Sprintf("%q %q %q", p.ID, p.Name, p.Data))
		}
	}
	return told, err
}

var anyLineEnd = regexp.MustCompile("\r\n|\r|\n")

// obvious reads a whole stream as the standard says, step by step.
func obvious(stream []byte) (told []string) {
	lines := anyLineEnd.Split(strings.TrimPrefix(string(stream), "\ufeff"), -1)
	lines = lines[:len(lines)-1] // the last line has no line end
	name, data, buffered, id, wait := "", "", "", "", time.Duration(0)
	reported := wait
	for _, line := range lines {
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "":
			if wait != reported {
				reported = wait
				told = append(told, fmt.Sprint("retry ", wait))
			}
			moved := id != buffered
			id = buffered
			if data != "" {
				told = append(told, fmt.Sprintf("%q %q %q", id, name, strings.TrimSuffix(data, "\n")))
			} else if moved {
				told = append(told, fmt.Sprintf("id %q", id))
			}
			name, data = "", ""
		case field == "event":
			name = value
		case field == "data":
			data += value + "\n"
		case field == "id" && !strings.Contains(value, "\x00"):
			buffered = value
			if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 127 }) || len(value) > 8192 {
				buffered = ""
			}
		case field == "retry" && value != "" && strings.Trim(value, "0123456789") == "":
			ms, err := strconv.ParseInt(value, 10, 64)
			wait = time.Duration(min(ms, 365*24*3600*1000)) * time.Millisecond
			if err != nil {
				wait = 365 * 24 * time.Hour
			}
		}
	}
	if wait != reported {
		told = append(told, fmt.Sprint("retry ", wait))
	}
	return told
}

// merged joins waits that follow each other. The parser reports the last wait of an event, and
// obvious reports the last wait of a block.
func merged(told []string) (out []string) {
	for i, text := range told {
		if strings.HasPrefix(text, "retry") && i+1 < len(told) && strings.HasPrefix(told[i+1], "retry") {
			continue
		}
		out = append(out, text)
	}
	return out
}

// pieces reads in pieces of random sizes, some of them empty.
func pieces(r io.Reader, seed uint64) io.Reader {
	random := rand.New(rand.NewPCG(seed, 0))
	return reads(func(p []byte) (int, error) { return r.Read(p[:min(len(p), random.IntN(8))]) })
}

type reads func([]byte) (int, error)

func (f reads) Read(p []byte) (int, error) { return f(p) }

// The Parser and the function obvious read the same from any bytes, whatever pieces a Read returns.
func FuzzParser(f *testing.F) {
	for _, seed := range []string{
		"data: a\n\n", "\ufeffid: 1\r\ndata:a\r\rdata\r\n\r\n", "event: x\nid\nretry: 10\n\ndata:b", ":c\n\n\n",
		"retry: 99999999999999999999\ndata: a\n\n", "retry: 99999999999999999999A\n", "id: a\x00\nid: b\n\nid: \x01\n\n", "data:\ndata:\n\n", "\xef\xbbdata:1\n\n",
		"even: x\nevents: y\nda: z\ndata : q\ndata:1\n\n", "\r\r\n\n\r", strings.Repeat("data: long\n", 1000) + "\n",
		":" + strings.Repeat("x", 5000) + "\rid:" + strings.Repeat("y", 8193) + "\n\n",
	} {
		f.Add([]byte(seed), uint64(1))
	}
	f.Fuzz(func(t *testing.T, stream []byte, seed uint64) {
		want := merged(obvious(stream))
		for name, r := range map[string]io.Reader{
			"whole":     bytes.NewReader(stream),
			"in pieces": pieces(bytes.NewReader(stream), seed),
			"bytes":     iotest.OneByteReader(bytes.NewReader(stream)),
		} {
			got, err := all(New(r, "", 1<<20))
			require.Equal(t, io.EOF, err)
			require.Equal(t, want, merged(got), name)
		}
	})
}

// The test joins random parts to 2,000 streams, or to 200,000 streams with RETRY_LONG.
func TestParserReadsRandomStreams(t *testing.T) {
	parts := []string{"data", "event", "id", "retry", ":", ": ", "\n", "\r", "\r\n", "\n\n", "1", "x", "\x00", "\x01", "\ufeff", "…", " "}
	streams := uint64(2_000)
	if os.Getenv("RETRY_LONG") != "" {
		streams = 200_000
	}
	for seed := range streams {
		random := rand.New(rand.NewPCG(seed, 1))
		var stream []byte
		for range random.IntN(30) {
			stream = append(stream, parts[random.IntN(len(parts))]...)
		}
		got, err := all(New(pieces(bytes.NewReader(stream), seed), "", 1<<20))
		require.Equal(t, io.EOF, err)
		require.Equal(t, merged(obvious(stream)), merged(got), "%q", stream)
	}
}

// many is a reader of n equal bytes. It counts the bytes that were read, and the most bytes
// that were read at once.
type many struct {
	b    byte
	left int
	read int
	most int
}

func (m *many) Read(p []byte) (int, error) {
	n := min(len(p), m.left)
	if n == 0 {
		return 0, io.EOF
	}
	for i := range p[:n] {
		p[i] = m.b
	}
	m.left, m.read, m.most = m.left-n, m.read+n, max(m.most, n)
	return n, nil
}

// Bytes that belong to no event take no memory and cause no error, however many they are.
func TestCommentsTakeNoMemory(t *testing.T) {
	for name, start := range map[string]string{
		"a comment":                        ":",
		"an unknown field":                 "x",
		"an unknown field with a colon":    "datum: ",
		"a field that starts like another": "datax",
		"blank lines":                      "\n",
		"a comment after a BOM":            "\ufeff:",
	} {
		t.Run(name, func(t *testing.T) {
			body := &many{b: 'x', left: 64 << 20}
			if start == "\n" {
				body.b, body.left = '\n', 1<<20
			}
			p := New(io.MultiReader(strings.NewReader(start), body, strings.NewReader("\ndata: a\n\n")), "", 100)
			require.NoError(t, p.Next())
			assert.Equal(t, "a", string(p.Data))
			assert.Zero(t, body.left)
			assert.LessOrEqual(t, body.most, 4<<10, "the buffer has not grown")
		})
	}
}

// An event may be as long as the limit. A longer event is an error as soon as it is known to be
// longer.
func TestLimit(t *testing.T) {
	for _, limit := range []int{1, 10, longestID - 6, longestID, 100_000} {
		for name, tt := range map[string]struct {
			stream func(n int) string
			end    int // how many bytes beyond the limit are read of an endless line
		}{
			"data":               {func(n int) string { return "data: " + strings.Repeat("x", n) + "\n\n" }, 0},
			"data without space": {func(n int) string { return "data:" + strings.Repeat("x", n) + "\n\n" }, 0},
			"a name":             {func(n int) string { return "event: " + strings.Repeat("x", n) + "\ndata\n\n" }, 0},
			"data after a BOM":   {func(n int) string { return "\ufeffdata: " + strings.Repeat("x", n) + "\r\n\r\n" }, 0},
			"a name after a BOM": {func(n int) string { return "\ufeffevent: " + strings.Repeat("x", n) + "\r\ndata\n\n" }, 0},
			"two lines of data":  {func(n int) string { return "data\ndata:" + strings.Repeat("x", n-1) + "\n\n" }, 0},
		} {
			t.Run(fmt.Sprint(name, " ", limit), func(t *testing.T) {
				for _, in := range []func(io.Reader) io.Reader{func(r io.Reader) io.Reader { return r }, iotest.OneByteReader} {
					require.NoError(t, New(in(strings.NewReader(tt.stream(limit))), "", limit).Next())
					err := New(in(strings.NewReader(tt.stream(limit+1))), "", limit).Next()
					require.ErrorIs(t, err, ErrTooLong)
					require.EqualError(t, err, fmt.Sprintf("the event is longer than the limit of %d bytes", limit))
				}
			})
		}
		for _, field := range []string{"data:", "event:", "id:", "retry:"} {
			t.Run(fmt.Sprint("an endless line ", field, limit), func(t *testing.T) {
				body := &many{b: '1', left: 1 << 30}
				p := New(io.MultiReader(strings.NewReader(field), body), "", limit)
				require.ErrorIs(t, p.Next(), ErrTooLong)
				assert.LessOrEqual(t, body.read, max(longestID, limit)+longest)
			})
		}
		t.Run(fmt.Sprint("endless lines of data ", limit), func(t *testing.T) {
			body := reads(func(p []byte) (int, error) { return copy(p, "data:x\n"), nil })
			p := New(body, "", limit)
			require.ErrorIs(t, p.Next(), ErrTooLong)
			assert.LessOrEqual(t, cap(p.data), 2*limit+4<<10)
		})
	}
	p := New(strings.NewReader("data: a\n\n"), "", int(^uint(0)>>1)) // the largest int
	require.NoError(t, p.Next())
	for _, limit := range []int{0, -1} {
		p = New(io.MultiReader(strings.NewReader("data:"), &many{b: 'x', left: 16 << 20}, strings.NewReader("\n\ndata:"), &many{b: 'x', left: 1 << 30}), "", limit)
		require.NoError(t, p.Next())
		assert.Len(t, p.Data, 16<<20)
		require.EqualError(t, p.Next(), "the event is longer than the limit of 16777216 bytes")
	}
}

// The limit for the length of an ID does not depend on the limit for events.
func TestLimitIsNotThatOfIDs(t *testing.T) {
	for _, length := range []int{11, 5000, longestID} {
		id := strings.Repeat("x", length)
		for _, start := range []string{"", "\ufeff", ":\r\n"} {
			p := New(strings.NewReader(start+"id: "+id+"\r\ndata: a\n\n"), "", 10)
			require.NoError(t, p.Next())
			assert.Equal(t, id, p.ID)
		}
	}
	body := &many{b: 'x', left: 1 << 30}
	p := New(io.MultiReader(strings.NewReader("id: "), body), "", 10)
	require.ErrorIs(t, p.Next(), ErrTooLong)
	assert.LessOrEqual(t, body.read, longestID+longest)
}

// The readers return nothing, or return an error together with bytes, or return more bytes
// after an error.
func TestReaders(t *testing.T) {
	boom := errors.New("boom")
	empty := 0
	p := New(reads(func([]byte) (int, error) { empty++; return 0, nil }), "", 100)
	require.Equal(t, io.ErrNoProgress, p.Next())
	first := empty
	assert.LessOrEqual(t, first, 101)
	require.Equal(t, io.ErrNoProgress, p.Next())
	assert.Equal(t, first, empty, "after this error, the reader is not read again")

	for _, whole := range []string{"data: a\n\n", "data: a\r\r", "data: a\r\n\r", ":\r\ndata: a\r\n\r\n", ":\r\n:\r\n\r\ndata: a\n\n"} {
		left := 1
		p = New(reads(func(b []byte) (int, error) { left--; return copy(b, whole), nil }), "", 100)
		require.NoError(t, p.Next())
		assert.Equal(t, "a", string(p.Data))
		assert.Zero(t, left, "Next returns a complete event without another Read: %q", whole)
	}

	p = New(reads(func(b []byte) (int, error) { return copy(b, "data: a\n\ndata: b\n\ndata: c"), boom }), "7", 100)
	require.NoError(t, p.Next())
	assert.Equal(t, "a", string(p.Data))
	assert.Equal(t, "7", p.ID)
	require.NoError(t, p.Next())
	assert.Equal(t, "b", string(p.Data))
	require.Equal(t, boom, p.Next())
	require.Equal(t, boom, p.Next())
}

// The time for a short line does not grow with the buffer, whether the line ends with CR or LF.
func TestShortLinesInALargeBuffer(t *testing.T) {
	for name, lines := range map[string]string{
		"CR": strings.Repeat("\r", 1<<20), "LF": strings.Repeat("\n", 1<<20), "data, CR": strings.Repeat("data\r", 1<<18),
	} {
		t.Run(name, func(t *testing.T) {
			stream := "data:" + strings.Repeat("x", 2<<20) + "\n\n" + lines + "\r\rdata:end\n\n"
			p := New(strings.NewReader(stream), "", 0)
			var last string
			for p.Next() == nil {
				last = string(p.Data)
			}
			assert.Equal(t, "end", last)
		})
	}
}

// An event allocates only the memory that the caller keeps.
func TestAllocations(t *testing.T) {
	stream := strings.Repeat("event: x\nid: 1\ndata: abc\n\n", 1000)
	p := New(strings.NewReader(strings.Repeat(stream, 12)), "", 1000)
	require.NoError(t, p.Next())
	assert.Zero(t, testing.AllocsPerRun(10, func() {
		for range 1000 {
			_ = p.Next()
		}
	}))
	require.NotNil(t, p.Data)
}
