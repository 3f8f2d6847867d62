package estimate

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"strings"
)

// imageSize is the size of an image in pixels; zero is not known.
type imageSize struct{ w, h int }

// imageRule is how a family of models counts images.
type imageRule struct {
	begin      string // of the model's name
	base, tile int    // tile models: base + tile for each 512x512
	patch      int    // patch models: hundredths of a token for each 32x32, at most maxPatches
}

const maxPatches = 1536

// imageRules is searched from the top. Sources: OpenAI's page on images and
// vision; for the gpt-5 patch models what users measured (the page says 1.62
// and 2.46), as reference. gpt-5.2 and later count in patches.
var imageRules = []imageRule{
	{begin: "gpt-4.1-mini", patch: 162},
	{begin: "gpt-4.1-nano", patch: 246},
	{begin: "o4-mini", patch: 172},
	{begin: "gpt-5-mini", patch: 120},
	{begin: "gpt-5-nano", patch: 150},
	{begin: "gpt-5.1", base: 70, tile: 140},
	{begin: "gpt-5.", patch: 120},
	{begin: "gpt-5", base: 70, tile: 140},
	{begin: "gpt-4o-mini", base: 2833, tile: 5667},
	{begin: "gpt-4o", base: 85, tile: 170},
	{begin: "chatgpt-4o", base: 85, tile: 170},
	{begin: "gpt-4.1", base: 85, tile: 170},
	{begin: "gpt-4.5", base: 85, tile: 170},
	{begin: "gpt-4", base: 85, tile: 170},
	{begin: "o1", base: 75, tile: 150},
	{begin: "o3", base: 75, tile: 150},
}

// imageTokens returns what an image costs with a model. An image of unknown
// size is taken for one of 1024x1024, but never for less than flatMedia.
func imageTokens(model string, s imageSize, low bool) int {
	count := func(imageSize) int { return flatMedia }
	switch {
	case strings.Contains(model, "claude"):
		count = func(s imageSize) int { return claudeImage(model, s) }
	case strings.Contains(model, "gemini"):
		count = geminiImage
	default:
		for _, r := range imageRules {
			if strings.HasPrefix(model, r.begin) {
				if low && r.tile > 0 {
					return r.base
				}
				count = r.tokens
				break
			}
		}
	}
	if s.w <= 0 || s.h <= 0 {
		return max(flatMedia, count(imageSize{1024, 1024}))
	}
	return count(imageSize{min(s.w, maxSide), min(s.h, maxSide)})
}

// maxSide is the longest side that is believed, in pixels. No provider takes as
// much; a damaged header may say anything.
const maxSide = 1 << 16

// tokens applies a rule of OpenAI's. Tiles: the image is fitted into 2048x2048,
// then its short side is brought down to 768. Patches: it is scaled down until
// its patches are at most maxPatches.
func (r imageRule) tokens(s imageSize) int {
	w, h := float64(s.w), float64(s.h)
	if r.tile > 0 {
		if k := 2048 / max(w, h); k < 1 {
			w, h = w*k, h*k
		}
		if k := 768 / min(w, h); k < 1 {
			w, h = w*k, h*k
		}
		return r.base + r.tile*cells(w, 512)*cells(h, 512)
	}
	return (min(cells(w, 32)*cells(h, 32), maxPatches)*r.patch + 99) / 100
}

// claudeImage: ceil(w/28)*ceil(h/28) after fitting the long side into 1568
// pixels and at most about 1,600 tokens; from Opus 4.7 on 2576 and 4,784
// (Anthropic's page on vision).
func claudeImage(model string, s imageSize) int {
	side, most := 1568.0, 1600
	if n, d := Factor(model); n*3 == d*5 {
		side, most = 2576, 4784
	}
	w, h := float64(s.w), float64(s.h)
	if k := side / max(w, h); k < 1 {
		w, h = w*k, h*k
	}
	return min(cells(w, 28)*cells(h, 28), most)
}

// geminiImage: 258 for an image of up to 384x384, else 258 for each tile of
// 768x768 (Gemini 2).
func geminiImage(s imageSize) int {
	if s.w <= 384 && s.h <= 384 {
		return 258
	}
	return 258 * cells(float64(s.w), 768) * cells(float64(s.h), 768)
}

// cells is the number of squares of a side that cover a length; a hair over a
// whole number, from scaling, does not begin another.
func cells(length float64, side int) int {
	return max(1, int((length-1e-6)/float64(side))+1)
}

// headerBytes is how much of an image is looked at for its size: the beginning
// of a JPEG may hold metadata of 64 KiB a segment before the size comes.
const headerBytes = 256 << 10

// dataURLSize returns the size of the image in a data URL; any other URL gives
// zero.
func dataURLSize(url quoted) imageSize {
	if !bytes.HasPrefix(url.raw, []byte("data:")) {
		return imageSize{}
	}
	comma := bytes.IndexByte(url.raw, ',')
	if comma < 0 || !bytes.HasSuffix(url.raw[:comma], []byte(";base64")) {
		return imageSize{}
	}
	url.raw = url.raw[comma+1:]
	return base64Size(url)
}

// base64Size returns the size of an image in base64, or zero.
func base64Size(data quoted) imageSize {
	data.raw = data.raw[:min(len(data.raw), headerBytes)]
	text := data.plain() // some encoders escape the slash
	size := imageSize{}
	// Most sizes stand within the first bytes; a JPEG's may not.
	for _, n := range []int{64, len(text)} {
		n = min(n, len(text)) &^ 3
		b := make([]byte, base64.StdEncoding.DecodedLen(n))
		k, _ := base64.StdEncoding.Decode(b, text[:n])
		if size = headerSize(b[:k]); size.w > 0 && size.h > 0 {
			return size
		}
	}
	return imageSize{}
}

// headerSize reads the size from the first bytes of a PNG, GIF, WebP or JPEG
// file.
func headerSize(b []byte) imageSize {
	switch {
	case len(b) >= 24 && string(b[:8]) == "\x89PNG\r\n\x1a\n":
		return imageSize{int(binary.BigEndian.Uint32(b[16:])), int(binary.BigEndian.Uint32(b[20:]))}
	case len(b) >= 10 && (string(b[:6]) == "GIF87a" || string(b[:6]) == "GIF89a"):
		return imageSize{int(binary.LittleEndian.Uint16(b[6:])), int(binary.LittleEndian.Uint16(b[8:]))}
	case len(b) >= 30 && string(b[:4]) == "RIFF" && string(b[8:12]) == "WEBP":
		return webpSize(b)
	case len(b) >= 4 && b[0] == 0xFF && b[1] == 0xD8:
		return jpegSize(b)
	}
	return imageSize{}
}

func webpSize(b []byte) imageSize {
	switch string(b[12:16]) {
	case "VP8 ":
		return imageSize{int(binary.LittleEndian.Uint16(b[26:])) & 0x3FFF, int(binary.LittleEndian.Uint16(b[28:])) & 0x3FFF}
	case "VP8L":
		n := binary.LittleEndian.Uint32(b[21:])
		return imageSize{int(n&0x3FFF) + 1, int(n>>14&0x3FFF) + 1}
	case "VP8X":
		uint24 := func(b []byte) int { return int(b[0]) | int(b[1])<<8 | int(b[2])<<16 }
		return imageSize{uint24(b[24:]) + 1, uint24(b[27:]) + 1}
	}
	return imageSize{}
}

// jpegSize goes from segment to segment to the frame header.
func jpegSize(b []byte) imageSize {
	for i := 2; i+9 <= len(b) && b[i] == 0xFF; {
		switch c := b[i+1]; {
		case c == 0xFF:
			i++
		case c >= 0xC0 && c <= 0xCF && c != 0xC4 && c != 0xC8 && c != 0xCC:
			return imageSize{int(binary.BigEndian.Uint16(b[i+7:])), int(binary.BigEndian.Uint16(b[i+5:]))}
		default:
			i += 2 + int(binary.BigEndian.Uint16(b[i+2:]))
		}
	}
	return imageSize{}
}
