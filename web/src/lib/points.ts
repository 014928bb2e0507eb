// A map of many points, in WebGL2 or, without it, on a 2D canvas. The shader computes colours from two values per
// point, so that temperature and thresholds change without another upload. Significant points have a ring.

import { delta, inside } from './statistics';

export interface View { x: number; y: number; zoom: number }
/** Which value is shown; `difference`: 0.5 + (b − a) / 2. */
export type Channel = 'a' | 'b' | 'difference';
/** From a value to a colour between 0 and 1. `sigmoid`: σ(value / T); `signed`: (1 + value) / 2; `range`: linear between the ends of `range`. */
export type ColourScale = 'sigmoid' | 'signed' | 'range';
export interface Look {
  channel: Channel; scale: ColourScale; temperature: number; low: number; high: number; range: [number, number]; size: number; dark: boolean;
}

const CHANNELS: Channel[] = ['a', 'b', 'difference'];
const SCALES: ColourScale[] = ['sigmoid', 'signed', 'range'];

const VERTEX = `#version 300 es
in vec2 position; in vec2 value; in float mark; in float ring;
uniform vec4 view; uniform float temperature; uniform vec2 bounds; uniform vec2 range; uniform float size; uniform int channel; uniform int scale; uniform float chosen;
out float shade; out float state; out float ringed;
float level(float v) { return scale == 0 ? 1. / (1. + exp(-v / temperature)) : scale == 1 ? .5 + .5 * v : clamp((v - range.x) / (range.y - range.x), 0., 1.); }
void main() {
  gl_Position = vec4((position - view.xy) * view.zw, 0., 1.);
  float t = .5;
  bool known = true;
  if (channel == 0) { known = value.x > -1e30; t = level(value.x); }
  else if (channel == 1) { known = value.y > -1e30; t = level(value.y); }
  else { known = value.x > -1e30 && value.y > -1e30; t = .5 + .5 * (level(value.y) - level(value.x)); }
  bool extreme = known && scale == 0 && (t < bounds.x || t > bounds.y);
  ringed = known ? ring : 0.;
  shade = known ? t : -1.;
  state = chosen > .5 && mark < .5 ? 1. : (mark > .5 ? 2. : 0.);
  gl_PointSize = size * (extreme ? 1.5 : 1.) * (mark > .5 || ringed > .5 ? 1.5 : 1.) * (known ? 1. : .6);
}`;

const FRAGMENT = `#version 300 es
precision mediump float;
in float shade; in float state; in float ringed; uniform float dark; out vec4 colour;
void main() {
  vec2 offset = gl_PointCoord * 2. - 1.;
  float radius = dot(offset, offset);
  if (radius > 1.) discard;
  vec3 neutral = dark > .5 ? vec3(.45, .47, .5) : vec3(.72, .74, .77);
  vec3 blue = dark > .5 ? vec3(.36, .68, .96) : vec3(.05, .38, .68);
  vec3 orange = dark > .5 ? vec3(1., .56, .2) : vec3(.83, .36, 0.);
  float t = clamp(shade, 0., 1.);
  vec3 c = t < .5 ? mix(blue, neutral, smoothstep(0., .5, t)) : mix(neutral, orange, smoothstep(.5, 1., t));
  float alpha = .85;
  if (shade < 0.) { c = neutral; alpha = .35; }
  if (state == 1.) { c = neutral; alpha = .22; }
  if (ringed > .5 && state != 1. && radius > .58) { c = dark > .5 ? vec3(.93) : vec3(.13); alpha = .9; }
  if (state == 2. && radius > .5) c = dark > .5 ? vec3(1.) : vec3(.07);
  alpha *= 1. - smoothstep(.75, 1., radius);
  colour = vec4(c * alpha, alpha);
}`;

/** The colour of a value between 0 and 1, as in the shader; for lists, legends and the 2D canvas. */
export function ramp(t: number, dark: boolean): string {
  const neutral = dark ? [115, 120, 128] : [184, 189, 196];
  const end = t < 0.5 ? (dark ? [92, 173, 245] : [13, 97, 173]) : dark ? [255, 143, 51] : [212, 92, 0];
  const distance = Math.min(1, Math.abs(t - 0.5) * 2);
  const part = distance * distance * (3 - 2 * distance);
  return `rgb(${neutral.map((from, i) => Math.round(from + (end[i] - from) * part)).join(' ')})`;
}

/** The colour of a value, between 0 and 1, as in the shader. */
export function level(value: number, { scale, temperature, range }: Pick<Look, 'scale' | 'temperature' | 'range'>): number {
  if (scale === 'sigmoid') return delta(value, temperature);
  return scale === 'signed' ? 0.5 + value / 2 : Math.min(1, Math.max(0, (value - range[0]) / (range[1] - range[0] || 1)));
}

export class Points {
  readonly canvas: HTMLCanvasElement;
  view: View = { x: 0, y: 0, zoom: 1 };
  count = 0;
  drawn = 0;
  private x: Float32Array = new Float32Array();
  private y: Float32Array = new Float32Array();
  private a: ArrayLike<number> = [];
  private b: ArrayLike<number> = [];
  private rings: ArrayLike<boolean> = [];
  private marks = new Float32Array();
  private chosen = false;
  private gl: WebGL2RenderingContext | null;
  private program: WebGLProgram | null = null;
  private buffers: Record<string, WebGLBuffer> = {};
  private scheduled = 0;
  private look: Look = { channel: 'a', scale: 'sigmoid', temperature: 0.8, low: 0.1, high: 0.9, range: [0, 1], size: 4, dark: false };

  constructor(canvas: HTMLCanvasElement) {
    this.canvas = canvas;
    this.gl = canvas.getContext('webgl2', { antialias: false, premultipliedAlpha: true, preserveDrawingBuffer: true });
    if (this.gl) this.prepare(this.gl);
    canvas.addEventListener('webglcontextlost', (event) => event.preventDefault());
    canvas.addEventListener('webglcontextrestored', () => {
      this.prepare(this.gl!);
      this.upload();
    });
  }

  get accelerated(): boolean {
    return this.gl !== null;
  }

  private prepare(gl: WebGL2RenderingContext) {
    const compile = (kind: number, text: string) => {
      const shader = gl.createShader(kind)!;
      gl.shaderSource(shader, text);
      gl.compileShader(shader);
      if (!gl.getShaderParameter(shader, gl.COMPILE_STATUS)) throw new Error(gl.getShaderInfoLog(shader) ?? 'shader');
      return shader;
    };
    const program = gl.createProgram()!;
    gl.attachShader(program, compile(gl.VERTEX_SHADER, VERTEX));
    gl.attachShader(program, compile(gl.FRAGMENT_SHADER, FRAGMENT));
    gl.linkProgram(program);
    gl.useProgram(program);
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
    for (const [name, size] of [['position', 2], ['value', 2], ['mark', 1], ['ring', 1]] as const) {
      const buffer = gl.createBuffer()!;
      gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
      const location = gl.getAttribLocation(program, name);
      gl.enableVertexAttribArray(location);
      gl.vertexAttribPointer(location, size, gl.FLOAT, false, 0, 0);
      this.buffers[name] = buffer;
    }
    this.program = program;
  }

  /** Sets the positions, scaled to −1…1 with the same factor for x and y. */
  setPositions(x: ArrayLike<number>, y: ArrayLike<number>) {
    this.count = x.length;
    let [left, right, low, high] = [Infinity, -Infinity, Infinity, -Infinity];
    for (let i = 0; i < x.length; i++) {
      left = Math.min(left, x[i]);
      right = Math.max(right, x[i]);
      low = Math.min(low, y[i]);
      high = Math.max(high, y[i]);
    }
    // A margin, so that no point is on the edge.
    const half = (Math.max(right - left, high - low) / 2) * 1.05 || 1;
    this.x = Float32Array.from(x, (value) => (value - (left + right) / 2) / half);
    this.y = Float32Array.from(y, (value) => (value - (low + high) / 2) / half);
    if (this.marks.length !== this.count) this.marks = new Float32Array(this.count);
    this.upload();
  }

  /** Sets two values per point (NaN if unknown), and which points have a ring. */
  setValues(a: ArrayLike<number>, b: ArrayLike<number>, rings: ArrayLike<boolean>) {
    this.a = a;
    this.b = b;
    this.rings = rings;
    this.upload();
  }

  /** Highlights the chosen points and fades the others. */
  choose(indices: Iterable<number>) {
    this.marks = new Float32Array(this.count);
    this.chosen = false;
    for (const index of indices) {
      this.marks[index] = 1;
      this.chosen = true;
    }
    this.upload();
  }

  private upload() {
    const gl = this.gl;
    if (gl && this.a.length === this.count) {
      const pairs = (a: ArrayLike<number>, b: ArrayLike<number>) => {
        const out = new Float32Array(2 * this.count);
        for (let i = 0; i < this.count; i++) {
          out[2 * i] = Number.isNaN(a[i]) ? -3e38 : a[i];
          out[2 * i + 1] = Number.isNaN(b[i]) ? -3e38 : b[i];
        }
        return out;
      };
      for (const [name, values] of [['position', pairs(this.x, this.y)], ['value', pairs(this.a, this.b)], ['mark', this.marks], ['ring', Float32Array.from(this.x, (_, i) => (this.rings[i] ? 1 : 0))]] as const) {
        gl.bindBuffer(gl.ARRAY_BUFFER, this.buffers[name]);
        gl.bufferData(gl.ARRAY_BUFFER, values, gl.STATIC_DRAW);
      }
    }
    this.draw();
  }

  setLook(look: Look) {
    this.look = look;
    this.draw();
  }

  setView(view: View) {
    this.view = view;
    this.draw();
  }

  /** Schedules one drawing before the next frame. */
  draw() {
    if (!this.scheduled) this.scheduled = requestAnimationFrame(() => {
      this.scheduled = 0;
      this.paint();
    });
  }

  private scale(): [number, number] {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    const shorter = Math.min(width, height) || 1;
    const zoom = this.view.zoom * 0.94;
    return [(zoom * shorter) / (width || 1), (zoom * shorter) / (height || 1)];
  }

  private paint() {
    const { canvas, look } = this;
    const ratio = Math.min(devicePixelRatio || 1, 2);
    const [width, height] = [Math.round(canvas.clientWidth * ratio), Math.round(canvas.clientHeight * ratio)];
    if (!width || !height) return;
    if (canvas.width !== width || canvas.height !== height) [canvas.width, canvas.height] = [width, height];
    const size = look.size * ratio * Math.min(3, Math.max(1, Math.sqrt(this.view.zoom)));
    const gl = this.gl;
    const [sx, sy] = this.scale();
    this.drawn = this.a.length === this.count ? this.count : 0;
    if (gl && this.program) {
      const uniform = (name: string) => gl.getUniformLocation(this.program!, name);
      gl.viewport(0, 0, width, height);
      gl.clearColor(0, 0, 0, 0);
      gl.clear(gl.COLOR_BUFFER_BIT);
      gl.uniform4f(uniform('view'), this.view.x, this.view.y, sx, sy);
      gl.uniform1f(uniform('temperature'), look.temperature);
      gl.uniform2f(uniform('bounds'), look.low, look.high);
      gl.uniform2f(uniform('range'), look.range[0], look.range[1] > look.range[0] ? look.range[1] : look.range[0] + 1);
      gl.uniform1f(uniform('size'), size);
      gl.uniform1i(uniform('channel'), CHANNELS.indexOf(look.channel));
      gl.uniform1i(uniform('scale'), SCALES.indexOf(look.scale));
      gl.uniform1f(uniform('chosen'), this.chosen ? 1 : 0);
      gl.uniform1f(uniform('dark'), look.dark ? 1 : 0);
      if (this.drawn) gl.drawArrays(gl.POINTS, 0, this.count);
      return;
    }
    const context = canvas.getContext('2d');
    if (!context) return;
    context.clearRect(0, 0, width, height);
    for (let i = 0; i < this.drawn; i++) {
      const t = this.shade(i);
      context.globalAlpha = this.chosen && !this.marks[i] ? 0.2 : t === null ? 0.35 : 0.85;
      context.fillStyle = ramp(t ?? 0.5, look.dark);
      const [x, y] = [((this.x[i] - this.view.x) * sx + 1) / 2, (1 - (this.y[i] - this.view.y) * sy) / 2];
      context.fillRect(x * width - size / 2, y * height - size / 2, size, size);
      if (this.rings[i] && t !== null) {
        context.strokeStyle = look.dark ? '#eeeeee' : '#222222';
        context.strokeRect(x * width - size / 2, y * height - size / 2, size, size);
      }
    }
  }

  private shade(i: number): number | null {
    const [a, b] = [this.a[i], this.b[i]];
    const { channel } = this.look;
    if (channel === 'a') return Number.isNaN(a) ? null : level(a, this.look);
    if (channel === 'b') return Number.isNaN(b) ? null : level(b, this.look);
    return Number.isNaN(a) || Number.isNaN(b) ? null : 0.5 + (level(b, this.look) - level(a, this.look)) / 2;
  }

  /** Converts canvas pixels to map coordinates. */
  toMap(px: number, py: number): [number, number] {
    const [sx, sy] = this.scale();
    const { clientWidth: width, clientHeight: height } = this.canvas;
    return [((px / width) * 2 - 1) / sx + this.view.x, (1 - (py / height) * 2) / sy + this.view.y];
  }

  toPixels(index: number): [number, number] {
    const [sx, sy] = this.scale();
    const { clientWidth: width, clientHeight: height } = this.canvas;
    return [(((this.x[index] - this.view.x) * sx + 1) / 2) * width, ((1 - (this.y[index] - this.view.y) * sy) / 2) * height];
  }

  /** The nearest point within `reach` pixels, or −1. A linear search takes a fraction of a millisecond for 32,000 points. */
  nearest(px: number, py: number, reach = 12): number {
    const [mx, my] = this.toMap(px, py);
    const [sx, sy] = this.scale();
    const { clientWidth: width, clientHeight: height } = this.canvas;
    let [best, least] = [-1, reach * reach];
    for (let i = 0; i < this.count; i++) {
      const dx = ((this.x[i] - mx) * sx * width) / 2;
      const dy = ((this.y[i] - my) * sy * height) / 2;
      const distance = dx * dx + dy * dy;
      if (distance < least) [best, least] = [i, distance];
    }
    return best;
  }

  /** The points within a polygon in map coordinates. */
  within(polygon: [number, number][]): number[] {
    const xs = polygon.map((point) => point[0]);
    const ys = polygon.map((point) => point[1]);
    const [left, right, low, high] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
    const out: number[] = [];
    for (let i = 0; i < this.count; i++) {
      const [x, y] = [this.x[i], this.y[i]];
      if (x >= left && x <= right && y >= low && y <= high && inside(x, y, polygon)) out.push(i);
    }
    return out;
  }
}
