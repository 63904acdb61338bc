// What eslint holds the scripts of widgets and decks to. Run it in the clone's folder.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

import js from "@eslint/js";
import globals from "globals";

const texts = readdirSync("mha_course", { recursive: true })
  .filter((name) => name.endsWith(".js"))
  .map((name) => readFileSync(join("mha_course", name), "utf-8"));

// Python joins a widget's files to one module, so what one declares at its top may be used in another.
const declared = /^(?:const|let|class|async function|function)\s*\*?\s*(\w+)/gm;
const namesIn = (text) => [...text.matchAll(declared)].map((found) => found[1]);
const usedElsewhere = (name, home) => texts.some((text) => text !== home && new RegExp(`\\b${name}\\b`).test(text));
const shared = texts.flatMap((text) => namesIn(text).filter((name) => usedElsewhere(name, text)));

export default [
  js.configs.recommended,
  {
    files: ["mha_course/**/*.js"],
    linterOptions: { reportUnusedDisableDirectives: "error" },
    languageOptions: {
      ecmaVersion: 2023,
      sourceType: "module",
      globals: { ...globals.browser, ...Object.fromEntries(shared.map((name) => [name, "readonly"])) },
    },
    rules: {
      complexity: ["error", 12],
      eqeqeq: ["error", "always", { null: "ignore" }],
      "no-control-regex": "off", // words from people are rid of control characters
      "no-redeclare": ["error", { builtinGlobals: false }],
      "no-unused-vars": ["error", { varsIgnorePattern: `^(?:${shared.join("|")})$` }],
      "no-var": "error",
      "prefer-const": ["error", { destructuring: "all" }],
    },
  },
];
