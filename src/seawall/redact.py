"""What may be said in public: one line, no secret, no server path, bounded.

Every message that leaves seawall (a fault, a log event, a page) goes through `one_line`. It must
not know what it is redacting for. Two promises: it never raises, and its cost is linear in the
text, of which it reads no more than `LONGEST_READ` characters.
"""

import hashlib
import re
from functools import lru_cache

LONGEST_MESSAGE = 300
LONGEST_READ = 4_000
LONGEST_REMEMBERED = 500
MOST_REMEMBERED = 500
"""In an outage the same few messages come by the thousand: what they become is remembered."""

_SENSITIVE_NAME = (
    r"(?:api[ _-]?key|access[ _-]?key(?:[ _-]?id)?|secret[ _-]?(?:access[ _-]?)?key"
    r"|private[ _-]?key|account[ _-]?key|subscription[ _-]?key|client[_-]?secret|token|secret"
    r"|(?<!/)passwd|password|passphrase|(?<=[_-])pass(?![a-z])|(?<![a-z])pwd|session[_-]?id|(?<![a-z])auth(?==)|credentials?|signature|(?<![a-z])sig)"
)
_QUOTE = r"\\{0,7}['\"]"
_SETS = r"(?:" + _QUOTE + r")?\s{0,3}(?>=>|:=|==|[=:])\s{0,3}"
_PAIR = _QUOTE + r",\s{0,3}b?"
# To the closing quote, or to the end where the text was cut; an escaped quote closes nothing.
_REST_OF_QUOTED = r"(?:(?!\3)(?:\\+.|[^\\]))*(?:\3)?"
_PROSE = r"\b(key|token|password|secret)((?: \w{1,12})"
_TELLING_NAME = r"(api key|token|(?<!/)passwd|(?<![a-z])pwd|password|passphrase|secret)"
_NO_PROSE = (  # "token: expected ','", "password: String should have at least 8 characters"
    r"(?!(?:a|an|cannot|could|expected|field|has|header|input|invalid|is|missing|must|no|not"
    r"|required|should|string|the|unexpected|value|was|blocked)(?![\w=+/-]))"
)
_VALUE = r"[^\s'\",;]"
_KEY_PREFIX = (
    r"(?-i:gh[pousr]_|github_pat_|glpat-|hf_|npm_|pypi-|xox[a-z]-|xapp-|AIza|ya29\.|1//0|SG\."
    r"|whsec_|dop_v1_|shpat_|r8_|gsk_|xai-|pplx-|nvapi-|tvly-|lin_api_|ntn_|hvs\.|GOCSPX-|dapi"
    r"|AGE-SECRET-KEY-)"
)

# Each row is (words, pattern, what stands in its place). A pattern is tried only where the line
# has one of its words, without which it cannot match: most lines have none. Order matters: whole
# constructs (a key block, a URL's user part) go before the words inside them. Every pattern is
# anchored to a word or a mark, and once begun it cannot fail far on: so the cost stays linear.
_NAMES = ("key", "token", "secret", "pass", "pwd", "credential", "sig", "session", "auth")
_HEADERS = ("authorization", "cookie")
_ANY_LINE = ("",)
_SECRETS: tuple[tuple[tuple[str, ...], re.Pattern[str], str], ...] = tuple(
    (words, re.compile(pattern, re.IGNORECASE), instead)
    for words, pattern, instead in (
        (("-----begin",),
         r"-----BEGIN [A-Z0-9 ]{1,40}-----.*?(?:-----END [A-Z0-9 ]{1,40}-----|$)", "[redacted]"),
        # user:password@ in a URL: the password may hold @ and /, but a port is no password
        (("://",),
         r"(://)[^\s/@:'\"]{0,200}:(?!\d{1,5}(?:[/?#]|$))[^\s'\"]{0,500}@", r"\1"),
        (("://",), r"(://)[^\s/@'\"]{1,500}@", r"\1"),
        (("://",), r"(://[^\s?#'\"<>]+)(?:[?#][^\s'\"<>)]*)?", r"\1"),
        (("hooks.slack",),
         r"(hooks\.slack\.com/(?:services|workflows|triggers)/)[\w/-]+", r"\1[redacted]"),
        # a header's whole value: schemes and cookies have names that nobody can list
        (_HEADERS, r"((?:proxy-)?authorization|(?:set-)?cookie)(" + _SETS + r")(" + _QUOTE + r")"
         + _REST_OF_QUOTED, r"\1\2[redacted]"),
        (_HEADERS, r"((?:proxy-)?authorization|(?:set-)?cookie)(" + _SETS
         + r")(?!\[redacted)" + _NO_PROSE + r"[^\s'\"][^'\"]*", r"\1\2[redacted]"),
        # the same as a pair: ('set-cookie', 'sid=…'), (b'authorization', b'…')
        (_HEADERS, r"((?:proxy-)?authorization|(?:set-)?cookie)(" + _PAIR + r")(" + _QUOTE + r")"
         + _REST_OF_QUOTED, r"\1\2[redacted]"),
        (_NAMES, r"(" + _SENSITIVE_NAME + r")(" + _PAIR + r")(" + _QUOTE + r")" + _REST_OF_QUOTED,
         r"\1\2[redacted]"),
        (("bearer",), r"(bearer)\s+(?!authenti|authori|credential)[\w.~+/=:-]{6,}",
         r"\1 [redacted]"),
        (("basic", "digest", "negotiate"),
         r"(basic|digest|negotiate)\s+(?!(?-i:[A-Z]?[a-z]+)(?![\w~+/=-]))[\w.~+/=:-]{6,}",
         r"\1 [redacted]"),
        # name=value, name: value, 'name': 'value', "name": "value", name="value with blanks"
        (_NAMES, r"(" + _SENSITIVE_NAME + r")(" + _SETS + r")(" + _QUOTE + r")" + _REST_OF_QUOTED,
         r"\1\2[redacted]"),
        (_NAMES, r"(" + _SENSITIVE_NAME + r")(" + _SETS + r"|>)(?!\[redacted)" + _NO_PROSE
         + r"[^\s'\",;&)\]}]+", r"\1\2[redacted]"),
        # --password hunter2
        (("--",), r"(--[\w-]{0,30}(?:passw(?:or)?d|token|secret|key))([ =])(?![-\[])[^\s'\"]+",
         r"\1\2[redacted]"),
        # "the token hunter2abc was refused", "client_secret is s3cr3tvalue"
        (_NAMES, _TELLING_NAME + r"( (?:is )?)(?=\S{0,200}\d)(?=\S{0,200}[a-z])[\w.+/=*-]{6,}",
         r"\1\2[redacted]"),
        # "with password 'hunter2'"
        (_NAMES, r"\b(api key|passwd|password|passphrase|secret)( (?:is )?)(['\"])"
         + _REST_OF_QUOTED, r"\1\2[redacted]"),
        # "Incorrect API key provided: sk-…" and its kin: a word, some prose, a colon, the secret
        (_NAMES, _PROSE + r"{0,2} (?:provided|given|supplied|used|is|was):\s{0,2})(?!\[redacted)"
         + _VALUE + r"{6,}", r"\1\2[redacted]"),
        (_NAMES, _PROSE + r"{1,4}:(?!//)\s{0,2})(?!\[redacted)(?=" + _VALUE + r"*[a-z])(?=" + _VALUE
         + r"*[\d*_+=-])" + _VALUE + r"{6,}", r"\1\2[redacted]"),
        (("k-", "k_"),
         r"(?<![a-z0-9])(?:sk[-_]|rk_|[ap]k-|pk_(?:live|test)_)[a-z0-9*_-]{6,}", "[redacted]"),
        (_ANY_LINE, r"(?<![a-z0-9])" + _KEY_PREFIX
         + r"(?:[\w.*-]{16,}|(?=[\w.*-]*\d)[\w.*-]{6,})", "[redacted]"),
        (("akia", "asia", "aroa", "aida"), r"(?-i:AKIA|ASIA|AROA|AIDA)(?-i:[A-Z0-9]{12,})",
         "[redacted]"),
        (("eyj",), r"(?-i:eyJ)[\w-]{8,}(?:\.[\w-]*){0,4}", "[redacted]"),
        ((":",), r"(?<!\d)\d{8,10}:[\w-]{30,}", "[redacted]"),
    )
)  # fmt: skip
# A long run of letters and digits is more often a key than a word, and no reader misses it.
LONG_RUN = 32
LONG_WORD = 12
_LONG_RUN = re.compile(r"[A-Za-z0-9+/_=-]{32,}")
_UUID = re.compile(r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}")
_AWS_SECRET_LENGTH = 40

# A path begins where no word, URL or relative path goes on. All its parts but the last may hold
# any mark; the last ends where prose goes on after it. `</b>` is no path.
_ROOT = r"(?:~[\w.-]{0,32}[\\/]+|\\?/{1,3}|\\{2,}|[A-Za-z]:[\\/]+)"
_LAST_PART = r"[^\s/\\'\"`:;,()<>\[\]{}|]"
_BARE_PATH = re.compile(
    r"(?:(?<![\w:/.\\~…-])(?<!redacted\])(?!(?<=<)/\w{1,20}>)" + _ROOT + r"|(?<=:)/(?!/))"
    r"(?=" + _LAST_PART + r")(?:[^\s/\\'\"`<>]+[/\\]+)*" + _LAST_PART + r"*"
)
_QUOTED_PATH = re.compile(r"(['\"`])((?:~[\w.-]{0,32})?(?:[/\\]|[A-Za-z]:[\\/])(?:(?!\1).)+)\1")
# Without a host, what follows a scheme is a path of this machine: file:///srv, sqlite:////srv
_FILE_URL = re.compile(
    r"\b(?:file:/{1,3}|[a-z][a-z0-9+.-]{0,20}:///)[^\s'\"`,;()<>]+", re.IGNORECASE
)
_INVISIBLE = re.compile(
    r"[\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]+"
)
_CONTROL_OR_BLANK = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u2028\u2029]+")
MOST_PASSES = 5
DEEPEST = 100
_TELLS = re.compile(
    _SENSITIVE_NAME + r"|(?<![a-z])(?:auth|pass|authorization|(?:set-)?cookie|bearer)(?![a-z])",
    re.IGNORECASE,
)
"""The name of something that nobody is to see."""


def one_line(text: str, *, longest: int = LONGEST_MESSAGE) -> str:
    """The text as one line, without secrets and server paths, at most `longest` characters.

    What it returns it leaves unchanged: a line may pass through it as often as one likes.
    """
    if type(text) is str and len(text) <= LONGEST_REMEMBERED:
        return _one_line_again(text, longest)
    return _one_line(text, longest)


def _one_line(text: str, longest: int) -> str:
    line = _readable(text)
    for _ in range(MOST_PASSES):
        before, line = line, _shortened(_without_paths(without_secrets(line)), longest)
        if line == before:
            return line
    return "[redacted]"[:longest]  # What keeps changing cannot be vouched for.


_one_line_again = lru_cache(maxsize=MOST_REMEMBERED)(_one_line)


def without_secrets(line: str) -> str:
    """The line with every key, token, password and URL query that can be recognised cut out."""
    folded = line.casefold()
    for words, pattern, instead in _SECRETS:
        if any(word in folded for word in words):
            line = pattern.sub(instead, line)
    return _LONG_RUN.sub(_hide_long_run, line)


def holds_secret(text: str) -> bool:
    """Whether a secret of a known form stands in it; a long run of letters alone is none.

    Of an address, its user part and its query count as one.
    """
    folded = text.casefold()
    return any(
        pattern.search(text) is not None
        if "://" not in words
        else pattern.sub(instead, text) != text
        for words, pattern, instead in _SECRETS
        if any(word in folded for word in words)
    )


@lru_cache(maxsize=2_000)
def public_name(name: str) -> str:
    """A name or an id as everybody may see it: itself, but for secrets that were put into it.

    Most come again and again.
    """
    return without_secrets(name) if holds_secret(name) else name


def redacted(value: object, name: str = "") -> object:
    """A value as JSON has it, without secrets: what a name gives away, and what can be recognised.

    What lies deeper than anybody looks is left out.
    """
    return _redacted(value, name, 0)


def _redacted(value: object, name: str, depth: int) -> object:
    if depth > DEEPEST:
        return "…"
    if isinstance(value, dict):
        return {
            without_secrets(str(key)): _redacted(each, str(key), depth + 1)
            for key, each in value.items()
        }
    if isinstance(value, list | tuple):
        return [_redacted(each, name, depth + 1) for each in value]
    if name and value not in (None, "") and not isinstance(value, bool) and _TELLS.search(name):
        return "[redacted]"
    return without_secrets(value) if isinstance(value, str) else value


def _readable(text: str) -> str:
    """The part that is read: cut between words, so that no half of a secret is left over."""
    head = text[:LONGEST_READ].encode("utf-8", "replace").decode("utf-8")
    if _INVISIBLE.search(head):
        # It may stand before a secret, or split the word that gives one away: look both ways.
        head = _INVISIBLE.sub("", without_secrets(head))
    line = _CONTROL_OR_BLANK.sub(" ", head)
    if len(text) > LONGEST_READ:
        line = line.rpartition(" ")[0] + " …"
    return line.strip()


def _shortened(line: str, longest: int) -> str:
    line = line.strip()
    if len(line) <= longest:
        return line
    return (line[: max(longest - 1, 0)].rstrip() + "…")[:longest]


def _hide_long_run(found: re.Match[str]) -> str:
    run = found.group()
    if run.endswith("=") or ("/" in run and len(run) == _AWS_SECRET_LENGTH):
        return "[redacted]" if _is_mixed(run, cases=not run.endswith("=")) else run
    return "/".join("[redacted]" if _is_key(part) else part for part in run.split("/"))


def _is_key(part: str) -> bool:
    """Long, mixed, and not just several words in a row: `queue_for_reports_2026_production`."""
    part = _UUID.sub("", part)
    longest = max(re.split(r"[_-]", part), key=len)
    return len(part) >= LONG_RUN and len(longest) >= LONG_WORD and _is_mixed(longest)


def _is_mixed(run: str, *, cases: bool = False) -> bool:
    """Whether it has letters and digits; with `cases`, letters of both cases and no dash."""
    if cases and (run.upper() == run or run.lower() == run or "-" in run or "_" in run):
        return False
    return any(c.isdigit() for c in run) and any(c.isalpha() for c in run)


def _without_paths(line: str) -> str:
    line = _FILE_URL.sub(lambda found: _last_part(found.group()), line)
    line = _QUOTED_PATH.sub(lambda found: f"{found[1]}{_last_part(found[2])}{found[1]}", line)
    return _BARE_PATH.sub(lambda found: _last_part(found.group()), line)


def _last_part(path: str) -> str:
    parts = [part for part in re.split(r"[/\\]", path) if part]
    return "…/" + parts[-1] if parts else path


# What differs between two messages that mean the same: ids, numbers, addresses, times, file names.
_DAY = r"(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?"
_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
_FILE_ENDING = (
    r"(?:avi|bin|bmp|css|csv|db|docx?|gif|gz|html?|ini|jpe?g|json|jsonl|js|log|md|mkv|mov|mp3|mp4"
    r"|pdf|png|pptx?|py|sock|sql|sqlite|svg|tar|tiff?|tmp|toml|ts|tsv|txt|wav|webp|xlsx?|xml|yaml"
    r"|yml|zip)"
)
_VARIABLE: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), instead)
    for pattern, instead in (
        (r"\b[a-z][a-z0-9+.-]{0,20}://[^\s'\"]+", "<url>"),
        (r"[^\s@'\"<>]{1,100}@[^\s@'\"<>]{1,100}", "<address>"),
        (r"…/[^\s'\",;]+", "<value>"),
        (r"(?<![\w.-])[\w-][\w.-]*\." + _FILE_ENDING + r"\b(?!\.\w)", "<value>"),
        (r"(?<![\w.-])[\w-]+(?:\.[\w-]+)+:\d{1,5}\b", "<address>"),
        (r"\b" + _DAY + r"\b,?(?=\s{1,2}(?:\d|" + _MONTH + r"\b))", "<time>"),
        (r"\b" + _MONTH + r"\b(?=\W{1,2}\d)|(?<=\d[ /-])" + _MONTH + r"\b", "<time>"),
        (r"\[redacted\]", "<n>"),
        (r"\b[a-z]{2,10}[_-][a-z0-9]{16,}\b", "<n>"),
        (r"(?<![\w-])[\w-]*\d[\w.:,+%-]*", "<n>"),
        (r"\b[0-9a-f]{8,}\b", "<n>"),
        (r"(?:<(?:n|time)>\W{0,3}){2,}", "<n> "),
    )
)
_QUOTED = re.compile(r"(['\"`])([^'\"`]*)\1")
_VARIES = re.compile(r"[\d./\\@:…]")
_HEX_AND_COLONS = re.compile(r"(?<!\w)[0-9a-f:.]+(?:%\w+)?(?!\w)")


def shape(message: str) -> str:
    """The message without what varies from one occurrence to the next."""
    text = message[:LONGEST_READ].lower()
    text = _QUOTED.sub(lambda q: "<value>" if _VARIES.search(q[2]) else q.group(), text)
    text = _HEX_AND_COLONS.sub(lambda a: "<n>" if a.group().count(":") > 1 else a.group(), text)
    for pattern, instead in _VARIABLE:
        text = pattern.sub(instead, text)
    return _CONTROL_OR_BLANK.sub(" ", text).strip()


_shape_again = lru_cache(maxsize=MOST_REMEMBERED)(shape)


def fingerprint(message: str, *exact: object) -> str:
    """A short stable name shared by all messages of one shape, where the exact parts are equal."""
    short = type(message) is str and len(message) <= LONGEST_REMEMBERED
    told = _shape_again(message) if short else shape(message)
    text = "\x1f".join([told, *map(str, exact)])
    return hashlib.blake2s(text.encode("utf-8", "replace"), digest_size=8).hexdigest()
