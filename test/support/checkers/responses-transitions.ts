import type { Transitions } from "./machine.ts";

type Sort = "text" | "summary" | "reasoning_text";

export type ResponsesState =
  | "start"
  | "created"
  | "between_items"
  | "message_added"
  | "reasoning_added"
  | `${Sort}_part_open`
  | `${Sort}_deltas`
  | `${Sort}_done`
  | `${Sort}_part_done`
  | "call_added"
  | "call_deltas"
  | "call_done"
  | "completed"
  | "incomplete"
  | "failed";

export type ResponsesTextKind =
  `response.${"output_text" | "reasoning_summary_text" | "reasoning_text" | "function_call_arguments"}.${"delta" | "done"}`;

/** The kinds of events that change the state of a stream of responses. */
export type ResponsesKind =
  | "keepalive"
  | "response.created"
  | "response.in_progress"
  | "response.completed"
  | "response.incomplete"
  | "response.failed"
  | `response.output_item.added ${"message" | "reasoning" | "call"}`
  | "response.output_item.done"
  | `response.content_part.${"added" | "done"} ${"output_text" | "reasoning_text"}`
  | `response.reasoning_summary_part.${"added" | "done"}`
  | ResponsesTextKind;

function inside<S extends ResponsesState>(self: S) {
  return { keepalive: self, "response.failed": "failed" } as const;
}

/** The legal sequences of the responses format ("Events of responses" in formats/README.md). */
export const RESPONSES_TRANSITIONS: Transitions<ResponsesState, ResponsesKind> = {
  start: { "response.created": "created" },
  created: { "response.in_progress": "between_items" },
  between_items: {
    ...inside("between_items"),
    "response.output_item.added message": "message_added",
    "response.output_item.added reasoning": "reasoning_added",
    "response.output_item.added call": "call_added",
    "response.completed": "completed",
    "response.incomplete": "incomplete",
  },
  message_added: { ...inside("message_added"), "response.content_part.added output_text": "text_part_open" },
  text_part_open: {
    ...inside("text_part_open"),
    "response.output_text.delta": "text_deltas",
    "response.output_text.done": "text_done",
  },
  text_deltas: {
    ...inside("text_deltas"),
    "response.output_text.delta": "text_deltas",
    "response.output_text.done": "text_done",
  },
  text_done: { ...inside("text_done"), "response.content_part.done output_text": "text_part_done" },
  text_part_done: { ...inside("text_part_done"), "response.output_item.done": "between_items" },
  reasoning_added: {
    ...inside("reasoning_added"),
    "response.reasoning_summary_part.added": "summary_part_open",
    "response.content_part.added reasoning_text": "reasoning_text_part_open",
  },
  // Without reasoning there is no item, so there is at least one delta.
  summary_part_open: { ...inside("summary_part_open"), "response.reasoning_summary_text.delta": "summary_deltas" },
  summary_deltas: {
    ...inside("summary_deltas"),
    "response.reasoning_summary_text.delta": "summary_deltas",
    "response.reasoning_summary_text.done": "summary_done",
  },
  summary_done: { ...inside("summary_done"), "response.reasoning_summary_part.done": "summary_part_done" },
  summary_part_done: { ...inside("summary_part_done"), "response.output_item.done": "between_items" },
  reasoning_text_part_open: {
    ...inside("reasoning_text_part_open"),
    "response.reasoning_text.delta": "reasoning_text_deltas",
  },
  reasoning_text_deltas: {
    ...inside("reasoning_text_deltas"),
    "response.reasoning_text.delta": "reasoning_text_deltas",
    "response.reasoning_text.done": "reasoning_text_done",
  },
  reasoning_text_done: {
    ...inside("reasoning_text_done"),
    "response.content_part.done reasoning_text": "reasoning_text_part_done",
  },
  reasoning_text_part_done: { ...inside("reasoning_text_part_done"), "response.output_item.done": "between_items" },
  call_added: {
    ...inside("call_added"),
    "response.function_call_arguments.delta": "call_deltas",
    "response.function_call_arguments.done": "call_done",
  },
  call_deltas: {
    ...inside("call_deltas"),
    "response.function_call_arguments.delta": "call_deltas",
    "response.function_call_arguments.done": "call_done",
  },
  call_done: { ...inside("call_done"), "response.output_item.done": "between_items" },
  completed: {},
  incomplete: {},
  failed: {},
};
