package runner

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/llmbatch/llmbatch/checkpoint"
	"github.com/llmbatch/llmbatch/runner/provider"
	"github.com/llmbatch/llmbatch/runner/result"
)

// Who a fixed answer names: no provider gave it.
const (
	fixedProvider = "llmbatch"
	fixedModel    = "fixed_answer"
)

// fixedShapes are the answers of the APIs that answer in words, with the ID,
// the time in Unix seconds, the model and the text to be filled in. They used
// no tokens.
var fixedShapes = map[string]string{
	"/chat/completions": `{"id":%[1]q,"object":"chat.completion","created":%[2]s,"model":%[3]q,` +
		`"choices":[{"index":0,"message":{"role":"assistant","content":%[4]s},"finish_reason":"stop"}],` +
		`"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}}`,
	"/completions": `{"id":%[1]q,"object":"text_completion","created":%[2]s,"model":%[3]q,` +
		`"choices":[{"index":0,"text":%[4]s,"logprobs":null,"finish_reason":"stop"}],` +
		`"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}}`,
	"/responses": `{"id":%[1]q,"object":"response","created_at":%[2]s,"status":"completed","model":%[3]q,` +
		`"output":[{"type":"message","id":%[1]q,"status":"completed","role":"assistant","content":[{"type":"output_text","text":%[4]s,"annotations":[]}]}],` +
		`"usage":{"input_tokens":0,"output_tokens":0,"total_tokens":0}}`,
	"/messages": `{"id":%[1]q,"type":"message","role":"assistant","model":%[3]q,` +
		`"content":[{"type":"text","text":%[4]s}],"stop_reason":"end_turn","stop_sequence":null,` +
		`"usage":{"input_tokens":0,"output_tokens":0}}`,
}

// answer finishes a job with the fixed answer, without a call. The result says
// that it is one.
func (r *run) answer(j *job, text string) {
	quoted, err := json.Marshal(text)
	if err != nil {
		r.fatal(j, fmt.Errorf("the fixed answer: %w", err))
		return
	}
	j.op.Provider, j.op.Model, j.op.Degraded = fixedProvider, fixedModel, []string{gaveFixed}
	j.op.RequestID, j.op.Finish, j.op.LatencyMS = "", provider.FinishStop, 0
	j.op.Usage = checkpoint.Usage{Known: true}
	line := r.line(j)
	line.LLM.Model = fixedModel
	body := fmt.Sprintf(fixedShapes[j.rec.API], line.ID, strconv.FormatInt(time.Now().Unix(), 10), fixedModel, quoted)
	line.Response = &result.Response{StatusCode: 200, Body: json.RawMessage(body)}
	r.finish(j, checkpoint.Completed, line, nil)
}
