"""Writing how an inline attempt ended, with what was seen of its upstream, as a worker does."""

from seawall.app import Seawall
from seawall.errors import StoreError, StoreUnavailableError
from seawall.execute import End, Work, cannot_be_stored
from seawall.store import Answer, Ending, Progress, Release, Result, Store
from seawall.telemetry import LeaseLost, emit
from seawall.worker.governor import Governor

_FIRST_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 1.0


class Ends:
    """The ends of the attempts that are made in one process."""

    def __init__(self, app: Seawall, store: Store, governor: Governor) -> None:
        self._app = app
        self._store = store
        self._governor = governor

    def written(self, work: Work, end: End, until: float) -> tuple[Ending | Release, Answer]:
        """What was written, and the answer; asked again until that is done, or the time is over.

        What is to be said of an attempt is said only now: until then it may have been lost.
        """
        pause, refused = _FIRST_PAUSE_SECONDS, False
        while True:
            try:
                answer = self._write(work, end.write)
            except StoreUnavailableError as error:
                if self._app.clock.monotonic() >= until:
                    if end.span is not None:
                        end.span.tell(lost=True)
                    raise StoreUnavailableError(
                        f"job {end.token.job_id}: its end could not be written, so workers will do"
                        f" it again: {error}"
                    ) from error
                self._app.clock.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
                continue
            if answer.result is not Result.REFUSED or isinstance(end.write, Release):
                break
            if refused:
                raise StoreError(f"job {end.token.job_id}: cannot be settled: {answer.reason}")
            end, refused = cannot_be_stored(work, answer.reason), True
        _tell(work, end, lost=answer.result is Result.LOST)
        if work.claim.lane.upstream:
            self.look_after_upstreams()
        return end.write, answer

    def _write(self, work: Work, write: Ending | Release) -> Answer:
        seeing = self._governor.seeing
        observations = seeing.observations()
        try:
            if (said := work.current.said.progress) is not None:
                done, total, message = said
                self._store.report(
                    [Progress(token=write.token, done=done, total=total, message=message)]
                )
            if isinstance(write, Release):
                (answer,) = self._store.release([write])
                self._store.observe(observations)
            else:
                (answer,) = self._store.settle([write], observations)
        except StoreError:
            seeing.put_back(observations)
            raise
        return answer

    def look_after_upstreams(self) -> None:
        """Tell the fleet what it is to know, and decide what is to be decided."""
        try:
            self._governor.attend(0, looking=False)
        except StoreError:
            return  # what was written stands, and the next one looks again


def _tell(work: Work, end: End, *, lost: bool) -> None:
    """Say what came of an attempt, now that it is written, or that it never will be."""
    if lost:
        _tell_lost(work)
    else:
        context = None if end.span is None else end.span.context
        for event in end.events:
            emit(event, context=context)
        if end.failed is not None:
            work.app.hooks.tell_failed(end.failed)
    if end.span is not None:
        end.span.tell(lost=lost)


def _tell_lost(work: Work) -> None:
    claim = work.claim
    emit(
        LeaseLost(
            job=claim.token.job_id,
            task=claim.lane.task,
            stage=claim.lane.stage,
            attempt=work.current.attempt,
            request_id=claim.request_id,
        )
    )
