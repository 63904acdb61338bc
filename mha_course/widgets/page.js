// What a picture hears of the page that it stands in.

/** Call `changed` when the picture's colours are others than ink and paper of `drawn()`, and return how to stop. */
export function followTheme(root, drawn, changed) {
  function compare() {
    const { color, backgroundColor } = getComputedStyle(root);
    const { ink, paper } = drawn() ?? {};
    if (color !== ink || backgroundColor !== paper) changed();
  }
  const theme = new MutationObserver(compare);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  // JupyterLab skips what is out of sight: a theme that changes meanwhile shows no new colours until it is back.
  const sight = new IntersectionObserver(compare);
  sight.observe(root);
  theme.observe(document.documentElement, { attributeFilter: ["theme", "class"] }); // of Colab
  theme.observe(document.body, { attributeFilter: ["data-jp-theme-light", "data-jp-theme-name", "class"] });
  dark.addEventListener("change", compare);
  document.addEventListener("load", compare, true); // the style sheet of a theme may come after its name
  return () => {
    for (const observer of [theme, sight]) observer.disconnect();
    dark.removeEventListener("change", compare);
    document.removeEventListener("load", compare, true);
  };
}
