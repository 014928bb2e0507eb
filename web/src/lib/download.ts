// Downloads: tables as CSV, charts as SVG and PNG.

function download(name: string, blob: Blob) {
  const address = URL.createObjectURL(blob);
  const anchor = document.createElement('a');
  anchor.href = address;
  anchor.download = name;
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** CSV text. Cells that a spreadsheet program would run as formulas get a leading apostrophe. */
export function csv(header: string[], rows: unknown[][]): string {
  const cell = (value: unknown) => {
    if (value === null || value === undefined) return '';
    if (typeof value === 'number') return String(value);
    let text = Array.isArray(value) ? value.join(' ') : String(value);
    if (/^[=+\-@\t\r]/.test(text)) text = `'${text}`;
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [header, ...rows].map((row) => row.map(cell).join(',')).join('\n') + '\n';
}

export function saveCsv(name: string, header: string[], rows: unknown[][]) {
  downloadText(`${name}.csv`, csv(header, rows));
}

export function downloadText(name: string, text: string) {
  download(name, new Blob([text], { type: name.endsWith('.csv') ? 'text/csv' : 'text/plain' }));
}

const PAINT = ['fill', 'stroke', 'stroke-width', 'stroke-dasharray', 'stroke-linecap', 'stroke-opacity', 'fill-opacity', 'opacity', 'font-size', 'font-family', 'font-weight', 'text-anchor', 'dominant-baseline', 'image-rendering', 'paint-order', 'stroke-linejoin'];

/** The chart as SVG text, with the computed styles of the page inlined. */
export function svgText(svg: SVGSVGElement): string {
  const copy = svg.cloneNode(true) as SVGSVGElement;
  const [from, to] = [[...svg.querySelectorAll('*')], [...copy.querySelectorAll('*')]];
  from.forEach((element, index) => {
    const style = getComputedStyle(element);
    for (const name of PAINT) {
      const value = style.getPropertyValue(name);
      if (value) to[index].setAttribute(name, value);
    }
    to[index].removeAttribute('class');
  });
  const box = svg.viewBox.baseVal;
  const [width, height] = box.width ? [box.width, box.height] : [svg.clientWidth, svg.clientHeight];
  copy.setAttribute('xmlns', 'http://www.w3.org/2000/svg');
  copy.setAttribute('viewBox', `0 0 ${width} ${height}`);
  copy.setAttribute('width', String(width));
  copy.setAttribute('height', String(height));
  const paper = document.createElementNS('http://www.w3.org/2000/svg', 'rect');
  paper.setAttribute('width', String(width));
  paper.setAttribute('height', String(height));
  paper.setAttribute('fill', getComputedStyle(document.body).backgroundColor);
  copy.prepend(paper);
  copy.removeAttribute('class');
  copy.removeAttribute('style');
  return `<?xml version="1.0" encoding="UTF-8"?>\n${new XMLSerializer().serializeToString(copy)}\n`;
}

export function saveSvg(name: string, svg: SVGSVGElement) {
  download(`${name}.svg`, new Blob([svgText(svg)], { type: 'image/svg+xml' }));
}

export async function savePng(name: string, svg: SVGSVGElement) {
  const image = new Image();
  const address = URL.createObjectURL(new Blob([svgText(svg)], { type: 'image/svg+xml' }));
  await new Promise((done, failed) => {
    image.onload = done;
    image.onerror = failed;
    image.src = address;
  });
  const canvas = document.createElement('canvas');
  canvas.width = image.width * 2;
  canvas.height = image.height * 2;
  canvas.getContext('2d')!.drawImage(image, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(address);
  await saveCanvas(name, canvas);
}

export function saveCanvas(name: string, canvas: HTMLCanvasElement): Promise<void> {
  return new Promise((done) => canvas.toBlob((blob) => {
    if (blob) download(`${name}.png`, blob);
    done();
  }));
}
