package retrynats

import (
	"context"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// subjectsOf returns the subjects of a consumer's messages. The subjects may contain wildcards.
func subjectsOf(
	ctx context.Context, js jetstream.JetStream, consumer jetstream.Consumer,
) ([]string, error) {
	info, err := consumer.Info(ctx)
	if err != nil {
		return nil, err
	}
	if filter := info.Config.FilterSubject; filter != "" {
		return []string{filter}, nil
	}
	if filters := info.Config.FilterSubjects; len(filters) > 0 {
		return filters, nil
	}
	stream, err := js.Stream(ctx, info.Stream)
	if err != nil {
		return nil, err
	}
	return stream.CachedInfo().Config.Subjects, nil
}

// The function `allowed` reports whether a subject matches one of the patterns in `subjects`. A
// subject of the server itself or of an inbox is never allowed.
func allowed(subjects []string, inbox, subject string) bool {
	for _, forbidden := range []string{"$", inbox + ".", nats.InboxPrefix} {
		if strings.HasPrefix(subject, forbidden) {
			return false
		}
	}
	return slices.ContainsFunc(subjects, func(pattern string) bool {
		return matches(pattern, subject)
	})
}

// The function `matches` reports whether a subject matches a pattern that may contain wildcards. A
// subject that itself contains wildcards never matches.
func matches(pattern, subject string) bool {
	if !isOneSubject(subject) {
		return false
	}
	patterns, tokens := strings.Split(pattern, "."), strings.Split(subject, ".")
	for i, token := range tokens {
		switch {
		case i >= len(patterns):
			return false
		case patterns[i] == ">":
			return true
		case patterns[i] != "*" && patterns[i] != token:
			return false
		}
	}
	return len(patterns) == len(tokens)
}

// isOneSubject reports whether a text can be the subject of a message.
func isOneSubject(text string) bool {
	odd := func(c rune) bool { return c <= ' ' || c == '*' || c == '>' || c == 0x7f }
	return !strings.ContainsFunc(text, odd) && !slices.Contains(strings.Split(text, "."), "")
}
