package retryflow

import (
	"fmt"
	"slices"
)

// A Directive says what to do after an attempt. The zero Directive means none.
type Directive uint8

// The directives; the text in brackets is their String and JSON form.
const (
	Continue Directive = iota + 1 // go on to the next task [continue]
	Retry                         // run the task again, as the rule's Policy says [retry]
	Jump                          // go on to the task that To names [jump]
	Break                         // end the pipeline without an error and skip the other tasks [break]
	Fail                          // end the pipeline with the outcome's error [fail]
)

var directiveNames = []string{"", "continue", "retry", "jump", "break", "fail"}

// String returns the name of d: "continue".
func (d Directive) String() string {
	if int(d) < len(directiveNames) {
		return directiveNames[d]
	}
	return fmt.Sprintf("Directive(%d)", uint8(d))
}

// MarshalText returns the name of d, or an error if it has none.
func (d Directive) MarshalText() ([]byte, error) {
	if int(d) < len(directiveNames) {
		return []byte(directiveNames[d]), nil
	}
	return nil, fmt.Errorf("retryflow: %v has no name", d)
}

// UnmarshalText sets d to the directive of that name.
func (d *Directive) UnmarshalText(text []byte) error {
	i := slices.Index(directiveNames, string(text))
	if i < 0 {
		return fmt.Errorf("retryflow: unknown directive %q: write one of %q", text, directiveNames[1:])
	}
	*d = Directive(i)
	return nil
}
