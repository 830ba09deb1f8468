package policyfile

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrydialect"
)

// Native is the name of the library's own form.
const Native = "native"

// A dialect is a form in which a policy can be written.
type dialect struct {
	name string
	keys []string
	read func(*yaml.Node) (retry.Policy, error)
}

// dialects are all dialects, the library's own form first.
var dialects = []dialect{
	{Native, []string{
		"max_attempts", "max_retries", "attempt_cap", "retryable", "backoff",
		"max_delay", "jitter", "max_retry_after", "exact_retry_after", "max_elapsed", "attempt_timeout", "healthy_after",
	}, readNative},
	{"tasker", []string{
		"retryable", "max_attempts", "backoff", "backoff_base_ms", "max_backoff_ms",
	}, readDialect[retrydialect.Tasker]},
	{"argyll", []string{
		"max_retries", "backoff", "init_backoff", "max_backoff", "backoff_type", "parallelism",
	}, readDialect[retrydialect.Argyll]},
	{"taskharbor", []string{
		"base_delay", "max_delay", "multiplier", "jitter", "max_attempts",
	}, readTaskHarbor},
}

// Dialects returns the names that [Block.Read] accepts.
func Dialects() (names []string) {
	for _, d := range dialects {
		names = append(names, d.name)
	}
	return names
}

func readNative(node *yaml.Node) (p retry.Policy, err error) {
	err = node.Decode(&p)
	return p, err
}

func readDialect[T interface{ Policy() (retry.Policy, error) }](node *yaml.Node) (retry.Policy, error) {
	var block T
	if err := node.Decode(&block); err != nil {
		return retry.Policy{}, err
	}
	return block.Policy()
}

func readTaskHarbor(node *yaml.Node) (retry.Policy, error) {
	var block retrydialect.TaskHarbor
	if err := node.Decode(&block); err != nil {
		return retry.Policy{}, err
	}
	return block.Policy()
}

// Read reads the policy in b, and returns it with the name of its dialect. The
// dialect is from. If that is "", it is the library's own form if b uses that,
// or else the only dialect that fits. If b cannot be read or is not valid, Read
// returns every fault.
func (b *Block) Read(from string) (p retry.Policy, name string, faults []*Fault) {
	d, p, err := b.read(from)
	if err == nil {
		err = p.Validate()
	}
	if err != nil {
		return retry.Policy{}, d.name, b.faults(d, err)
	}
	return p, d.name, nil
}

func (b *Block) read(from string) (d dialect, p retry.Policy, err error) {
	if b.node.ShortTag() == "!!null" {
		return d, p, errors.New("there is no policy here: write one, such as {max_attempts: 5}, or one under retry")
	}
	if b.tooLarge() {
		return d, p, errors.New("this is larger than any policy: say by a path where the policy is")
	}
	if i := slices.IndexFunc(dialects, func(d dialect) bool { return d.name == from }); i >= 0 {
		p, err = dialects[i].read(b.node)
		return dialects[i], p, err
	}

	native := dialects[0]
	p, err = native.read(b.node)
	if err == nil || b.writtenAsNative() {
		return native, p, err
	}
	var fit []dialect
	for _, d := range dialects[1:] {
		if _, err := d.read(b.node); err == nil {
			fit = append(fit, d)
		}
	}
	switch len(fit) {
	case 1:
		p, err = fit[0].read(b.node)
		return fit[0], p, err
	case 0:
		// Report the faults in the dialect that was probably intended.
		d = slices.MinFunc(dialects, func(d, e dialect) int { return b.unknown(d) - b.unknown(e) })
		_, err = d.read(b.node)
		return d, p, err
	default:
		names := make([]string, len(fit))
		for i, d := range fit {
			names[i] = d.name
		}
		return d, p, fmt.Errorf("this can be read as %s: say which with -from", strings.Join(names, " or "))
	}
}

// writtenAsNative reports whether b is in the library's own form, apart
// from faults: it has no other keys, and its backoff is not a text or a
// number.
func (b *Block) writtenAsNative() bool {
	return b.unknown(dialects[0]) == 0 && !slices.ContainsFunc(entries(b.node), func(e entry) bool {
		return e.key == "backoff" && resolved(e.value).Kind == yaml.ScalarNode
	})
}

// unknown returns how many keys of b do not belong to a dialect.
func (b *Block) unknown(d dialect) (n int) {
	for _, e := range entries(b.node) {
		if !slices.Contains(d.keys, e.key) {
			n++
		}
	}
	return n
}
