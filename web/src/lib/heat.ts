// Heatmaps: values of patches as a picture over an image.

/**
 * Bilinear interpolation between the centres of patches, with `fine` points along every patch. Outside the centres of the outer patches the
 * values are constant, so nothing is extrapolated.
 */
export function bilinear(grid: number[], columns: number, fine: number): { values: Float32Array; width: number; height: number } {
  const rows = Math.floor(grid.length / columns);
  const [width, height] = [columns * fine, rows * fine];
  const along = (point: number, count: number) => {
    const at = Math.min(count - 1, Math.max(0, (point + 0.5) / fine - 0.5));
    const first = Math.min(Math.floor(at), Math.max(0, count - 2));
    return [first, Math.min(count - 1, first + 1), at - first];
  };
  const values = new Float32Array(width * height);
  for (let y = 0; y < height; y++) {
    const [above, below, down] = along(y, rows);
    for (let x = 0; x < width; x++) {
      const [left, right, across] = along(x, columns);
      const mix = (row: number) => grid[row * columns + left] * (1 - across) + grid[row * columns + right] * across;
      values[y * width + x] = mix(above) * (1 - down) + mix(below) * down;
    }
  }
  return { values, width, height };
}

/** A heatmap in one colour, as a data URL; `opacity` maps each value to an opacity. */
export function heatmap(grid: number[], columns: number, colour: string, opacity: (value: number) => number): string {
  // About a hundred points per side look continuous on a screen.
  const { values, width, height } = bilinear(grid, columns, Math.max(2, Math.round(96 / columns)));
  const canvas = document.createElement('canvas');
  [canvas.width, canvas.height] = [width, height];
  const context = canvas.getContext('2d');
  if (!context) return '';
  // The canvas normalises any CSS colour, such as #fff, to six digits.
  context.fillStyle = colour;
  const [red, green, blue] = [1, 3, 5].map((start) => parseInt(String(context.fillStyle).slice(start, start + 2), 16));
  const pixels = context.createImageData(width, height);
  values.forEach((value, index) => pixels.data.set([red, green, blue, Math.round(255 * opacity(value))], 4 * index));
  context.putImageData(pixels, 0, 0);
  return canvas.toDataURL();
}
