package wire

import (
	"encoding/json"
	"fmt"
	"testing"
)

func TestWalk(t *testing.T) {
	for in, want := range map[string]string{
		`{}`: "", ` { } `: "", `[]`: "", `[ ]`: "", `1`: "", `"{"`: "", `null`: "",
		`{"a":1,"b":"x"}`:                        `a=1;b="x";`,
		` { "a" : { "b" : [ 1 , 2 ] } , "c":[]}`: `a={ "b" : [ 1 , 2 ] };c=[];`,
		`{"a":"}\",\\","\u0062\"":null}`:         `a="}\",\\";b"=null;`,
		"{\"\x95\":null}":                        "\uFFFD=null;",
		`[1, "a,]", {"b":[]} ,[[]]]`:             `1;"a,]";{"b":[]};[[]];`,
	} {
		got := ""
		for name, v := range Fields(json.RawMessage(in)) {
			got += name + "=" + string(v) + ";"
		}
		for v := range Elements(json.RawMessage(in)) {
			got += string(v) + ";"
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}

// FuzzWalk: what is walked through is what encoding/json finds.
func FuzzWalk(f *testing.F) {
	f.Add(`{"a":[1,{"b":"\"}"}],"c":null}`)
	f.Add(`[1,[2],{"x":"]"}]`)
	f.Fuzz(func(t *testing.T, in string) {
		if !json.Valid([]byte(in)) {
			return
		}
		var object map[string]json.RawMessage
		var list []json.RawMessage
		_ = json.Unmarshal([]byte(in), &object)
		_ = json.Unmarshal([]byte(in), &list)
		got := map[string]json.RawMessage{}
		for name, v := range Fields(json.RawMessage(in)) {
			got[name] = v
		}
		if len(object) > 0 && fmt.Sprint(got) != fmt.Sprint(object) {
			t.Errorf("%q: got %s, want %s", in, got, object)
		}
		var elements []json.RawMessage
		for v := range Elements(json.RawMessage(in)) {
			elements = append(elements, v)
		}
		if len(list) > 0 && fmt.Sprint(elements) != fmt.Sprint(list) {
			t.Errorf("%q: got %s, want %s", in, elements, list)
		}
	})
}
