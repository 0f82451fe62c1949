// Keys go to the screen at once and whenever the page is looked at again, without a click.
const focus = () => document.querySelector(".xterm-helper-textarea")?.focus();
addEventListener("focus", focus);
addEventListener("DOMContentLoaded", () => {
  const observer = new MutationObserver(() => {
    focus();
    if (document.activeElement.matches(".xterm-helper-textarea")) observer.disconnect();
  });
  observer.observe(document.body, { childList: true, subtree: true, attributes: true });
});
