// Light or dark theme: the setting of the system, until the user changes it.

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

export function toggleTheme() {
  theme.dark = !theme.dark;
  apply();
}
