package gemini

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/llmbatch/llmbatch/runner/provider"
	"github.com/llmbatch/llmbatch/runner/provider/chat"
	"github.com/llmbatch/llmbatch/runner/provider/wire"
)

type embedRequest struct {
	Model      string          `json:"model"`
	Content    content         `json:"content"`
	Dimensions json.RawMessage `json:"outputDimensionality,omitempty"`
	TaskType   json.RawMessage `json:"taskType,omitempty"`
}

// encodeEmbeddings translates a request for embeddings: of one text, or of
// many. taskType, which OpenAI's API does not have, passes as it is.
func encodeEmbeddings(body []byte, model string) (q call, err error) {
	var fields map[string]json.RawMessage
	var asked struct {
		Model      string          `json:"model"`
		Input      json.RawMessage `json:"input"`
		Dimensions json.RawMessage `json:"dimensions"`
		Format     string          `json:"encoding_format"`
		TaskType   json.RawMessage `json:"taskType"`
	}
	if json.Unmarshal(body, &fields) != nil || json.Unmarshal(body, &asked) != nil {
		return q, errors.New("the body is no request for embeddings")
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if !slices.Contains([]string{"model", "input", "dimensions", "encoding_format", "taskType", "metadata"}, name) && wire.Truthy(fields[name]) {
			return q, chat.Cannot(name)
		}
	}
	if asked.Format != "" && asked.Format != "float" {
		return q, chat.Cannot(fmt.Sprintf("encoding_format %q", asked.Format))
	}
	if model == "" {
		model = asked.Model
	}
	var texts []string
	var one string
	switch {
	case json.Unmarshal(asked.Input, &one) == nil:
		texts = []string{one}
	case json.Unmarshal(asked.Input, &texts) != nil || len(texts) == 0:
		return q, errors.New("input: want a text or a list of texts; tokens cannot be carried over")
	}
	var out struct {
		Requests []embedRequest `json:"requests"`
	}
	for i := range texts {
		out.Requests = append(out.Requests, embedRequest{
			Model: "models/" + model, Content: content{Parts: []part{{Text: &texts[i]}}},
			Dimensions: asked.Dimensions, TaskType: asked.TaskType,
		})
	}
	q.model, q.method = model, "batchEmbedContents"
	if len(texts) == 1 {
		q.method = "embedContent"
		q.body, err = chat.Marshal(out.Requests[0])
		return q, err
	}
	q.body, err = chat.Marshal(out)
	return q, err
}

type embedding struct {
	Object string          `json:"object"`
	Index  int             `json:"index"`
	Vector json.RawMessage `json:"embedding"`
}

// readEmbeddings translates the answer; Gemini says nothing of usage here.
func (c *Client) readEmbeddings(q call, reply *provider.Reply, a *answer, body []byte) (*provider.Response, *provider.Error) {
	out := struct {
		Object string      `json:"object"`
		Data   []embedding `json:"data"`
		Model  string      `json:"model"`
	}{Object: "list", Model: q.model, Data: []embedding{}}
	list := a.Embeddings
	if wire.Truthy(a.Embedding) {
		list = slices.Concat([]byte("["), a.Embedding, []byte("]"))
	}
	whole := true
	err := wire.Each(list, func(raw json.RawMessage) bool {
		var e struct {
			Values json.RawMessage `json:"values"`
		}
		_ = json.Unmarshal(raw, &e)
		whole = wire.Truthy(e.Values)
		out.Data = append(out.Data, embedding{"embedding", len(out.Data), e.Values})
		return whole
	})
	if err != nil || !whole || len(out.Data) == 0 {
		return nil, c.unsuccessful(reply, provider.KindEmptyAnswer, "the answer holds no embeddings, or an empty one")
	}
	translated, err := chat.Marshal(out)
	if err != nil {
		return nil, c.unsuccessful(reply, provider.KindBadContentType, "the answer's embeddings cannot be read")
	}
	resp := c.response(reply, a)
	resp.Model = c.Redactor.CleanName(q.model)
	resp.Body, resp.Native, resp.Finish = translated, body, provider.FinishStop
	return resp, nil
}
