import * as z from "zod";
import { named, tag } from "../formats/schema-forms.ts";

const message = z.string().describe("The fault, for people to read.");

export const errorA = named("ErrorA", "The body of an error of chat, models and responses.", {
  error: named("ErrorObjectA", "The error. In a stream of chat it is the `data` of the last event but `[DONE]`.", {
    message,
    type: z.string().describe("The kind of the error, for SDKs."),
    param: z
      .string()
      .nullable()
      .describe("The path of the field at fault, such as `messages[0].content[1].type`; null where no field is."),
    code: z.string().describe("The code of the error, by which programs distinguish errors."),
  }),
});

export const errorB = named(
  "ErrorB",
  "The body of an error of messages and counts; in a stream, the `data` of the event `error`, which ends it.",
  {
    type: tag("error"),
    error: named("ErrorObjectB", "The error.", {
      type: z.string().describe("The kind of the error, by which programs distinguish errors."),
      message: z
        .string()
        .describe("The fault, for people to read. It begins with the path of the field at fault, where one is."),
      details: z
        .looseObject({ error_code: z.string().optional().describe("A word that some SDKs steer by.") })
        .optional()
        .describe("Further facts for SDKs; absent for most errors."),
    }),
    request_id: z.string().describe("The id of the request, as in the headers."),
  },
);
