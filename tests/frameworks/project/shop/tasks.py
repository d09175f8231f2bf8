import os
import threading
from datetime import timedelta
from pathlib import Path

from asgiref.sync import sync_to_async
from django.db import connection, transaction
from django.tasks import task
from django.utils import timezone

from seawall import Skip, Snooze, current_job
from seawall.django import application, runs_with
from seawall.faults import Fault, FaultCode
from seawall.model import Token
from seawall.store import Reclaim, Result
from shop.models import Order

calls = []
"""What has been called in this process."""


@task
def add(a, b=0):
    calls.append((a, b))
    return a + b


@task(queue_name="reports", priority=10)
def report(region):
    return {"region": region}


@task(takes_context=True)
def with_context(context, word):
    result = context.task_result
    return {
        "word": word,
        "attempt": context.attempt,
        "id": result.id,
        "errors": [each.exception_class_path for each in result.errors],
        "path": result.task.module_path,
    }


@task(takes_context=True)
def flaky(context):
    if context.attempt < 3:
        raise ConnectionError("the service is away")
    return context.attempt


@task
@runs_with(policy="once")
def broken(password="hunter2"):  # noqa: S107 - it must not be seen anywhere
    raise ValueError(f"no such thing, password={password}")


@task
@runs_with(policy="once")
def broken_too():
    broken.func()


class OutOfStockError(Exception):
    pass


@task
def out_of_stock():
    try:
        raise KeyError("17")
    except KeyError as error:
        raise OutOfStockError("of 17:\nnothing left") from error


@task
def nothing_to_do():
    raise Skip("nothing to do")


@task
def sleepy():
    if current_job().seq == 1:
        raise Snooze(0.05)
    return "awake"


@task
async def confirm_later(number):
    order = await Order.objects.aget(number=number)
    order.confirmed += 1
    await order.asave()
    return order.number


@task
def confirm(number):
    Order.objects.filter(number=number).update(confirmed=1)


@task
async def broken_later():
    await sync_to_async(lambda: None)()
    raise KeyError("later")


@task
def unserializable():
    return object()


@task
def asks_for_more(number):
    with transaction.atomic():
        Order.objects.create(number=number)
        confirm.enqueue(number)
    try:
        with transaction.atomic():
            add.enqueue(number, 1)
            raise RuntimeError("no")
    except RuntimeError:
        pass
    return add.enqueue(number).id


@task
def asks_for_later(seconds):
    return add.using(run_after=timezone.now() + timedelta(seconds=seconds)).enqueue(1).id


@task
def asks_elsewhere():
    return add.using(backend="other").enqueue(1).id


@task
@runs_with(isolated=True)
def asks_from_its_own_process():
    return add.enqueue(1).id


@task
@runs_with(isolated=True)
def who_am_i():
    return {"pid": os.getpid(), "orders": Order.objects.count()}


@task
@runs_with(upstream=lambda region: f"api:{region}", timeout_seconds=5, retry_when=lambda region: region != "gone" or "the region is gone")  # fmt: skip
def calls_a_region(region):
    if region == "gone":
        raise ValueError("no such region")
    return region


@task
@runs_with(policy="once")
def loses_its_lease():
    current = current_job()
    if current.seq > 1:
        return
    token, store = Token(current.id, 1, 1), application().store
    gone = Reclaim(token=token, fault=Fault(FaultCode.WORKER_LOST), delay_seconds=0.0)
    while store.reclaim([gone])[0].result is not Result.DONE:
        store.renew([token], lease_seconds=0.001)
    raise ValueError("too late")


@task
@runs_with(policy="once")
async def loses_its_lease_later():
    await sync_to_async(loses_its_lease.func)()


@task
def leaves_a_connection():
    Order.objects.count()
    return [threading.get_ident(), connection.connection is not None]


@task
def wait_for(path):
    Path(path).with_suffix(".begun").touch()
    while not Path(path).exists():
        threading.Event().wait(0.02)
    return "done"
