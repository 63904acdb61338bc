// What lab.py draws, for a page without a kernel.

import { valuesAfter } from "../../widgets/without_kernel.js";

/** Return what answers to a move, from the lights and shares of all pictures, as without_kernel.js asks. */
function answerWith({ images, names, heads, patches, lights, shares }) {
  const bytesOf = ({ buffer, byteOffset, byteLength }) =>
    new Uint8Array(buffer, byteOffset, byteLength);
  const [light, percent] = [lights, shares].map(bytesOf);
  const queries = patches + 1;
  return (moved, { panels, values: before }) => {
    const values = valuesAfter(moved, before);
    const { picture, layer, query } = values;
    const placeOf = (head) => ((layer * images.length + picture) * heads + head) * queries + query;
    const drawn = panels.map((panel, i) => {
      const begin = placeOf(i - 1) * patches; // the first panel is the picture itself
      const own = i ? { light: [...light.subarray(begin, begin + patches)] } : {};
      return { ...panel, ...own, image: images[picture], query: query - 1 };
    });
    const onShapes = Array.from({ length: heads }, (_, head) =>
      (percent[placeOf(head)] / 100).toFixed(2),
    );
    const queryName = query ? `patch ${query - 1}` : "the class token";
    const text =
      `${names[picture][0].toUpperCase()}${names[picture].slice(1)}. In layer ${layer}, this much of the weight of ` +
      `${queryName} falls on the left and the right shape, by head: ${onShapes.join(", ")}.`;
    return { values, panels: drawn, text };
  };
}

export default answerWith;
