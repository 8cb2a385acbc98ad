import type { FastifyReply } from "fastify";
import { CompletionFold } from "../../formats/completion.ts";
import type { EventSink } from "../../upstream/call/commit-gate.ts";
import { failureOf, observer } from "./answer-outcome.ts";
import type { AnswerDeps, Answering } from "./answering.ts";

/** `stream: false`: the same events, folded. Nothing reaches the client before the end, so that a try may be repeated. */
export async function foldedAnswer(answering: Answering, deps: AnswerDeps): Promise<FastifyReply> {
  const { format, prepared, generate, head, hints, reply, answer } = answering;
  const { router, timeouts, clock, running, stats } = deps;
  const { facts } = reply.request;
  let fold = new CompletionFold();
  const observe = observer(facts, prepared.model, clock, stats.live);
  const sink: EventSink = {
    events(events) {
      observe(events);
      for (const event of events) fold.next(event);
    },
    restart() {
      fold = new CompletionFold();
    },
  };
  try {
    await router.dispatch(generate, hints, timeouts.maxRequestDurationMs, sink, facts.trip, answer.signal);
  } catch (thrown) {
    throw failureOf(thrown, facts, format, answer, running);
  }
  return reply.type("application/json; charset=utf-8").send(JSON.stringify(prepared.reply(head, fold.result())));
}
