"""Jobs and dead letters among the pages of Django's admin.

The lists are the store's own, a page at a time; nothing is read through Django's models, which
only lend their names and permissions. To see needs `view`, to retry, cancel, redrive or dismiss
needs `change`, and leaves an entry in Django's log of actions. Arguments and results are shown
without what looks like a secret, and what a worker left for operators (tracebacks, raw output of
upstreams) is not shown at all.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import Any, NamedTuple
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import admin, messages
from django.contrib.admin.models import CHANGE, LogEntry
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse

from seawall.artifacts import recall
from seawall.django import waiting
from seawall.django.home import Home, aliases, home_of
from seawall.django.models import DeadLetter, Job, Waiting
from seawall.errors import ArgumentsError, SeawallError, StoreError
from seawall.faults import FaultCode
from seawall.model import Job as KeptJob
from seawall.redact import one_line, redacted
from seawall.retrying import retried
from seawall.states import FINISHED, State
from seawall.store import LetterState
from seawall.store.values import MOST_ROWS

LETTER_FILTERS = ("state", "task", "fault", "group")
LISTED = 50
MOST_AT_ONCE = 500
LONGEST_SHOWN = 20_000
LONGEST_NOTE = 150
LARGEST_NUMBER = 2**63 - 1


class _Done(NamedTuple):
    """What somebody has done."""

    line: str
    about: list[Any]
    """To what: one of our models for each."""


class _Pages(admin.ModelAdmin):
    """What both kinds of pages have in common."""

    def has_add_permission(self, _request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, _request: HttpRequest, _found: Any = None) -> bool:
        return False

    def get_urls(self) -> list[URLPattern]:
        """A list, and a page for each of its rows."""
        wrap, name = self.admin_site.admin_view, self.opts.model_name
        return [
            path("", wrap(_kept_calm(self.changelist_view)), name=f"seawall_{name}_changelist"),
            path("<int:job_id>/", wrap(_kept_calm(self.job_view)), name=f"seawall_{name}_change"),
        ]

    def job_view(self, request: HttpRequest, job_id: int) -> HttpResponse:
        raise NotImplementedError

    def _home(self, request: HttpRequest) -> Home:
        """The backend that is asked about: the one that is named, or the first."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        there = sorted(aliases(), key=lambda alias: (alias != "default", alias))
        chosen = request.GET.get("backend") or (there[0] if there else "")
        if chosen not in there:
            raise Http404("TASKS has no such backend of seawall's")
        return home_of(chosen)

    def _shown(
        self, request: HttpRequest, template: str, home: Home, **context: Any
    ) -> HttpResponse:
        more = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "backends": sorted(aliases()),
            "backend": home.alias,
            "may_change": self.has_change_permission(request),
            "here": f"?{urlencode({'backend': home.alias})}",
            **context,
        }
        request.current_app = self.admin_site.name
        return TemplateResponse(request, f"admin/seawall/{template}.html", more)

    def _acted(
        self,
        request: HttpRequest,
        actions: dict[str, Callable[[], "_Done"]],
    ) -> HttpResponse:
        """Do what was asked for, if that is allowed; write down who did it, and say what came of it
        on the same page.
        """
        if not self.has_change_permission(request):
            raise PermissionDenied
        action = actions.get(request.POST.get("action", ""))
        if action is None:
            messages.warning(request, "Choose what to do.")
        else:
            try:
                line, about = action()
            except SeawallError as error:
                messages.error(request, one_line(str(error)))
            else:
                who = request.user.pk
                LogEntry.objects.log_actions(who, about, CHANGE, change_message=line)
                messages.success(request, line)
        return HttpResponseRedirect(request.get_full_path())


def _kept_calm(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """The view; where the store is away, a line that says so."""

    @wraps(view)
    def shown(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            return view(request, *args, **kwargs)
        except StoreError as error:
            line = one_line(str(error))
            return HttpResponse(line, status=503, content_type="text/plain; charset=utf-8")

    return shown


def _asked(request: HttpRequest, *names: str) -> dict[str, Any]:
    """What was asked for in the address; an empty field is nothing."""
    return {name: value for name in names if (value := request.GET.get(name, "").strip())}


def _more(request: HttpRequest, after: str | None) -> str | None:
    """The address of the next part of a list."""
    if after is None:
        return None
    query = request.GET.copy()
    query["after"] = after
    return f"?{query.urlencode()}"


def _listed(request: HttpRequest, ask: Callable[..., Any], which: dict[str, Any]) -> Any:
    """A part of a list; None, and a line that says why, where it cannot be shown."""
    try:
        return ask(**which, after=request.GET.get("after") or None, limit=LISTED)
    except (ArgumentsError, StoreError) as error:
        messages.error(request, one_line(str(error)))
        return None


@admin.register(Job)
class JobPages(_Pages):
    """Jobs: finding them, why they wait, what they came to; retry and cancel."""

    def changelist_view(self, request: HttpRequest, _extra: Any = None) -> HttpResponse:
        """A part of the list of jobs."""
        home = self._home(request)
        if request.method == "POST":
            return self._acted(
                request,
                {
                    "ask_again": lambda: _ask_again(home, request),
                    "forget": lambda: _forget(home, request),
                },
            )
        which = _asked(request, "state", "task", "queue", "key")
        page = _listed(request, home.app.jobs, which)
        return self._shown(
            request,
            "jobs",
            home,
            title="Jobs",
            states=list(State),
            asked=which,
            refused=() if home.place.direct else waiting.refused(home)[:LISTED],
            jobs=() if page is None else page.jobs,
            next=_more(request, None if page is None else page.next),
        )

    def job_view(self, request: HttpRequest, job_id: int) -> HttpResponse:
        """All about one job, and what can be done about it."""
        home = self._home(request)
        store = home.app.store
        job = store.jobs([job_id]).get(job_id) if job_id <= LARGEST_NUMBER else None
        if job is None:
            raise Http404(f"there is no job {job_id}; it may have been pruned")
        with suppress(Exception):  # not every process has met the task
            home.task(job.task)
        if request.method == "POST":
            who = request.user.get_username()
            return self._acted(
                request,
                {
                    "retry": lambda: _retry(home, job_id, who),
                    "cancel": lambda: _cancel(home, job_id),
                },
            )
        return self._shown(
            request,
            "job",
            home,
            title=f"Job {job_id}",
            job=job,
            why=home.app.why(job_id).lines,
            arguments=_in_print(store.arguments(job_id)),
            result=_result(home, job),
            attempts=store.attempts(job_id, limit=MOST_ROWS),
            letter=store.letters_of([job_id]).get(job_id),
            history=_history(home, job_id),
            may_retry=job.state is State.FAILED,
            may_cancel=job.state not in FINISHED,
        )


def _history(home: Home, job_id: int) -> Any:
    """What people have done about the job here, the newest first."""
    about = [str(kind) for kind in _about(home, Job, job_id) + _about(home, DeadLetter, job_id)]
    found = LogEntry.objects.filter(
        content_type__app_label="seawall", object_id=str(job_id), object_repr__in=about
    )
    return found.select_related("user")[:LISTED]


def _about(home: Home, model: Any, *ids: Any) -> list[Any]:
    """What stands for these in the log of what was done."""
    found = [model(pk=each) for each in ids]
    for each in found:
        each.backend = home.alias
    return found


def _ask_again(home: Home, request: HttpRequest) -> _Done:
    chosen = _results(request)
    taken = waiting.ask_again(home, chosen)
    line = f"The store has taken {taken} of {len(chosen)}."
    return _Done(line, [Waiting(pk=each, result=each) for each in chosen])


def _forget(home: Home, request: HttpRequest) -> _Done:
    chosen = _results(request)
    line = f"{waiting.forget(home, chosen)} removed."
    return _Done(line, [Waiting(pk=each, result=each) for each in chosen])


def _results(request: HttpRequest) -> list[str]:
    chosen = []
    for each in request.POST.getlist("results")[:MOST_AT_ONCE]:
        with suppress(ValueError):
            chosen.append(str(UUID(each)))
    if not chosen:
        raise ArgumentsError("choose the jobs first")
    return chosen


def _retry(home: Home, job_id: int, who: str) -> _Done:
    retried(home.app, job_id, by=who)
    return _Done(f"Job {job_id} is sent again.", _about(home, Job, job_id))


def _cancel(home: Home, job_id: int) -> _Done:
    if not home.app.cancel(job_id):
        raise ArgumentsError(f"job {job_id} has ended already")
    return _Done(f"Job {job_id} is cancelled, or asked to stop.", _about(home, Job, job_id))


def _result(home: Home, job: KeptJob) -> str | None:
    text = home.app.store.output(job.id, job.stage) if job.state in FINISHED else None
    if text is None:
        return None
    try:
        return _in_print(recall(text, home.app.artifacts))
    except (SeawallError, OSError):
        return "(it cannot be read now)"


def _in_print(text: str | None) -> str | None:
    """JSON for people, without what looks like a secret, and not without end."""
    if text is None:
        return None
    try:
        shown = json.dumps(redacted(json.loads(text)), indent=2, ensure_ascii=False)
    except ValueError:
        return "(it cannot be shown)"
    return shown if len(shown) <= LONGEST_SHOWN else f"{shown[:LONGEST_SHOWN]} …"


@admin.register(DeadLetter)
class DeadLetterPages(_Pages):
    """Dead letters: what failed and waits for somebody; redrive and dismiss."""

    def changelist_view(self, request: HttpRequest, _extra: Any = None) -> HttpResponse:
        """What failed alike, and a part of the list."""
        home = self._home(request)
        if request.method == "POST":
            return self._acted(
                request,
                {
                    "redrive": lambda: _redrive(home, request),
                    "redrive_group": lambda: _redrive_group(home, request),
                    "dismiss": lambda: _dismiss(home, request),
                },
            )
        which = _asked(request, *LETTER_FILTERS)
        page = _listed(request, home.app.dead_letters, which)
        groups: Any = ()
        if page is not None:
            groups = home.app.dead_letter_groups(limit=10, **which).groups
        return self._shown(
            request,
            "dead_letters",
            home,
            title="Dead letters",
            states=[*LetterState, "all"],
            codes=list(FaultCode),
            asked=which,
            groups=groups,
            letters=() if page is None else page.letters,
            next=_more(request, None if page is None else page.next),
        )

    def job_view(self, request: HttpRequest, job_id: int) -> HttpResponse:
        """A letter is shown with its job."""
        home = self._home(request)
        place = reverse(
            "admin:seawall_job_change", args=(job_id,), current_app=self.admin_site.name
        )
        return HttpResponseRedirect(f"{place}?{urlencode({'backend': home.alias})}")


def _chosen(request: HttpRequest) -> list[int]:
    given = request.POST.getlist("jobs")[:MOST_AT_ONCE]
    chosen = [int(each) for each in given if each.isascii() and each.isdecimal()]
    chosen = [each for each in chosen if 0 < each <= LARGEST_NUMBER]
    if not chosen:
        raise ArgumentsError("choose the dead letters first")
    return chosen


def _redrive(home: Home, request: HttpRequest) -> _Done:
    chosen = _chosen(request)
    sent = _sent(home.app.redrive(*chosen, by=request.user.get_username()))
    return _Done(sent, _about(home, DeadLetter, *chosen))


def _redrive_group(home: Home, request: HttpRequest) -> _Done:
    """Those of the group that the page shows: its filter holds for what is done there, too."""
    group = request.POST.get("group", "")
    if not group:
        raise ArgumentsError("choose the group first")
    which = {**_asked(request, *LETTER_FILTERS), "group": group}
    done = home.app.redrive(**which, by=request.user.get_username())
    return _Done(_sent(done), _about(home, DeadLetter, group) if done.sent else [])


def _sent(done: Any) -> str:
    refused = f", {done.refused} refused: {done.refusals[0].reason}" if done.refused else ""
    return one_line(f"{done.sent} sent again{refused}.")


def _dismiss(home: Home, request: HttpRequest) -> _Done:
    note = "".join(sign if sign.isprintable() else " " for sign in request.POST.get("note", ""))
    note = " ".join(note.split())[:LONGEST_NOTE]
    if not note:
        raise ArgumentsError("say why they are dismissed")
    chosen = _chosen(request)
    done = home.app.dismiss(*chosen, note=note, by=request.user.get_username())
    refused = f", {done.refused} refused: {done.refusals[0].reason}" if done.refused else ""
    line = one_line(f"{done.done} dismissed{refused}: {note}.")
    return _Done(line, _about(home, DeadLetter, *chosen))
