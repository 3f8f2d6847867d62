package runner

import (
	"strings"

	"github.com/llmbatch/llmbatch/runner/provider"
	"github.com/llmbatch/llmbatch/runner/retry"
)

// Again says what it takes to send the dead letters of a class once more with
// a hope of success.
type Again string

// What it takes.
const (
	AgainByItself Again = "by_itself" // the next run does it
	AgainAsked    Again = "asked"     // --retry-failed does it, and it may help
	AgainMended   Again = "mended"    // it fails again unless the line or a setting is changed
)

// Remedy says what can be done about a class of dead letters, and the advice in
// one line.
func Remedy(class string) (Again, string) {
	kind, known := provider.ParseKind(class)
	switch {
	case class == ClassInvalid:
		return AgainMended, "mend the line in the input, then run again"
	case strings.HasPrefix(class, classTooLarge):
		return AgainMended, "lower max_tokens, split the prompt or raise the limit, then --retry-failed=" + class
	case !known:
		return AgainAsked, "--retry-failed=" + class + " sends them once more"
	case retry.Transient(kind):
		return AgainByItself, retry.Advice(kind)
	case kind == provider.KindEmptyAnswer, kind == provider.KindToolCallMalformed:
		return AgainAsked, retry.Advice(kind)
	default:
		return AgainMended, retry.Advice(kind)
	}
}
