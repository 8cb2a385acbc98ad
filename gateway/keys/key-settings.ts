import * as z from "zod";

const path = (text: string) => z.string().min(1).describe(text);

/** Schema of the key store: a file, or the store that gateways share. */
export const keysSchema = z
  .strictObject({
    file: path("The path of the key file, which `npm run keys` writes.").optional(),
    redis: z
      .strictObject({
        pepperFile: path(
          "The path of the pepper that digests of keys are made with: 32 random bytes, which nobody but their owner and group may read, the same for all gateways. `npm run keys` makes it with the first key.",
        ),
      })
      .optional()
      .describe("The keys stand in the store of `state.redis`, for the gateways of all hosts."),
  })
  .refine(({ file, redis }) => (file === undefined) !== (redis === undefined), "expected one of file and redis")
  .describe("Where the keys of callers stand.");

export type KeysSettings = z.infer<typeof keysSchema>;
