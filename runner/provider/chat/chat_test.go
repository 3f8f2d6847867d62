package chat

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/llmbatch/llmbatch/runner/provider"
)

func TestTakeAndLeft(t *testing.T) {
	r, err := Decode([]byte(`{"model":"m","messages":[{"role":"user","content":"x"}],"top_k":4,"zeta":1,"null":null}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(r.Take("top_k")); got != "4" || r.Take("top_k") != nil {
		t.Errorf("got %q, want 4, once", got)
	}
	if err := r.Left(); err == nil || !strings.HasPrefix(err.Error(), "zeta:") {
		t.Errorf("got %v, want zeta named", err)
	}
	r.Take("zeta")
	if err := r.Left(); err != nil {
		t.Errorf("got %v, want nothing left", err)
	}
}

func TestEncodeKeepsText(t *testing.T) {
	a := Answer{ID: "i", Choices: []Choice{{Text: "<a> & \u2028\"", Finish: provider.FinishRefused}, {Images: []string{"data:image/png;base64,AA"}, Finish: "stop"}}}
	raw, err := a.Encode()
	if err != nil {
		t.Fatal(err)
	}
	var back struct {
		Choices []struct {
			Message struct {
				Content string
				Images  []struct {
					URL struct{ URL string } `json:"image_url"`
				}
			}
			Finish string `json:"finish_reason"`
		}
		Usage json.RawMessage
	}
	if err := json.Unmarshal(raw, &back); err != nil {
		t.Fatal(err)
	}
	if c := back.Choices[0]; c.Message.Content != a.Choices[0].Text || c.Finish != "content_filter" || !strings.Contains(string(raw), "<a> &") {
		t.Errorf("got %s", raw)
	}
	if c := back.Choices[1]; len(c.Message.Images) != 1 || c.Message.Images[0].URL.URL != a.Choices[1].Images[0] {
		t.Errorf("got %s", raw)
	}
	if back.Usage != nil {
		t.Errorf("got usage %s, want none where none was said", back.Usage)
	}
}

// FuzzDecode: any body is taken or refused by name; what is taken asks for at
// least one answer and has calls whose arguments are objects.
func FuzzDecode(f *testing.F) {
	f.Add(`{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AA"}}]}],"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"auto","stop":["a"],"n":2}`)
	f.Add(`{"messages":[{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"a","content":"x"}],"response_format":{"type":"json_schema","json_schema":{"schema":{}}}}`)
	f.Fuzz(func(t *testing.T, body string) {
		r, err := Decode([]byte(body))
		if err != nil {
			return
		}
		if r.N < 1 {
			t.Errorf("%q: asks for %d answers", body, r.N)
		}
		for _, m := range r.Messages {
			for _, c := range m.Calls {
				var object map[string]json.RawMessage
				if json.Unmarshal(c.Arguments, &object) != nil || object == nil {
					t.Errorf("%q: arguments %q", body, c.Arguments)
				}
			}
		}
	})
}
