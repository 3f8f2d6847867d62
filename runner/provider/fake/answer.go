package fake

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"math"
	"strconv"
)

// created stands in every answer: answers are the same in every run, byte for byte (their request ids are not).
const created = 1735689600

// words are one token each in the usual encodings, with the blank before them.
var words = [...]string{" the", " ticket", " is", " about", " an", " order", " and", " asks", " for", " help", " with", " a", " refund", " that", " was", " late"}

// answer appends the body of a complete answer in the shape of the call's API.
func (s *Server) answer(dst []byte, c *call) []byte {
	h := mix(s.cfg.Seed, c.bodyID)
	switch c.api {
	case apiResponses:
		return s.appendResponse(dst, c, h)
	case apiEmbeddings:
		return s.appendEmbeddings(dst, c, h)
	case apiModerations:
		return appendModeration(dst, c, h)
	case apiMessages:
		return s.appendMessage(dst, c, h)
	case apiGenerate:
		return s.appendGemini(dst, c, h)
	case apiEmbed:
		return s.appendGeminiEmbedding(dst, c, h)
	}
	chat := c.api == apiChat
	dst = append(dst, `{"id":"`...)
	if chat {
		dst = append(dst, `chatcmpl-`...)
	} else {
		dst = append(dst, `cmpl-`...)
	}
	dst = appendHex(dst, h)
	if chat {
		dst = append(dst, `","object":"chat.completion","created":`...)
	} else {
		dst = append(dst, `","object":"text_completion","created":`...)
	}
	dst = strconv.AppendInt(dst, created, 10)
	dst = append(append(append(dst, `,"model":"`...), c.model...), `","choices":[`...)
	for i := range c.choices {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = s.appendChoice(dst, c, h+uint64(i), i)
	}
	dst = append(dst, `],"usage":`...)
	dst = appendUsage(dst, "prompt", "completion", c)
	return append(dst, `,"service_tier":"default","system_fingerprint":"fp_mock"}`...)
}

// appendChoice writes one choice of a chat or text completion.
func (s *Server) appendChoice(dst []byte, c *call, h uint64, index int) []byte {
	dst = append(dst, `{"index":`...)
	dst = strconv.AppendInt(dst, int64(index), 10)
	if c.api == apiChat {
		dst = append(dst, `,"message":{"role":"assistant","content":`...)
		dst = s.appendContent(dst, c, h)
		dst = append(dst, `,"annotations":[]}`...)
	} else {
		dst = append(dst, `,"text":"`...)
		dst = s.appendText(dst, c, h)
		dst = append(dst, '"')
	}
	dst = append(dst, `,"logprobs":null,"finish_reason":"`...)
	dst = append(append(dst, c.finish...), '"')
	if c.fault == "choice_error" {
		dst = append(dst, `,"error":{"code":502,"message":"Upstream provider failed","metadata":{"error_type":"provider_unavailable"}}`...)
	}
	return append(dst, '}')
}

// appendContent writes a chat message's content and refusal fields.
func (s *Server) appendContent(dst []byte, c *call, h uint64) []byte {
	if c.fault == "refusal" {
		return append(dst, `null,"refusal":"I'm sorry, I can't help with that."`...)
	}
	if c.fault == "tool" {
		dst = append(append(dst, `null,"tool_calls":`...), bytes.TrimSpace(encode([]any{c.chatTool()}))...)
		return append(dst, `,"refusal":null`...)
	}
	dst = append(dst, '"')
	dst = s.appendText(dst, c, h)
	return append(dst, `","refusal":null`...)
}

// appendText writes the text of one choice, JSON-escaped.
func (s *Server) appendText(dst []byte, c *call, h uint64) []byte {
	if c.fault == "blank" {
		return dst
	}
	if c.group.cfg.Echo {
		return append(dst, c.text...)
	}
	dst = append(dst, "Mock"...)
	for i := 1; i < (c.out-c.reason)/c.choices; i++ {
		if i%16 == 0 {
			h = mix(h, uint64(i))
		}
		dst = append(dst, words[h>>(4*(i%16))&15]...)
	}
	return dst
}

func (s *Server) appendResponse(dst []byte, c *call, h uint64) []byte {
	dst = append(dst, `{"id":"resp_`...)
	dst = appendHex(dst, h)
	dst = append(dst, `","object":"response","created_at":`...)
	dst = strconv.AppendInt(dst, created, 10)
	switch {
	case c.fault == "choice_error":
		dst = append(dst, `,"status":"failed","error":{"code":"server_error","message":"The model failed to generate a response."},"incomplete_details":null`...)
	case c.finish == "length":
		dst = append(dst, `,"status":"incomplete","error":null,"incomplete_details":{"reason":"max_output_tokens"}`...)
	case c.finish == "content_filter":
		dst = append(dst, `,"status":"incomplete","error":null,"incomplete_details":{"reason":"content_filter"}`...)
	default:
		dst = append(dst, `,"status":"completed","error":null,"incomplete_details":null`...)
	}
	dst = append(append(append(dst, `,"model":"`...), c.model...), `","output":[`...)
	if c.fault == "tool" {
		dst = append(dst, bytes.TrimSpace(encode(c.responseTool(h, toolArguments)))...)
	} else {
		dst = s.appendOutput(dst, c, h)
	}
	dst = append(dst, `],"parallel_tool_calls":true,"store":true,"metadata":{},"usage":`...)
	return append(appendUsage(dst, "input", "output", c), '}')
}

// appendOutput writes a response's message.
func (s *Server) appendOutput(dst []byte, c *call, h uint64) []byte {
	dst = append(dst, `{"type":"message","id":"msg_`...)
	dst = append(appendHex(dst, h), `","status":"completed","role":"assistant","content":[`...)
	if c.fault == "refusal" {
		dst = append(dst, `{"type":"refusal","refusal":"I'm sorry, I can't help with that."}`...)
	} else {
		dst = append(dst, `{"type":"output_text","annotations":[],"text":"`...)
		dst = append(s.appendText(dst, c, h), `"}`...)
	}
	return append(dst, `]}`...)
}

// appendUsage writes usage under either family of names.
func appendUsage(dst []byte, in, out string, c *call) []byte {
	field := func(sep, a, b string, n int) {
		dst = append(append(append(append(dst, sep...), a...), b...), `":`...)
		dst = strconv.AppendInt(dst, int64(n), 10)
	}
	field(`{"`, in, `_tokens`, c.prompt)
	field(`,"`, out, `_tokens`, c.out)
	field(`,"`, `total`, `_tokens`, c.prompt+c.out)
	field(`,"`, in, `_tokens_details":{"cached_tokens`, c.cached)
	field(`},"`, out, `_tokens_details":{"reasoning_tokens`, c.reason)
	return append(dst, `}}`...)
}

func (s *Server) appendEmbeddings(dst []byte, c *call, h uint64) []byte {
	dims := c.dims
	if dims <= 0 {
		dims = c.group.cfg.Dimensions
	}
	dst = append(dst, `{"object":"list","data":[`...)
	for i := range c.inputs {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"object":"embedding","index":`...)
		dst = append(strconv.AppendInt(dst, int64(i), 10), `,"embedding":`...)
		dst = appendVector(dst, h+uint64(i), dims, c.base64)
		dst = append(dst, '}')
	}
	dst = append(append(append(dst, `],"model":"`...), c.model...), `","usage":{"prompt_tokens":`...)
	dst = append(strconv.AppendInt(dst, int64(c.prompt), 10), `,"total_tokens":`...)
	return append(strconv.AppendInt(dst, int64(c.prompt), 10), `}}`...)
}

// appendVector writes a vector of unit length, give or take rounding, as a list of numbers or as base64 of little-endian float32.
func appendVector(dst []byte, h uint64, dims int, packed bool) []byte {
	scale := math.Sqrt(3 / float64(dims)) // even values in [-1, 1) have a mean square of 1/3
	var raw []byte
	dst = append(dst, "[\""[btoi(packed)])
	for i := range dims {
		x := float32((2*unit(mix(h, uint64(i))) - 1) * scale)
		if packed {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
			continue
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendFloat(dst, float64(x), 'f', 6, 32)
	}
	dst = base64.StdEncoding.AppendEncode(dst, raw)
	return append(dst, "]\""[btoi(packed)])
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func appendModeration(dst []byte, c *call, h uint64) []byte {
	dst = appendHex(append(dst, `{"id":"modr-`...), h)
	dst = append(append(append(dst, `","model":"`...), c.model...), `","results":[`...)
	for i := range c.inputs {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"flagged":false,"categories":{"harassment":false,"hate":false,"self-harm":false,"sexual":false,"violence":false},`+
			`"category_scores":{"harassment":0.001,"hate":0.001,"self-harm":0.001,"sexual":0.001,"violence":0.001}}`...)
	}
	return append(dst, `]}`...)
}

func appendHex(dst []byte, h uint64) []byte {
	const digits = "0123456789abcdef"
	for shift := 60; shift >= 0; shift -= 4 {
		dst = append(dst, digits[h>>shift&15])
	}
	return dst
}
