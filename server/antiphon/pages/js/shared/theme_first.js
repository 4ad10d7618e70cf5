// A classic script in the head: the chosen colours stand before anything is painted.
try {
  const chosen = localStorage.getItem('antiphon.theme');
  if (chosen === 'light' || chosen === 'dark') document.documentElement.dataset.theme = chosen;
} catch {
  // No storage, no choice: the page looks as the system does.
}
