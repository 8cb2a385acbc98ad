import type { UntakenField } from "../untaken-field.ts";

const STATELESS = "The service is stateless: send the whole conversation.";
const SCHEMA = "Use 'response_format' with a JSON Schema instead.";
const TOKENS = "Token ids and the lengths of answers in tokens are the engine's; use 'stop' and 'max_tokens'.";
const TEMPLATE = "The prompt is written by the model's own chat template.";

/** The top-level fields of a chat body that do not reach the request, in the order of their check. */
export const CHAT_UNTAKEN: readonly UntakenField[] = [
  { field: "audio", becomes: "refused", why: "Answers are text." },
  { field: "functions", becomes: "refused", why: "Use 'tools' instead." },
  { field: "function_call", becomes: "refused", why: "Use 'tool_choice' instead." },
  { field: "web_search_options", becomes: "refused", why: "No tools run here." },
  { field: "previous_response_id", becomes: "refused", why: STATELESS },
  { field: "previous_message_id", becomes: "refused", why: STATELESS },
  { field: "conversation", becomes: "refused", why: STATELESS },
  { field: "thread", becomes: "refused", why: STATELESS },
  { field: "container", becomes: "refused", why: "Nothing is kept between requests." },
  { field: "store", becomes: "refused", neutral: [false], why: "Nothing is kept between requests." },
  { field: "moderation", becomes: "refused", why: "Answers are not moderated here." },
  { field: "guided_json", becomes: "refused", why: SCHEMA },
  { field: "guided_regex", becomes: "refused", why: SCHEMA },
  { field: "guided_choice", becomes: "refused", why: SCHEMA },
  { field: "guided_grammar", becomes: "refused", why: SCHEMA },
  { field: "structured_outputs", becomes: "refused", why: SCHEMA },
  { field: "json_schema", becomes: "refused", why: SCHEMA },
  { field: "grammar", becomes: "refused", why: SCHEMA },
  { field: "min_tokens", becomes: "refused", neutral: [0], why: TOKENS },
  { field: "stop_token_ids", becomes: "refused", neutral: [[]], why: TOKENS },
  { field: "allowed_token_ids", becomes: "refused", neutral: [[]], why: TOKENS },
  { field: "ignore_eos", becomes: "refused", neutral: [false], why: TOKENS },
  { field: "bad_words", becomes: "refused", neutral: [[]], why: "Use 'logit_bias' instead." },
  {
    field: "include_stop_str_in_output",
    becomes: "refused",
    neutral: [false],
    why: "An answer ends before its stop string.",
  },
  { field: "chat_template", becomes: "refused", why: TEMPLATE },
  { field: "documents", becomes: "refused", neutral: [[]], why: "Send documents as text in the messages." },
  { field: "add_generation_prompt", becomes: "refused", neutral: [true], why: TEMPLATE },
  { field: "continue_final_message", becomes: "refused", neutral: [false], why: TEMPLATE },
  { field: "echo", becomes: "refused", neutral: [false], why: "An answer never repeats the prompt." },
  {
    field: "truncate_prompt_tokens",
    becomes: "refused",
    why: "No prompt is cut: one that is too long is refused.",
  },
  { field: "best_of", becomes: "refused", neutral: [1], why: "Only one choice per request is supported." },
  { field: "use_beam_search", becomes: "refused", neutral: [false], why: "Answers are sampled." },
  { field: "metadata", becomes: "ignored", why: "Nothing is kept that it could be found by." },
  { field: "user", becomes: "ignored", why: "Whoever asks is known by the key." },
  { field: "safety_identifier", becomes: "ignored", why: "Whoever asks is known by the key." },
  { field: "prediction", becomes: "ignored", why: "It would make the same answer faster, and changes nothing in it." },
  { field: "verbosity", becomes: "ignored", why: "It is a hint, which no model here knows." },
  { field: "prompt_cache_retention", becomes: "ignored", why: "It is a hint; 'cache_ttl' is the one that is taken." },
  { field: "prompt_cache_options", becomes: "ignored", why: "It is a hint; 'cache_ttl' is the one that is taken." },
];
