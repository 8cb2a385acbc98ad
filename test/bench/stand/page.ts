import { mkdir, writeFile } from "node:fs/promises";
import { cpus } from "node:os";
import { basename, dirname } from "node:path";
import { type BenchResult, markdownTable, type Row } from "../report.ts";

/** Writes the results of the stand as a Markdown page, with an SVG plot per cell beside it. */
export async function writePage(file: string, result: BenchResult): Promise<void> {
  const titles = new Set(result.rows.map(({ cell }) => String(cell)));
  const sections: string[] = [];
  await mkdir(dirname(file), { recursive: true });
  for (const title of titles) {
    const rows = result.rows.filter(({ cell }) => cell === title);
    const plot = `${file.replace(/\.md$/, "")}-${sections.length + 1}.svg`;
    await writeFile(plot, barChart(title, rows.map(bar)));
    const columns = result.columns.filter(({ key }) => key !== "cell");
    sections.push(
      `## ${title}\n\n![CPU of each, in microseconds](${basename(plot)})\n\n${markdownTable(columns, rows)}`,
    );
  }
  const machine = `Node ${process.versions.node}, ${cpus().length} x ${cpus()[0]?.model ?? "unknown"}`;
  const head = [
    "# Performance",
    "Written by `npm run bench -- stand --page gateway/docs/performance.md`. Read ratios, not absolute figures: those are one machine's.",
    [...result.notes, `Measured on ${new Date().toISOString().slice(0, 10)}, ${machine}.`].join("\n"),
  ];
  await writeFile(file, `${[...head, ...sections].join("\n\n")}\n`);
}

function bar({ target, cpuUs, cpuLeastUs, cpuMostUs }: Row) {
  return { name: String(target), value: Number(cpuUs), least: Number(cpuLeastUs), most: Number(cpuMostUs) };
}

export type Bar = { readonly name: string; readonly value: number; readonly least: number; readonly most: number };

const WIDTH = 760;
const NAMES = 200;
const VALUES = 90;
const ROW = 26;
const HEAD = 34;

/** Draws bars with their ranges; those above ten times the smallest value are cut off, so that short ones differ. */
export function barChart(title: string, bars: readonly Bar[]): string {
  const measured = bars.filter(({ value }) => Number.isFinite(value));
  const least = Math.min(...measured.map(({ value }) => value));
  const end = Math.min(10 * least, Math.max(...measured.map(({ most }) => most)));
  const x = (value: number) => NAMES + (Math.min(value, end) / end) * (WIDTH - NAMES - VALUES);
  const rows = measured.map(({ name, value, least: from, most: to }, at) => {
    const top = HEAD + at * ROW;
    const middle = top + ROW / 2 - 2;
    const color = name.startsWith("gateway") ? "#2f6f9f" : "#9aa5b1";
    return [
      `<text x="${NAMES - 8}" y="${middle + 4}" text-anchor="end">${escaped(name)}</text>`,
      `<rect x="${NAMES}" y="${top}" width="${(x(value) - NAMES).toFixed(1)}" height="${ROW - 8}" fill="${color}"/>`,
      `<line x1="${x(from).toFixed(1)}" x2="${x(to).toFixed(1)}" y1="${middle}" y2="${middle}" stroke="#222"/>`,
      `<text x="${(x(Math.max(value, to)) + 6).toFixed(1)}" y="${middle + 4}">${value.toFixed(1)}${value > end ? " \u2026" : ""}</text>`,
    ].join("\n");
  });
  const height = HEAD + measured.length * ROW + 8;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" font-family="sans-serif" font-size="13">
<title>CPU us each: ${escaped(title)}</title>
<rect width="${WIDTH}" height="${height}" fill="#fff"/>
<text x="8" y="20" font-weight="bold">CPU us each: ${escaped(title)}</text>
${rows.join("\n")}
</svg>
`;
}

function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
}
