// Package llmtest tests retryhttp.LLM in the HTTP clients of the SDKs of Anthropic and OpenAI.
package llmtest
