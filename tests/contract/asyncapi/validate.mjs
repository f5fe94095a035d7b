// Reads the AsyncAPI document named by the first argument with AsyncAPI's own parser. Prints what it objects to, one
// finding a line, or how much it read; exits 1 on an error.
import { readFile } from "node:fs/promises";
import { DiagnosticSeverity, Parser } from "@asyncapi/parser";

const { document, diagnostics } = await new Parser().parse(await readFile(process.argv[2], "utf8"));
const errors = diagnostics.filter(({ severity }) => severity === DiagnosticSeverity.Error);
for (const { code, message, path } of errors) {
  console.error(`${code} at ${path.join(".")}: ${message}`);
}
if (errors.length || !document) {
  process.exit(1);
}
console.log(
  JSON.stringify({
    channels: document.channels().length,
    operations: document.operations().length,
    messages: document.components().messages().length,
  }),
);
