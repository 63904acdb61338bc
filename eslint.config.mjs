// What eslint holds the scripts of widgets and decks to. Run it in the clone's folder.
import js from "@eslint/js";
import globals from "globals";

export default [
  js.configs.recommended,
  {
    files: ["mha_course/**/*.js"],
    linterOptions: { reportUnusedDisableDirectives: "error" },
    languageOptions: {
      ecmaVersion: 2023,
      sourceType: "module",
      globals: globals.browser,
    },
    rules: {
      complexity: ["error", 12],
      eqeqeq: ["error", "always", { null: "ignore" }],
      "no-control-regex": "off", // words from people are rid of control characters
      "no-var": "error",
      "prefer-const": ["error", { destructuring: "all" }],
    },
  },
];
