import { mkdir, writeFile } from "node:fs/promises";
import { cpus } from "node:os";
import { dirname } from "node:path";
import { type BenchResult, markdownTable } from "../report.ts";

/** Writes the results of the stand as a Markdown page. */
export async function writePage(file: string, result: BenchResult): Promise<void> {
  const titles = new Set(result.rows.map(({ cell }) => String(cell)));
  const sections: string[] = [];
  await mkdir(dirname(file), { recursive: true });
  for (const title of titles) {
    const rows = result.rows.filter(({ cell }) => cell === title);
    const columns = result.columns.filter(({ key }) => key !== "cell");
    sections.push(`## ${title}\n\n${markdownTable(columns, rows)}`);
  }
  const machine = `Node ${process.versions.node}, ${cpus().length} x ${cpus()[0]?.model ?? "unknown"}`;
  const head = [
    "# Performance",
    "Written by `npm run bench -- stand --page gateway/docs/performance.md`. Read ratios, not absolute figures: those are one machine's.",
    [...result.notes, `Measured on ${new Date().toISOString().slice(0, 10)}, ${machine}.`].join("\n"),
  ];
  await writeFile(file, `${[...head, ...sections].join("\n\n")}\n`);
}
