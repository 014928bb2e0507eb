// Figures of the report arrive as SVG text. Only the elements and attributes that figures use are inserted into the page.

const ELEMENTS = new Set(['svg', 'g', 'title', 'desc', 'rect', 'line', 'path', 'polyline', 'polygon', 'circle', 'text', 'tspan']);
const ATTRIBUTES = new Set([
  'viewBox', 'width', 'height', 'role', 'aria-labelledby', 'id', 'class', 'x', 'y', 'x1', 'y1', 'x2', 'y2', 'cx', 'cy', 'r', 'rx', 'ry', 'd', 'points', 'transform', 'fill', 'stroke',
  'fill-opacity', 'stroke-opacity', 'stroke-width', 'stroke-dasharray', 'stroke-linejoin', 'stroke-linecap', 'opacity', 'text-anchor', 'font-size', 'font-family', 'font-weight', 'dy', 'dx', 'fill-rule',
]);

export function sanitizeSvg(text: string): SVGSVGElement | null {
  const source = text.replace(/^<svg /, '<svg xmlns="http://www.w3.org/2000/svg" ');
  const parsed = new DOMParser().parseFromString(source, 'image/svg+xml').documentElement;
  if (parsed.nodeName !== 'svg') return null;
  for (const element of [parsed, ...parsed.querySelectorAll('*')]) {
    if (!ELEMENTS.has(element.nodeName)) element.remove();
    for (const { name } of [...element.attributes]) if (!ATTRIBUTES.has(name) && name !== 'xmlns') element.removeAttribute(name);
  }
  return document.importNode(parsed, true) as unknown as SVGSVGElement;
}
