"""The application of the worker processes. Every handler leaves a line outside the store."""

import asyncio
import os
import signal
import subprocess
import time

from seawall import Backoff, FaultError, Policy, Rule, Seawall, Skip, Snooze, current_job, upstream

_SOON = Backoff(curve="fixed", base_seconds=0.1, jitter="none")
QUICK = Policy(
    name="quick",
    description="The default allowance for lost workers, and three tries; both soon.",
    max_attempts=3,
    rules=(
        Rule(on="WORKER_LOST", max_attempts=5, counts=False, backoff=_SOON),
        Rule(on="all", backoff=_SOON),
    ),
)
PATIENT = Policy(
    name="patient",
    description="However often its worker is lost.",
    max_attempts=3,
    rules=(
        Rule(on="WORKER_LOST", max_attempts=1_000, counts=False, backoff=_SOON),
        Rule(on="all", backoff=_SOON),
    ),
)
ONCE = Policy(name="once", max_attempts=1, rules=(Rule(on="all"),))

app = Seawall(policies=(QUICK, PATIENT, ONCE), policy="quick")


def leave(what: str, pid: int | None = None) -> None:
    """One short line, whole or not at all."""
    job, pid = current_job(), pid or os.getpid()
    line = f"{what} {job.id} {job.seq} {os.environ['LIFE_WORKER']} {pid}\n".encode()
    file = os.open(os.environ["LIFE_EFFECTS"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(file, line)
    os.close(file)


# --- short ones ---------------------------------------------------------------------------------


@app.task
async def noop() -> None:
    leave("ran")


@app.task
async def work(seconds: float = 0.0) -> None:
    leave("ran")
    await asyncio.sleep(seconds)


@app.task
def plain(seconds: float = 0.0) -> None:
    leave("ran")
    time.sleep(seconds)


@app.task
async def shaky() -> None:
    """Fails at its first try."""
    leave("ran")
    if current_job().attempt == 1:
        raise FaultError("UNAVAILABLE", "not the first time")


@app.task
def hopeless() -> None:
    leave("ran")
    raise FaultError("UNAVAILABLE", "not at all")


@app.task(isolated=True, policy="patient")
def apart(seconds: float = 0.0) -> None:
    leave("ran")
    time.sleep(seconds)


@app.task(isolated=True, policy="patient")
def apart_and_busy(seconds: float = 0.0) -> None:
    """Never lets go of its processor."""
    leave("ran")
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


# --- long ones, which ask for another at their end ----------------------------------------------


@app.task(policy="patient")
async def slow(seconds: float) -> None:
    leave("began")
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        leave("cancelled")
        raise
    work.enqueue()
    leave("ended")


@app.task(policy="patient")
def slow_plain(seconds: float) -> None:
    """Looks neither left nor right."""
    leave("began")
    time.sleep(seconds)
    work.enqueue()
    leave("ended")


@app.task(isolated=True, policy="once")
def calls_apart() -> None:
    with upstream("vision"):
        leave("called")


@app.task(isolated=True, policy="patient")
def slow_apart(seconds: float) -> None:
    leave("began")
    time.sleep(seconds)
    work.enqueue()
    leave("ended")


@app.task(policy="patient")
async def blocks(seconds: float) -> None:
    leave("began")
    time.sleep(seconds)  # noqa: ASYNC251 - that is the point


@app.task
def heeds() -> None:
    """Looks whether somebody wants it to stop."""
    leave("began")
    end = time.monotonic() + 60
    while not current_job().cancel_requested and time.monotonic() < end:
        time.sleep(0.01)
    leave("heeded")
    raise asyncio.CancelledError


# --- limits -------------------------------------------------------------------------------------


@app.task(timeout_seconds=0.5, policy="once")
async def late() -> None:
    leave("began")
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        leave("cancelled")
        raise


@app.task(timeout_seconds=0.5, policy="once")
def late_plain(seconds: float) -> None:
    leave("began")
    time.sleep(seconds)
    leave("returned")


@app.task(isolated=True, timeout_seconds=0.5, policy="once")
def late_apart() -> None:
    leave("began")
    time.sleep(60)


@app.task(isolated=True, memory_mib=2_048, policy="once")
def greedy(mib: int) -> int:
    leave("began")
    return len(bytearray(mib * 1024 * 1024))


@app.task(isolated=True, policy="quick")
def dies(how: int) -> None:
    """Is killed at its first try, as if by somebody else."""
    leave("began")
    if current_job().seq == 1:
        os.kill(os.getpid(), signal.Signals(how))


@app.task(isolated=True, policy="patient")
def starts_a_program() -> None:
    """What it starts must not outlive it."""
    program = subprocess.Popen(["sleep", "600"])  # noqa: S607
    leave("began")
    leave("program", program.pid)
    program.wait()


# --- words --------------------------------------------------------------------------------------


@app.task
async def tells(until: str) -> None:
    """Says how far it has come until the file is there."""
    leave("began")
    current_job().progress(3, 10, "three of ten")
    while not os.path.exists(until):  # noqa: ASYNC110, ASYNC240, PTH110
        await asyncio.sleep(0.02)
    current_job().capture("half of what it said")


@app.task(isolated=True)
def tells_apart(until: str) -> None:
    leave("began")
    current_job().progress(3, 10, "three of ten")
    while not os.path.exists(until):  # noqa: PTH110
        time.sleep(0.02)
    current_job().capture("half of what it said")


@app.task(isolated=True)
def ends_apart(how: str) -> str:
    leave("ran")
    if how == "skip":
        raise Skip("nothing there")
    if how == "snooze" and current_job().seq == 1:
        raise Snooze(0.1)
    if how == "bug":
        raise ZeroDivisionError("a bug")
    if how == "fault":
        raise FaultError("INVALID_RESPONSE", "no JSON", raw_output="<html>")
    return how


@app.task(isolated=True)
def asks_apart() -> None:
    ends_apart.enqueue("well")


@app.task
def ends(how: str) -> None:
    if how == "bug":
        raise ZeroDivisionError("a bug")
    raise FaultError("INVALID_RESPONSE", "no JSON", raw_output="<html>")


@app.task(policy="once")
async def babbles(done: str, message: str) -> None:
    leave("began")
    for _ in range(25):
        current_job().progress(float(done), message=message)
        await asyncio.sleep(0.1)


@app.task(priority=-5)
async def tick() -> None:
    leave("ran")


@app.task
async def long_tick() -> None:
    leave("ran")
    await asyncio.sleep(1.7)


if "LIFE_SCHEDULES" in os.environ:
    app.schedule(tick.job(), every=1.0, overlap="allow", missed="all")
    app.schedule(long_tick.job(), every=1.0, overlap="skip")


# --- what must not be kept ------------------------------------------------------------------------


@app.on_capture
def hide(text: str) -> str:
    if "break the hook" in text:
        raise ValueError(text)
    return text.replace("s3cr3t", "…")


@app.task(policy="once")
def captures(text: str, fail: bool = False) -> None:
    current_job().capture(text)
    if fail:
        raise FaultError("INVALID_RESPONSE", "no JSON", raw_output=f"raised {text}")


@app.task(policy="once", isolated=True)
def captures_apart(text: str, fail: bool = False) -> None:
    current_job().capture(text)
    if fail:
        raise FaultError("INVALID_RESPONSE", "no JSON", raw_output=f"raised {text}")
