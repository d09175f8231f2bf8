"""What may be said in public: one line, no secret, no server path, bounded.

Every message that leaves seawall (a fault, a log event, a page) goes through `one_line`. It must
not know what it is redacting for. Two promises: it never raises, and its cost is linear in the
text, of which it reads no more than `LONGEST_READ` characters.
"""

import hashlib
import re

LONGEST_MESSAGE = 300
LONGEST_READ = 8_000

_SECRET_WORD = (
    r"(?:api[_-]?key|apikey|access[_-]?key(?:[_-]?id)?|secret[_-]?access[_-]?key|private[_-]?key"
    r"|account[_-]?key|client[_-]?secret|subscription[_-]?key|auth[_-]?token|access[_-]?token"
    r"|refresh[_-]?token|id[_-]?token|session[_-]?token|security[_-]?token|token|secret|passwd"
    r"|password|passphrase|(?<![a-z])pwd|credentials?|signature|(?<![a-z])sig|set-cookie|cookie|authorization"
    r"|x-amz-signature|x-amz-credential|x-goog-signature)"
)

# Each pair is (what a secret looks like, what stands in its place). Order matters: whole
# constructs (a key block, a URL's user part) go before the words inside them.
_SECRETS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"-----BEGIN [A-Z ]{1,40}-----.*?(?:-----END [A-Z ]{1,40}-----|$)"), "[redacted]"),
    (re.compile(r"\b([a-z][a-z0-9+.-]{0,20}://)[^\s/@'\"]{1,500}@", re.IGNORECASE), r"\1"),
    (re.compile(r"(://[^\s?#'\"<>]{1,1000})[?#][^\s'\"<>)]*"), r"\1"),
    (re.compile(r"\b(bearer|basic|digest|negotiate)\s+[\w.~+/=:-]{6,}", re.IGNORECASE),
     r"\1 [redacted]"),
    # name=value, name: value, 'name': 'value', "name": "value", name="value with blanks"
    (re.compile(r"(" + _SECRET_WORD + r")(\\?['\"]?\s{0,3}(?:[=:]|=>)\s{0,3})(\\?['\"])(?:(?!\3).)*\3?",
                re.IGNORECASE), r"\1\2[redacted]"),
    (re.compile(r"(" + _SECRET_WORD + r")(\\?['\"]?\s{0,3}(?:[=:]|=>)\s{0,3})"
                r"(?!\[redacted|(?:bearer|basic|digest|negotiate) \[redacted)[^\s'\",;&)\]}]+",
                re.IGNORECASE), r"\1\2[redacted]"),
    # "Incorrect API key provided: sk-…" and its kin: a word, some prose, a colon, the secret
    (re.compile(r"\b((?:api )?key|token|password|secret)((?: \w{1,12}){1,3}:\s{0,2})[^\s'\",;]{6,}",
                re.IGNORECASE), r"\1\2[redacted]"),
    (re.compile(r"\b(?:sk|pk|rk|ak)[-_][A-Za-z0-9*_-]{6,}"), "[redacted]"),
    (re.compile(r"\b(?:gh[pousr]_|github_pat_|glpat-|hf_|npm_|pypi-|xox[a-z]-|xapp-|AIza|ya29\."
                r"|SG\.|whsec_|dop_v1_|shpat_|r8_|gsk_|xai-)[\w.*-]{6,}"), "[redacted]"),
    (re.compile(r"\b(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{12,}\b"), "[redacted]"),
    (re.compile(r"\beyJ[\w-]{8,}(?:\.[\w-]*){0,3}"), "[redacted]"),
    (re.compile(r"\b\d{8,10}:[\w-]{30,}"), "[redacted]"),
)
# A long run of letters and digits is more often a key than a word, and no reader misses it.
_LONG_RUN = re.compile(r"[A-Za-z0-9+/_=-]{32,}")
_UUID = re.compile(
    r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
)

_QUOTED_PATH = re.compile(r"(['\"`])((?:file://)?(?:/|~/|\\\\|[A-Za-z]:[\\/])[^'\"`]{1,1000})\1")
_BARE_PATH = re.compile(
    r"(?<![\w:/.\\~…-])(?:file://)?(?:~?/|\\\\|[A-Za-z]:[\\/])(?:[^\s/\\'\"`:;,()<>\[\]{}|]{1,255}[/\\]){0,40}"
    r"[^\s/\\'\"`:;,()<>\[\]{}|]{1,255}[/\\]?"
)
_FILE_URL = re.compile(r"file://[^\s'\"`,;()<>]+", re.IGNORECASE)
_CONTROL_OR_BLANK = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u2028\u2029\u200b-\u200f\ufeff]+")


def one_line(text: str, *, longest: int = LONGEST_MESSAGE) -> str:
    """The text as one line, without secrets and server paths, at most `longest` characters."""
    line = _CONTROL_OR_BLANK.sub(" ", _readable(text)).strip()
    line = _without_paths(without_secrets(line))
    if len(line) > longest:
        line = line[: longest - 1].rstrip() + "…"
    return line


def without_secrets(line: str) -> str:
    """The line with every key, token, password and URL query that can be recognised cut out."""
    for pattern, instead in _SECRETS:
        line = pattern.sub(instead, line)
    return _LONG_RUN.sub(_hide_long_run, line)


def _readable(text: str) -> str:
    """The part that is read: cut between words, so that no half of a secret is left over."""
    if len(text) <= LONGEST_READ:
        return text.encode("utf-8", "replace").decode("utf-8")
    head, _, _ = text[:LONGEST_READ].rpartition(" ")
    return head.encode("utf-8", "replace").decode("utf-8") + " …"


def _hide_long_run(found: re.Match[str]) -> str:
    run = found.group()
    if _UUID.search(run):
        return run
    mixed = any(c.isdigit() for c in run) and any(c.isalpha() for c in run)
    return "[redacted]" if mixed and "/" not in run.strip("/") else run


def _without_paths(line: str) -> str:
    line = _FILE_URL.sub(lambda found: _last_part(found.group()), line)
    line = _QUOTED_PATH.sub(lambda found: f"{found[1]}{_last_part(found[2])}{found[1]}", line)
    return _BARE_PATH.sub(lambda found: _last_part(found.group()), line)


def _last_part(path: str) -> str:
    parts = [part for part in re.split(r"[/\\]", path) if part]
    return "…/" + parts[-1] if parts else path


# What differs between two messages that mean the same: ids, numbers, addresses, times, file names.
_VARIABLE: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\b[a-z][a-z0-9+.-]{0,20}://[^\s'\"]+"), "<url>"),
    (re.compile(r"[^\s@'\"<>]{1,100}@[^\s@'\"<>]{1,100}"), "<address>"),
    (re.compile(r"(['\"`])[^'\"`]*[\d./\\@:…][^'\"`]*\1"), "<value>"),
    (re.compile(r"…/[^\s'\",;]+"), "<value>"),
    (re.compile(r"\b(?:mon|tue|wed|thu|fri|sat|sun)[a-z]{0,6}\b,?"), "<time>"),
    (re.compile(r"\b(?:jan|feb|mar|apr|jun|jul|aug|sep|oct|nov|dec)(?:[a-z]{0,6})\b(?=\W{1,2}\d)"
                r"|(?<=\d )(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}\b"),
     "<time>"),
    (re.compile(r"\[redacted\]"), "<id>"),
    (re.compile(r"[0-9a-f:]*:[0-9a-f:]*:[0-9a-f:.]*"), "<n>"),
    (re.compile(r"[\w-]*\d[\w.:,+-]*"), "<n>"),
    (re.compile(r"\b[0-9a-f]{8,}\b"), "<n>"),
    (re.compile(r"<n>(?:\W{0,3}<n>)+"), "<n>"),
    (re.compile(r"(?:<time>\W{0,3}|<n>\W{0,3}){2,}"), "<n> "),
)


def shape(message: str) -> str:
    """The message without what varies from one occurrence to the next."""
    text = message[:LONGEST_READ].lower()
    for pattern, instead in _VARIABLE:
        text = pattern.sub(instead, text)
    return _CONTROL_OR_BLANK.sub(" ", text).strip()


def fingerprint(message: str, *exact: object) -> str:
    """A short stable name shared by all messages of one shape, where the exact parts are equal."""
    text = "\x1f".join([shape(message), *map(str, exact)])
    return hashlib.blake2s(text.encode("utf-8", "replace"), digest_size=8).hexdigest()
