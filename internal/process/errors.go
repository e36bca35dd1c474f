package process

import (
	"fmt"

	"github.com/ccmapd/ccmapd/sampler"
)

// adviceUser says how to get permission, for the message of an error.
const adviceUser = "run ccmapd as the target's user, or give it CAP_PERFMON and CAP_SYS_PTRACE"

// OtherUser explains that the target belongs to another user, or has made
// itself undumpable.
func OtherUser(err error) error {
	return fmt.Errorf("it belongs to another user or forbids tracing: %w (%s): %w", sampler.ErrPermission, adviceUser, err)
}

// As returns an error with the text of err, which errors.Is also finds to be kind. The errors
// of package sampler say less than err.
func As(err, kind error) error { return classified{err, kind} }

type classified struct{ err, kind error }

func (c classified) Error() string   { return c.err.Error() }
func (c classified) Unwrap() []error { return []error{c.err, c.kind} }
