import type { UntakenField } from "../untaken-field.ts";

const KEPT = "Nothing is kept between requests.";

/**
 * The top-level fields of a body of messages, or of a count, that do not reach the request, in the order of their
 * check.
 */
export const MESSAGES_UNTAKEN: readonly UntakenField[] = [
  {
    field: "thread",
    becomes: "refused",
    why: "Threads are not supported; send the whole conversation.",
    // With these details the vendor's SDK sends the whole conversation on its own.
    details: { error_code: "thread_unsupported_request", unsupported: ["thread"] },
  },
  { field: "container", becomes: "refused", why: KEPT },
  { field: "previous_message_id", becomes: "refused", why: KEPT },
  { field: "previous_response_id", becomes: "refused", why: KEPT },
  { field: "conversation", becomes: "refused", why: KEPT },
  { field: "store", becomes: "refused", neutral: [false], why: KEPT },
  {
    field: "mcp_servers",
    becomes: "refused",
    neutral: [[]],
    why: "No tools run here; send their definitions in 'tools'.",
  },
  {
    field: "inference_geo",
    becomes: "refused",
    neutral: ["global"],
    why: "No place can be chosen where a request is worked on.",
  },
  { field: "speed", becomes: "refused", neutral: ["standard"], why: "All requests are worked on at one speed." },
  { field: "service_tier", becomes: "ignored", why: "There is one tier, which the answer names." },
  { field: "context_management", becomes: "ignored", why: "It only shortens prompts, and none is shortened here." },
  { field: "diagnostics", becomes: "ignored", why: "It asks for what helps to find faults at the vendor." },
  { field: "fallbacks", becomes: "ignored", why: "The model that was asked answers, or none." },
  { field: "betas", becomes: "ignored", why: "It names features of the vendor's service." },
];
