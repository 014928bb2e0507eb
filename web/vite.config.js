import { createHash } from 'node:crypto';
import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vite';

// One script and one style under fixed names, so that the program can embed them; a classic script, because pages opened
// from disk may not load modules; and the hashes by which a single file allows exactly these two.
const plain = () => ({
  name: 'plain',
  enforce: 'post',
  generateBundle(_, bundle) {
    const page = bundle['index.html'];
    page.source = page.source
      .replace(/\s*<script[^>]*src="[^"]*app\.js"[^>]*><\/script>/, '')
      .replace(/\s*<link[^>]*rel="stylesheet"[^>]*>/, '')
      .replace('</head>', '  <link rel="stylesheet" href="./app.css">\n    <script defer src="./app.js"></script>\n  </head>');
    const hash = (text) => 'sha256-' + createHash('sha256').update(text).digest('base64');
    const script = bundle['app.js'].code;
    const style = bundle['app.css'].source;
    this.emitFile({ type: 'asset', fileName: 'hashes.txt', source: `${hash(script)}\n${hash(style)}\n` });
  },
});

export default defineConfig({
  plugins: [svelte({ compilerOptions: { runes: true } }), plain()],
  base: './',
  build: {
    target: 'es2022',
    modulePreload: false,
    cssCodeSplit: false,
    rollupOptions: {
      output: { format: 'iife', codeSplitting: false, entryFileNames: 'app.js', assetFileNames: 'app[extname]' },
    },
  },
});
