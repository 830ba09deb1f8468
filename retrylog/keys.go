package retrylog

import (
	"slices"
	"strings"
)

// A key describes a key of a log line that this version knows.
type key struct {
	index int  // the index in values.texts, and in the list "fields" if the key is there
	place bool // whether the value names the source of a line, such as a pod
	group bool // whether the value may be an object with keys that name the source of a line
	text  bool // whether a value that is not a JSON string is ignored
}

// The variable `keys` contains all known keys. The keys of the list "fields" come first, and have
// the same indexes as in that list.
var keys = keysOf(fields)

func keysOf(fields []field) map[string]*key {
	all := make(map[string]*key, len(fields))
	for i, f := range fields {
		all[f.key] = &key{index: i}
	}
	return all
}

// The function `indexes` returns the index of each key in a list of key names, which are separated
// by spaces. If a key is not yet in the variable `keys`, the function adds the key.
func indexes(names string) (list []int) {
	for name := range strings.FieldsSeq(names) {
		if keys[name] == nil {
			keys[name] = &key{index: len(keys)}
		}
		list = append(list, keys[name].index)
	}
	return list
}

// These are lists of keys:
//
//   - required: Every event has these keys.
//   - byLog: A line with one of these keys was written by a logger.
//   - loggers: A line with one of these keys is JSON that a program logged. The texts in such a
//     line are not searched for events, because a client could have forged an event in them.
//   - places: These keys name the source of a line. Loggers, Fluent Bit and journald write them.
//     If a line has several of these keys, the first key of this list is used.
//   - groups: The values of these keys may be objects that contain keys of the list `places`.
//   - carried: Under one of these keys, a collector stores the line that a program wrote.
var (
	required = indexes("kind attempt max")
	byLog    = indexes("level msg message")
	loggers  = indexes("level msg severity lvl levelname loglevel log.level logger")
	places   = indexes(
		"pod pod_name k8s.pod.name host hostname host_name host.name instance _HOSTNAME")
	groups  = indexes("kubernetes k8s labels resource attributes")
	carried = indexes("log message MESSAGE")
	_       = indexes("task rule stream _TRANSPORT CONTAINER_ID")
)

func init() {
	for _, k := range keys {
		k.place, k.group = slices.Contains(places, k.index), slices.Contains(groups, k.index)
		k.text = slices.Contains(carried, k.index)
	}
}

// lastKeys maps a kind of event to the last key that Slog always writes for it. For all other
// kinds, the last key is "reason".
var lastKeys = map[string]string{
	"attempt_started": "elapsed", "attempt_finished": "took", "retry_scheduled": "err",
}
