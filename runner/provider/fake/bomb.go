package fake

import (
	"bytes"
	"compress/gzip"
)

// bomb is a small gzip stream that unpacks to 64 MiB of a valid JSON object. Its blanks are one packed MiB, repeated as
// members of the stream.
func (s *Server) bomb() []byte {
	s.bombOnce.Do(func() {
		s.bombBody = bytes.Join([][]byte{
			pack([]byte(`{"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"`)),
			bytes.Repeat(pack(bytes.Repeat([]byte(" "), 1<<20)), 64),
			pack([]byte(`"}}]}`)),
		}, nil)
	})
	return s.bombBody
}

func pack(text []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(text) // a bytes.Buffer takes everything
	_ = z.Close()
	return b.Bytes()
}
