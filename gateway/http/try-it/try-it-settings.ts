import * as z from "zod";

/** Schema of the settings of the try-it page. */
export const tryItSchema = z
  .strictObject({
    hosts: z
      .array(z.string().min(1).toLowerCase())
      .default([])
      .describe(
        "The names, without a port, under which browsers may open the page, besides IP addresses and `localhost`: any other name may have been pointed here by a stranger, whose scripts would read what is typed.",
      ),
  })
  .optional()
  .describe(
    "Serves a page at `/` of the public API on which its user, who pastes a key, tries the API; without this section there is none. `npm start` has it.",
  );

/** Undefined without a page. */
export type TryItSettings = z.output<typeof tryItSchema>;
