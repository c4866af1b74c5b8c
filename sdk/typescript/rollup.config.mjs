// Bundles what tsc compiled into the few files that a plugin carries: `index` for the plugin, `testing` for its tests,
// and `shared` for the code that both use. Their first line has the digest of the source, which a test compares.
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import dts from "rollup-plugin-dts";

const digest = createHash("sha256");
const source = readdirSync("src", { recursive: true }).filter((path) => path.endsWith(".ts"));
for (const path of source.map((path) => `src/${path}`).sort()) {
  digest.update(`${path}\n${readFileSync(path, "utf8")}`);
}

const entries = (extension) => ({
  index: `build/modules/index${extension}`,
  testing: `build/modules/testing${extension}`,
});
const output = (extension) => ({
  dir: "dist",
  format: "es",
  banner: `// Built by \`npm run build\` in sdk/typescript from the source with SHA-256 ${digest.copy().digest("hex")}.`,
  entryFileNames: `[name]${extension}`,
  chunkFileNames: `shared${extension}`,
  minifyInternalExports: false,
});

export default [
  { input: entries(".js"), external: /^node:/, output: output(".js") },
  { input: entries(".d.ts"), external: /^node:/, plugins: [dts()], output: output(".d.ts") },
];
