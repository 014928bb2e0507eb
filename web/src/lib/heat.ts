// Values of patches as a picture over an image.

/**
 * Values between the middles of patches, bilinear; `fine` points along every patch. Beyond the middles of the outer patches their
 * values go on, so that nothing is invented at the rim.
 */
export function bilinear(grid: number[], columns: number, fine: number): { values: Float32Array; width: number; height: number } {
  const lines = Math.floor(grid.length / columns);
  const [width, height] = [columns * fine, lines * fine];
  const along = (point: number, count: number) => {
    const at = Math.min(count - 1, Math.max(0, (point + 0.5) / fine - 0.5));
    const first = Math.min(Math.floor(at), Math.max(0, count - 2));
    return [first, Math.min(count - 1, first + 1), at - first];
  };
  const values = new Float32Array(width * height);
  for (let y = 0; y < height; y++) {
    const [above, below, down] = along(y, lines);
    for (let x = 0; x < width; x++) {
      const [left, right, aside] = along(x, columns);
      const mix = (line: number) => grid[line * columns + left] * (1 - aside) + grid[line * columns + right] * aside;
      values[y * width + x] = mix(above) * (1 - down) + mix(below) * down;
    }
  }
  return { values, width, height };
}

/** A picture of one colour, as opaque as `opacity` says of each value. */
export function painted(grid: number[], columns: number, colour: string, opacity: (value: number) => number): string {
  // About a hundred points along a side: a screen shows them as one slope.
  const { values, width, height } = bilinear(grid, columns, Math.max(2, Math.round(96 / columns)));
  const canvas = document.createElement('canvas');
  [canvas.width, canvas.height] = [width, height];
  const context = canvas.getContext('2d');
  if (!context) return '';
  const pixels = context.createImageData(width, height);
  const [red, green, blue] = [1, 3, 5].map((place) => parseInt(colour.slice(place, place + 2), 16));
  values.forEach((value, place) => pixels.data.set([red, green, blue, Math.round(255 * opacity(value))], 4 * place));
  context.putImageData(pixels, 0, 0);
  return canvas.toDataURL();
}
