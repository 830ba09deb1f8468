package retryflow

import (
	"fmt"
	"slices"
)

// A Directive says what follows an execution. The zero Directive is none.
type Directive uint8

// The directives, in brackets the text that String and JSON have for each.
const (
	Continue Directive = iota + 1 // on to the next task [continue]
	Retry                         // execute the task again, as the rule's Policy says [retry]
	Jump                          // on to the task that To names [jump]
	Break                         // the pipeline ends well, the tasks that are left are skipped [break]
	Fail                          // the pipeline ends with the outcome's error [fail]
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
		return fmt.Errorf("retryflow: %q is no Directive: write one of %q", text, directiveNames[1:])
	}
	*d = Directive(i)
	return nil
}
