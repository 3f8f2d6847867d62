package provider

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
)

const redacted = "[redacted]"

// maxKeyFile bounds a key file: a longer one is some other file.
const maxKeyFile = 64 << 10

// Secret holds a key that prints as [redacted] whichever way it is printed.
// The zero value is no key. The text stands behind a pointer, since fmt does
// not call methods on the unexported fields of a struct around it.
type Secret struct{ text *string }

// NewSecret makes a Secret of a key as a file or variable holds it. A BOM and
// blanks around it are dropped; control bytes inside and an empty key are
// errors that do not repeat it.
func NewSecret(raw string) (Secret, error) {
	b := bytes.TrimSpace(bytes.TrimPrefix([]byte(raw), []byte("\xef\xbb\xbf")))
	if len(b) == 0 {
		return Secret{}, errors.New("the key is empty")
	}
	for _, c := range b {
		if c < ' ' || c == 0x7f {
			return Secret{}, errors.New("the key has a line break or another control byte inside it")
		}
	}
	s := string(b)
	return Secret{&s}, nil
}

// ReadSecret reads a key from r, at most 64 KiB.
func ReadSecret(r io.Reader) (Secret, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxKeyFile+1))
	if err != nil {
		return Secret{}, err
	}
	if len(b) > maxKeyFile {
		return Secret{}, errors.New("longer than 64 KiB: not a key file")
	}
	return NewSecret(string(b))
}

// ReadSecretFile reads a key from a file. The warning is not empty when others
// than the owner may read the file.
func ReadSecretFile(path string) (s Secret, warning string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return Secret{}, "", err
	}
	defer f.Close()
	if st, err := f.Stat(); err == nil && st.Mode().IsRegular() && st.Mode().Perm()&0o077 != 0 {
		warning = fmt.Sprintf("key file %s can be read by others (mode %04o): chmod 600 it", path, st.Mode().Perm())
	}
	s, err = ReadSecret(f)
	if err != nil {
		return Secret{}, "", fmt.Errorf("key file %s: %w", path, err)
	}
	return s, warning, nil
}

// Reveal returns the key, for a header and for nothing else.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// IsZero reports that there is no key.
func (s Secret) IsZero() bool { return s.text == nil }

// Format prints [redacted] under every verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// String returns [redacted].
func (s Secret) String() string { return redacted }

// GoString returns [redacted].
func (s Secret) GoString() string { return redacted }

// MarshalText returns [redacted]; encoding/json uses it too.
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// LogValue returns [redacted].
func (s Secret) LogValue() slog.Value { return slog.StringValue(redacted) }
