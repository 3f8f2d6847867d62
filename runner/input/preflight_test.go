package input

import (
	"fmt"
	"strings"
	"testing"
)

func TestProblems(t *testing.T) {
	plain := func(s string) string { return `{"prompt":"x",` + s + `}` }
	batch := func(s string) string { return `{"custom_id":"a","method":"POST",` + s + `}` }
	for _, c := range []struct{ line, want string }{
		{`{"custom_id":"a","prompt":"x","temperature":NaN}`, "line 1, column 45: NaN is not JSON: write null, true, false or a number, or leave the field out"},
		{`{"prompt":"x","temperature":-Infinity}`, "line 1, column 29: -Infinity is not JSON: write null, true, false or a number, or leave the field out"},
		{plain(`"temperature":1e400`), `line 1, column 29: temperature "1e400" is not between 0 and 2`},
		{plain(`"temperature":-0.1`), `line 1, column 29: temperature "-0.1" is not between 0 and 2`},
		{plain(`"temperature":"0.1"`), "line 1, column 29: temperature must be a number, not a string"},
		{plain(`"max_tokens":1.5`), "line 1, column 28: max_tokens must be a whole number, not 1.5"},
		{plain(`"max_tokens":-1`), "line 1, column 28: max_tokens must be a whole number, not -1"},
		{plain(`"seed":[]`), "line 1, column 22: seed must be a whole number, not an array"},
		{plain(`"model":3`), "line 1, column 23: model must be a string, not 3"},
		{plain(`"task":{}`), "line 1, column 22: task must be a string, not an object"},
		{plain(`"priority":"urgent"`), `line 1, column 26: priority must be "high", "normal" or "low"`},
		{plain(`"priority":1`), `line 1, column 26: priority must be "high", "normal" or "low"`},
		{plain(`"retry":true`), `line 1, column 23: retry must be "never" or left out`},
		{plain(`"id":null`), "line 1, column 20: id is null: give a string or an integer, or leave it out"},
		{plain(`"id":""`), "line 1, column 20: id is empty: give a string or an integer, or leave it out"},
		{plain(`"id":12.0`), "line 1, column 20: id must be a string or an integer, not 12.0"},
		{plain(`"id":1e3`), "line 1, column 20: id must be a string or an integer, not 1e3"},
		{plain(`"custom_id":true`), "line 1, column 27: custom_id must be a string or an integer, not true"},
		{plain(`"custom_id":{"a":1}`), "line 1, column 27: custom_id must be a string or an integer, not an object"},
		{`{"custom_id":"a","custom_id":"b","prompt":"x"}`, `line 1, column 18: key "custom_id" is there twice (first at column 2)`},
		{`{"custom_id":"a","custom_\u0069d":"b","prompt":"x"}`, `line 1, column 18: key "custom_id" is there twice (first at column 2)`},
		{batch(`"url":"/v1/completions","body":{"model":"m","n":1,"n":2}`), `line 1, column 84: key "n" is there twice (first at column 78)`},
		{"{\"prompt\":\"\xff\"}", "line 1, column 12: byte 0xff is not UTF-8: convert the file to UTF-8"},
		{"{\"prompt\":\"é\xed\xa0\x80\"}", "line 1, column 13: byte 0xed is not UTF-8: convert the file to UTF-8"},
		{"{\"prompt\":\"a\tb\"}", "line 1, column 13: control character '\\t' in a string: write it as \\u0009"},
		{`{"prompt":"x"`, "line 1, column 14: the line ends inside an object: one JSON object a line, on one line (jq -c . makes it so)"},
		{`{`, "line 1, column 2: the line ends inside an object: one JSON object a line, on one line (jq -c . makes it so)"},
		{`{"prompt":"x`, "line 1, column 11: the string that starts here has no closing quote"},
		{`{"prompt":"x",}`, "line 1, column 15: a key in double quotes should be here, not '}'"},
		{`{'prompt':"x"}`, `line 1, column 2: a key in double quotes should be here, not '\''`},
		{`{"prompt":"x"} {"prompt":"y"}`, "line 1, column 16: text after the object: '{'; one JSON object a line"},
		{`[{"prompt":"x"}]`, "line 1, column 1: a line must be a JSON object, not an array (jq -c '.[]' turns an array into lines)"},
		{`prompt`, "line 1, column 1: a line must be a JSON object, not 'p'"},
		{`{"prompt":"x","a":01}`, "line 1, column 19: a number may not start with 0"},
		{`{"prompt":"x","a":1.}`, "line 1, column 21: a digit should be here, not '}'"},
		{`{"prompt":"x","a":-}`, "line 1, column 20: a digit should be here, not '}'"},
		{`{"prompt":"\x"}`, `line 1, column 12: \'x' is no escape of JSON`},
		{`{"prompt":"\u12g4"}`, `line 1, column 12: \u needs four hexadecimal digits`},
		{`{"prompt":None}`, "line 1, column 11: None is not JSON: write null, true, false or a number, or leave the field out"},
		{`{"a":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + `}`, "line 1, column 1005: arrays and objects nest deeper than 1000"},
		{`{"Prompt":"x"}`, `line 1, column 1: no request: a line has prompt, messages or input, or body with url (or name a field by --prompt-field or --template); field names are case-sensitive: "Prompt" is not "prompt"`},
		{`{}`, "line 1, column 1: no request: a line has prompt, messages or input, or body with url (or name a field by --prompt-field or --template)"},
		{`{"prompt":null}`, "line 1, column 11: prompt must be a string, not null"},
		{`{"prompt":"x","messages":[]}`, "line 1, column 1: a line has one of prompt, messages and input, not 2 of them"},
		{`{"messages":{}}`, "line 1, column 13: messages must be an array, not an object"},
		{`{"messages":["x"]}`, "line 1, column 14: message 1 must be an object, not a string"},
		{`{"messages":[{"role":"user"}, {"content":"x"}]}`, "line 1, column 31: message 2 needs a role that is a string"},
		{`{"input":{"a":1}}`, "line 1, column 10: input must be a string or an array, not an object"},
		{batch(`"body":{}`), `line 1, column 1: a batch line needs a url: add "url": "/v1/chat/completions"`},
		{`{"custom_id":"a","body":{}}`, `line 1, column 1: a batch line needs a url: add "url": "/v1/chat/completions"`},
		{batch(`"url":"/v1/responses"`), "line 1, column 1: a batch line needs a body"},
		{batch(`"url":"/v1/responses","body":"x"`), "line 1, column 63: body must be an object, not a string"},
		{batch(`"url":"/v1/responses","body":{"model":7}`), "line 1, column 72: body.model must be a string that is not empty"},
		{batch(`"url":"/v1/chat/completions","body":{"model":"m","messages":"x"}`), "line 1, column 94: body.messages must be an array, not a string"},
		{`{"method":"GET","url":"/v1/responses","body":{"model":"m"}}`, `line 1, column 11: method must be "POST"`},
		{batch(`"url":"/v1/images","body":{}`), `line 1, column 40: unknown url "/v1/images": one of /v1/chat/completions, /v1/responses, /v1/embeddings, /v1/completions, /v1/moderations`},
		{`{"custom_id":"a","params":{"model":"m"}}`, "line 1, column 27: this is a line of Anthropic's batch file, and the provider has no such route: anthropic, openrouter and ollama have it"},
	} {
		_, rep := preflight(t, open(t, c.line), &Settings{Model: "m"})
		if len(rep.Problems) != 1 || rep.Problems[0].String() != c.want {
			t.Errorf("%s\ngot  %v\nwant %s", c.line, rep.Problems, c.want)
		}
		if rep.Invalid != 1 || rep.Operations != 0 {
			t.Errorf("%s: got %d invalid, %d operations", c.line, rep.Invalid, rep.Operations)
		}
	}
	_, rep := preflight(t, open(t, `{"prompt":"x"}`), &Settings{})
	if want := "line 1, column 1: no model: name one in the line or by --model"; fmt.Sprint(rep.Problems) != "["+want+"]" {
		t.Errorf("got %v, want %s", rep.Problems, want)
	}
}

func TestHostileURL(t *testing.T) {
	for _, url := range []string{
		"http://127.0.0.2/x", "//127.0.0.2/x", "@127.0.0.2/x", "/v1/../../x", `\\\\127.0.0.2`, "/v1/chat/completions?key=1",
		`/v1/chat/completions\r\nX: y`, "/v1/chat/completions/", "v1/chat/completions", " /v1/chat/completions", "", "/v1", `\u002fv1/completions`,
	} {
		line := `{"url":"` + url + `","body":{"model":"m"}}`
		_, rep := preflight(t, open(t, line), &Settings{})
		if len(rep.Problems) != 1 || !strings.HasPrefix(rep.Problems[0].Msg, "unknown url ") {
			t.Errorf("%s: got %v", line, rep.Problems)
		}
	}
}
