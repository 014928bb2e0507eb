// Light or dark: what the system says, until somebody chooses.

const system = matchMedia('(prefers-color-scheme: dark)');
export const theme = $state({ dark: system.matches });

function apply() {
  document.documentElement.dataset.theme = theme.dark ? 'dark' : 'light';
}

apply();
system.addEventListener('change', () => {
  theme.dark = system.matches;
  apply();
});

export function turn() {
  theme.dark = !theme.dark;
  apply();
}
