"""The pages as others judge them: html-validate reads their markup, Lighthouse opens them in Chromium."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.outside.outcome import NotHereError, Outcome, Skipped
from tests.outside.programs import NODE_FOLDER, ROOT, chromium, node_program, node_version, run
from tests.outside.scripted import server

FOLDER = ROOT / "server" / "antiphon" / "pages"
PAGES = {"chat": ("index.html", "/"), "operators": ("ops.html", "/ops")}
"""Page -> its file, its address."""
JUDGED = ("accessibility", "best-practices", "seo")
NO_TIMES = "it is made of times, which are those of the machine; `make bench-page` measures the page"
BY_HAND = "Lighthouse lists them for a person to look at, and has no verdict"
NO_SUBJECT = "the page has nothing that they are about, or they only inform"
RULES_OFF = {
    "doctype-style": "a doctype may be in small letters, and ours are",
    "autocomplete-password": "an API key is no password of a site: no browser should keep it",
    "wcag/h32": "the filters of the operators' page act at once, and there is nothing to submit",
}
RULES = {
    "root": True,
    "extends": ["html-validate:recommended"],
    # Lists may have a name by ARIA; the default wants one on fewer elements than that.
    "rules": {**dict.fromkeys(RULES_OFF, "off"), "aria-label-misuse": ["error", {"allowAnyNamable": True}]},
}


async def html_validate() -> Outcome:
    """The markup of each page, by the recommended rules."""
    words = node_program("html-validate", "bin/html-validate.mjs")
    files = [str(FOLDER / name) for name, _ in PAGES.values()]
    with tempfile.NamedTemporaryFile("w", suffix=".json") as rules:
        rules.write(json.dumps(RULES))
        rules.flush()
        ended = await run(*words, "--config", rules.name, "--formatter", "json", *files)
    if not ended.output.lstrip().startswith("["):
        raise NotHereError(f"html-validate gave no report: {ended.output.strip()[-300:]}")
    failures = [
        f"{Path(page['filePath']).name}:{one['line']}: {one['ruleId']}: {one['message']}"
        for page in json.loads(ended.output)
        for one in page["messages"]
    ]
    bad = {failure.split(":")[0] for failure in failures}
    return Outcome(
        "html-validate (recommended)",
        node_version("html-validate", NODE_FOLDER),
        "the markup of the pages",
        passed=len(files) - len(bad),
        failures=failures,
        skipped=[Skipped(1, f"the rule `{rule}`", reason) for rule, reason in RULES_OFF.items()],
    )


async def lighthouse() -> Outcome:
    """Every audit with a verdict of the categories that do not measure time."""
    words = node_program("lighthouse", "cli/index.js")
    browser = chromium()
    passed, failures = 0, list[str]()
    skips = dict.fromkeys((NO_TIMES, BY_HAND, NO_SUBJECT), 0)
    with tempfile.TemporaryDirectory(prefix="antiphon-lighthouse-") as folder:
        async with server() as running:
            for page, (_, address) in PAGES.items():
                file = Path(folder) / f"{page}.json"
                flags = "--chrome-flags=--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage"
                only = f"--only-categories={','.join(JUDGED)}"
                out = ("--quiet", "--output=json", f"--output-path={file}")
                ended = await run(*words, running.url + address, flags, only, *out, CHROME_PATH=browser)
                if not file.exists():
                    raise NotHereError(f"Lighthouse gave no report: {ended.output.strip()[-300:]}")
                skips[NO_TIMES] += 1
                for audit in _audits(json.loads(file.read_text(encoding="utf-8"))):
                    if audit["scoreDisplayMode"] in ("notApplicable", "informative"):
                        skips[NO_SUBJECT] += 1
                    elif audit["scoreDisplayMode"] == "manual":
                        skips[BY_HAND] += 1
                    elif audit["score"] == 1:
                        passed += 1
                    else:
                        failures.append(f"{page}: {audit['id']}: {audit['title']}")
    names = {NO_TIMES: "the category `performance` of each page", BY_HAND: "audits by hand", NO_SUBJECT: "audits"}
    return Outcome(
        f"Lighthouse ({', '.join(JUDGED)})",
        node_version("lighthouse", NODE_FOLDER),
        "the pages in Chromium",
        passed=passed,
        failures=failures,
        skipped=[Skipped(count, names[reason], reason) for reason, count in skips.items()],
    )


def _audits(report: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The audits of the categories, each once."""
    names = {one["id"] for category in JUDGED for one in report["categories"][category]["auditRefs"]}
    yield from (report["audits"][name] for name in sorted(names))
