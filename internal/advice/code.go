package advice

import "slices"

// Code tells kinds of errors apart, for programs.
type Code string

// The codes.
const (
	CodeNotPermitted    Code = "not-permitted"
	CodeNoTarget        Code = "no-target" // no such target, process or profile
	CodeNoMethod        Code = "no-method"
	CodeAmbiguousMethod Code = "ambiguous-method"
	CodeUsage           Code = "usage"
	CodeCommandLine     Code = "command-line" // usage that the help of a command explains; no service tells it
	CodeTooLarge        Code = "too-large"
	CodeBusy            Code = "busy" // try again later
	CodeFailed          Code = "failed"
)

// meaning is how a command and a service tell a code.
type meaning struct{ exit, status int }

// meanings has the exit code and the HTTP status of each code. Package net/http has names for them, but programs that
// sample themselves must not link it for that.
var meanings = map[Code]meaning{
	CodeNotPermitted:    {3, 403}, // forbidden
	CodeNoTarget:        {4, 404}, // not found
	CodeNoMethod:        {1, 404},
	CodeAmbiguousMethod: {1, 409}, // conflict
	CodeUsage:           {2, 400}, // bad request
	CodeCommandLine:     {2, 400},
	CodeTooLarge:        {1, 413}, // content too large
	CodeBusy:            {1, 503}, // service unavailable
	CodeFailed:          {1, 500}, // internal server error
}

// ExitCode returns the exit code of a command that ends with an error of this code.
func (c Code) ExitCode() int { return c.meaning().exit }

// Status returns the HTTP status of an answer that tells an error of this code.
func (c Code) Status() int { return c.meaning().status }

// Codes returns the codes of errors that a command ends with an exit code for, as a service tells them, in order.
func Codes(exit int) (codes []Code) {
	for code, m := range meanings {
		if m.exit == exit && code != CodeCommandLine {
			codes = append(codes, code)
		}
	}
	slices.Sort(codes)
	return codes
}

// meaning returns the meaning of a code. One that another version of ccmapd has told means CodeFailed.
func (c Code) meaning() meaning {
	if m, ok := meanings[c]; ok {
		return m
	}
	return meanings[CodeFailed]
}
