package route

import (
	"testing"
)

func TestSeedDocuments(t *testing.T) {
	c, err := Load([]byte(`{
  "task": "support_ticket_summary",
  "primary": {"provider": "anthropic", "model": "claude-sonnet-4.6"},
  "fallbacks": [
    {"provider": "openai", "model": "gpt-5.5", "when": ["provider_5xx", "rate_limit_after_retry_budget"]},
    {"provider": "google", "model": "gemini-3", "when": ["context_length_needed", "primary_unavailable"]}
  ],
  "degrade_to": {"provider": "open_model_cluster", "model": "qwen", "when": ["batch_low_priority"]}
}`), "routes.json")
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.Resolve("support_ticket_summary", Defaults{})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", r)
	c, err = Load([]byte(`{"interactive_chat": {"max_attempts": 3, "max_total_retry_seconds": 8}, "batch_summarization": {"max_attempts": 8, "max_total_retry_seconds": 300}}`), "retry.json")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", c)
	_, err = Load([]byte("providers:\n  house: {base_url: http://127.0.0.1:8000/v1, api_key: sk-123}\nmodels:\n  house/small: {rpm: -1, tpm: 010, price: {input: 3}}\n\n  house/small: {}\ntask:\n"), "routes.yaml")
	t.Log(err)
	_, err = Load([]byte("providers:\n  house: {base_url: [\nmodels:\n  x: @\n"), "routes.yaml")
	t.Log(err)
}
