package estimate

import (
	"encoding/base64"
	"encoding/binary"
	"testing"
)

func base64Of(b []byte) string { return base64.StdEncoding.EncodeToString(b) }

func dataURL(b []byte) string { return "data:image/png;base64," + base64Of(b) }

func pngHeader(w, h uint32) []byte {
	b := append([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"), make([]byte, 13)...)
	binary.BigEndian.PutUint32(b[16:], w)
	binary.BigEndian.PutUint32(b[20:], h)
	return append(b, make([]byte, 100)...)
}

// jpegHeader has metadata of the given size before the frame header.
func jpegHeader(w, h uint16, metadata int) []byte {
	b := []byte{0xFF, 0xD8}
	for metadata > 0 {
		n := min(metadata, 60000)
		b = append(b, 0xFF, 0xE1, byte((n+2)>>8), byte(n+2))
		b = append(b, make([]byte, n)...)
		metadata -= n
	}
	b = append(b, 0xFF, 0xC0, 0, 17, 8, byte(h>>8), byte(h), byte(w>>8), byte(w))
	return append(b, make([]byte, 100)...)
}

func webp(kind string, tail ...byte) []byte {
	return append(append([]byte("RIFF\x00\x00\x00\x00WEBP"+kind), tail...), make([]byte, 40)...)
}

func TestImageSize(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		data []byte
		want imageSize
	}{
		{"png", pngHeader(640, 480), imageSize{640, 480}},
		{"gif", []byte("GIF89a\x80\x02\xe0\x01padding"), imageSize{640, 480}},
		{"jpeg", jpegHeader(640, 480, 0), imageSize{640, 480}},
		{"jpeg with metadata", jpegHeader(640, 480, 150000), imageSize{640, 480}},
		{"webp, lossy", webp("VP8 ", 0, 0, 0, 0, 0, 0, 0, 0x9d, 1, 0x2a, 0x80, 2, 0xe0, 1), imageSize{640, 480}},
		{"webp, lossless", webp("VP8L", 0, 0, 0, 0, 0x2f, 0x7f, 0xc2, 0x77, 0), imageSize{640, 480}},
		{"webp, extended", webp("VP8X", 0, 0, 0, 0, 0, 0, 0, 0, 0x7f, 2, 0, 0xdf, 1, 0), imageSize{640, 480}},
		{"png, cut", pngHeader(640, 480)[:20], imageSize{}},
		{"jpeg, cut", jpegHeader(640, 480, 1000)[:500], imageSize{}},
		{"something else", []byte("%PDF-1.7 and so on, for a while, and a while more"), imageSize{}},
		{"nothing", nil, imageSize{}},
	} {
		if got := dataURLSize(quoted{raw: []byte(dataURL(c.data))}); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
	for _, url := range []string{"https://example.com/a.png", "data:", "data:image/png,abc", "data:image/png;base64,!!!!"} {
		if got := dataURLSize(quoted{raw: []byte(url)}); got != (imageSize{}) {
			t.Errorf("%s: got %v, want none", url, got)
		}
	}
}

func TestImageTokens(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		model string
		w, h  int
		low   bool
		want  int
	}{
		{"gpt-4o", 1024, 1024, false, 765},
		{"gpt-4o", 2048, 4096, false, 1105},
		{"gpt-4o", 2048, 4096, true, 85},
		{"gpt-4o", 100, 100, false, 255},
		{"gpt-4o", 0, 0, false, 1500},
		{"gpt-4o-mini", 1024, 1024, false, 2833 + 4*5667},
		{"gpt-4o-mini", 0, 0, false, 2833 + 4*5667},
		{"gpt-4.1", 1024, 1024, false, 765},
		{"gpt-5", 1024, 1024, false, 70 + 4*140},
		{"gpt-5.1", 1024, 1024, false, 70 + 4*140},
		{"o3", 1024, 1024, false, 75 + 4*150},
		{"gpt-4.1-mini", 1024, 1024, false, 1659},
		{"gpt-4.1-nano", 320, 320, false, 246},
		{"o4-mini", 320, 320, false, 172},
		{"gpt-5-mini", 320, 320, false, 120},
		{"gpt-5.2", 4000, 4000, false, 1844},
		{"claude-sonnet-4-5", 1092, 1092, false, 39 * 39},
		{"claude-sonnet-4-5", 4000, 2000, false, 56 * 28},
		{"claude-opus-4-7", 4000, 4000, false, 4784},
		{"gemini-2.5-flash", 384, 384, false, 258},
		{"gemini-2.5-flash", 1000, 700, false, 516},
		{"some-model", 1000, 700, false, 1500},
		{"gpt-4o", 1 << 40, 1, false, 85 + 4*170},
	} {
		if got := imageTokens(c.model, imageSize{c.w, c.h}, c.low); got != c.want {
			t.Errorf("%s with %dx%d: got %d tokens, want %d", c.model, c.w, c.h, got, c.want)
		}
	}
}
