"use strict";
const said = document.getElementById("said");
const jobs = document.getElementById("jobs");

async function refresh() {
  const answer = await fetch("/rows");
  if (answer.ok) {
    const text = await answer.text();
    if (text !== jobs.dataset.text) {
      jobs.innerHTML = text;
      jobs.dataset.text = text;
    }
  }
}

async function ask(path, body) {
  const answer = await fetch(path, { method: "POST", body });
  const told = await answer.json();
  said.textContent = answer.ok ? "" : `${told.title} (${told.code})`;
  await refresh();
}

document.getElementById("upload").addEventListener("submit", (event) => {
  event.preventDefault();
  const [file] = document.getElementById("file").files;
  ask(`/api/jobs?name=${encodeURIComponent(file.name)}`, file);
});

jobs.addEventListener("click", (event) => {
  const id = event.target.dataset.retry;
  if (id) ask(`/api/jobs/${id}/retry`);
});

setInterval(() => refresh().catch(() => {}), 1000);
