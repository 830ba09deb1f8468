// Package llmtest tests retryhttp.LLM under the SDKs of Anthropic and OpenAI.
package llmtest
