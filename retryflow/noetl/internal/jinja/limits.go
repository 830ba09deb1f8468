package jinja

// These are the limits of a template and of one evaluation.
const (
	maxSource  = 8 << 10 // the largest number of bytes in a template
	maxNesting = 100     // the largest number of nested brackets, operators or values

	// maxSteps is the largest number of operations of an evaluation. To read or compare a member of a
	// list is one operation. To read 256 bytes of a text is also one operation.
	maxSteps = 200_000

	// maxSize is the largest total size, in bytes, of the texts and lists that one evaluation makes.
	// Each member of such a list counts as 16 bytes.
	maxSize = 4 << 20
)

// step adds n to the number of operations of the evaluation. It fails if the sum exceeds maxSteps.
func (e *evaluation) step(n int) {
	if e.steps += n; e.steps > maxSteps || n > maxSteps {
		panic(failf("the expression takes more than %d steps", maxSteps))
	}
}

// grow adds n to the number of bytes in the values that the evaluation has made. It fails if the
// sum exceeds maxSize. Call `grow` before the bytes are allocated.
func (e *evaluation) grow(n int) {
	if n > maxSize || e.size+n > maxSize {
		panic(failf("the expression makes values of more than %d bytes", maxSize))
	}
	e.size += n
	e.countRead(n)
}

// growTimes does the same as the method `grow` does for n*times bytes.
func (e *evaluation) growTimes(n, times int) {
	if n > 0 {
		times = min(times, maxSize/n+1) // so that the product cannot overflow
	}
	e.grow(n * times)
}

// countRead adds one to the number of operations for each 256 bytes of a text of n bytes. Call it
// before an operation reads the whole text. Without countRead, it would cost no more to read a text
// of a megabyte than to read a short text.
func (e *evaluation) countRead(n int) { e.step(n / 256) }

// memberSize is the number of bytes that each member of a list adds to the size that maxSize
// limits.
const memberSize = 16

// text returns s as a Value. It also adds the length of s to the bytes that maxSize limits, as the
// method `grow` does.
func (e *evaluation) text(s string) Value {
	e.grow(len(s))
	return s
}

// visit counts one operation for a value. It fails if the value is nested too deep.
func (e *evaluation) visit(depth int) {
	checkDepth(depth)
	e.step(1)
}

// checkDepth fails if the depth of nesting exceeds maxNesting.
func checkDepth(depth int) {
	if depth > maxNesting {
		panic(failf("a value is nested more than %d deep, or contains itself", maxNesting))
	}
}
