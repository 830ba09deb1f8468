package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrydialect"
)

// A dialect is a way to write a policy.
type dialect struct {
	key  string // what a policy is under in a larger file
	read func(decode func(any) error) (retry.Policy, error)
}

var dialects = map[string]dialect{
	"retry":  {"retry", readPolicy},
	"tasker": {"retry", readDialect[retrydialect.Tasker]},
	"argyll": {"work_config", readDialect[retrydialect.Argyll]},
}

func dialectNames() []string { return slices.Sorted(maps.Keys(dialects)) }

func readPolicy(decode func(any) error) (p retry.Policy, err error) {
	if err := decode(&p); err != nil {
		return p, err
	}
	return p, p.Validate()
}

func readDialect[T interface{ Policy() (retry.Policy, error) }](decode func(any) error) (p retry.Policy, err error) {
	var block T
	if err := decode(&block); err != nil {
		return p, err
	}
	return block.Policy()
}

// load reads the policy in a file, or in stdin if there is none. The error is
// one line that names the file.
func load(file string, stdin io.Reader, d dialect) (retry.Policy, error) {
	name, read := file, func() ([]byte, error) { return os.ReadFile(file) }
	if file == "" || file == "-" {
		name, read = "standard input", func() ([]byte, error) { return io.ReadAll(stdin) }
	}
	data, err := read()
	if err != nil {
		return retry.Policy{}, fmt.Errorf("plan: %w", err)
	}
	decode := decodeYAML
	if filepath.Ext(file) == ".json" || filepath.Ext(file) == "" && json.Valid(data) {
		decode = decodeJSON
	}
	p, err := d.read(func(v any) error { return decode(data, d.key, v) })
	if err != nil {
		return retry.Policy{}, fmt.Errorf("%s: %s", name, strings.Join(strings.Fields(err.Error()), " "))
	}
	return p, nil
}

func errEmpty(key string) error {
	return fmt.Errorf("there is no policy in it: write one, such as {max_attempts: 5}, or one under %s", key)
}

// decodeYAML decodes a document, or what it has under key, into v.
func decodeYAML(data []byte, key string, v any) error {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var document yaml.Node
	switch err := dec.Decode(&document); {
	case err == io.EOF:
		return errEmpty(key)
	case err != nil:
		return err
	}
	if err := dec.Decode(new(yaml.Node)); err != io.EOF {
		return errors.New("it holds more than one document: keep one")
	}
	// Keys that are there twice show only when a document is decoded.
	if err := document.Decode(new(any)); err != nil {
		return err
	}
	block := document.Content[0]
	under := map[any]yaml.Node{} // with the keys that are merged in
	if block.Kind == yaml.MappingNode {
		if err := block.Decode(&under); err != nil {
			return err
		}
	}
	inner, ok := under[key]
	if ok {
		block = &inner
	}
	if block.ShortTag() == "!!null" {
		return errEmpty(key)
	}
	return orUnder(key, ok, block.Decode(v))
}

// decodeJSON decodes an object, or what it has under key, into v.
func decodeJSON(data []byte, key string, v any) error {
	var object map[string]json.RawMessage
	var syntax *json.SyntaxError
	err := json.Unmarshal(data, &object)
	if errors.As(err, &syntax) {
		return fmt.Errorf("line %d: %w", 1+bytes.Count(data[:syntax.Offset], []byte("\n")), err)
	}
	// Anything else that is wrong is wrong for v too, which says more of it.
	block, ok := object[key]
	if ok {
		if err := checkTwice(data); err != nil {
			return err
		}
		data = block
	}
	if string(bytes.TrimSpace(data)) == "null" {
		return errEmpty(key)
	}
	return orUnder(key, ok, json.Unmarshal(data, v))
}

// checkTwice returns an error for a key that is there twice in a JSON object,
// of which json.Unmarshal keeps the last. What is inside of its values is for
// those who decode them.
func checkTwice(object []byte) error {
	dec := json.NewDecoder(bytes.NewReader(object))
	if _, err := dec.Token(); err != nil {
		return err
	}
	seen := map[json.Token]bool{}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return err
		}
		if seen[key] {
			return fmt.Errorf("key %q is there twice: keep one", key)
		}
		seen[key] = true
		if err := dec.Decode(new(json.RawMessage)); err != nil {
			return err
		}
	}
	return nil
}

// orUnder adds to the error of a file that is no policy itself where else one
// could be.
func orUnder(key string, found bool, err error) error {
	if err == nil || found || !strings.Contains(err.Error(), "unknown key") {
		return err
	}
	return fmt.Errorf("%w: write a policy, or one under %s", err, key)
}
