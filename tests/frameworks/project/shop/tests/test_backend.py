"""What Django expects of a backend for its tasks."""

import math
from datetime import datetime, timedelta
from unittest.mock import patch

from asgiref.sync import async_to_sync
from django.db import transaction
from django.tasks import TaskResultStatus, default_task_backend, task, task_backends
from django.tasks.exceptions import InvalidTask, TaskResultDoesNotExist, TaskResultMismatch
from django.tasks.signals import task_enqueued, task_finished, task_started
from django.test import SimpleTestCase, TestCase, override_settings
from django.utils import timezone

from seawall.django import SeawallBackend, application, runs_with
from seawall.django.home import home_of
from seawall.django.testing import in_memory
from seawall.errors import ArgumentsError, ConfigurationError
from shop import tasks
from shop.models import Order
from shop.tests.spans import Spans, provided, within

NOBODY = "00000000-0000-4000-8000-000000000000"


class InMemory(TestCase):
    def setUp(self):
        self.world = self.enterContext(in_memory())
        tasks.calls.clear()

    def ended(self, result):
        self.world.drain()
        result.refresh()
        return result


class Asking(InMemory):
    def test_the_backend_says_that_it_can_do_everything(self):
        backend = task_backends["default"]
        self.assertIsInstance(backend, SeawallBackend)
        self.assertTrue(backend.supports_defer)
        self.assertTrue(backend.supports_async_task)
        self.assertTrue(backend.supports_get_result)
        self.assertTrue(backend.supports_priority)

    def test_what_is_enqueued_is_ready_and_has_all_that_a_result_has(self):
        before = timezone.now()
        result = tasks.add.enqueue(1, b=2)
        self.assertEqual(result.status, TaskResultStatus.READY)
        self.assertEqual((result.args, result.kwargs), ([1], {"b": 2}))
        self.assertEqual(result.task, tasks.add)
        self.assertEqual(result.backend, "default")
        self.assertIsInstance(result.id, str)
        self.assertGreaterEqual(result.enqueued_at, before)
        self.assertEqual((result.errors, result.worker_ids, result.attempts), ([], [], 0))
        self.assertIsNone(result.started_at)
        self.assertIsNone(result.last_attempted_at)
        self.assertIsNone(result.finished_at)
        self.assertFalse(result.is_finished)
        with self.assertRaisesMessage(ValueError, "Task has not finished yet"):
            _ = result.return_value
        self.assertEqual(tasks.calls, [])

    def test_a_result_that_is_looked_up_is_the_one_that_was_given(self):
        later = timezone.now() + timedelta(hours=1)
        asked = tasks.report.using(priority=-7, run_after=later)
        result = asked.enqueue("eu")
        self.assertEqual(default_task_backend.get_result(result.id), result)
        self.assertEqual(tasks.report.get_result(result.id).task, asked)
        self.assertNotEqual(tasks.report.enqueue("eu").id, result.id)

    def test_a_result_is_the_same_once_it_is_in_the_store(self):
        result = tasks.report.using(priority=-7).enqueue("eu")
        self.world._moved()
        self.assertEqual(tasks.report.get_result(result.id).task, result.task)
        self.assertEqual(tasks.report.get_result(result.id).args, ["eu"])

    def test_what_ran_tells_when_by_whom_and_what_came_of_it(self):
        result = self.ended(tasks.add.enqueue(1, b=2))
        self.assertEqual(result.status, TaskResultStatus.SUCCESSFUL)
        self.assertEqual(result.return_value, 3)
        self.assertTrue(result.is_finished)
        self.assertEqual(result.attempts, 1)
        self.assertEqual(result.worker_ids, ["testing"])
        self.assertLessEqual(result.enqueued_at, result.started_at)
        self.assertLessEqual(result.started_at, result.finished_at)
        self.assertEqual(result.errors, [])

    def test_the_async_forms_do_the_same(self):
        async def asked():
            result = await tasks.add.aenqueue(1, b=2)
            return await tasks.add.aget_result(result.id)

        result = async_to_sync(asked)()
        self.assertEqual(result.status, TaskResultStatus.READY)
        self.world.drain()

        async def looked_up():
            await result.arefresh()
            return await default_task_backend.aget_result(result.id)

        again = async_to_sync(looked_up)()
        self.assertEqual(again.return_value, 3)
        self.assertEqual(again, result)

    def test_what_nobody_knows_is_not_there(self):
        for unknown in (NOBODY, NOBODY.upper(), "", "17", "x" * 10_000, "\0", 17, None, b"x"):
            with self.subTest(unknown), self.assertRaises(TaskResultDoesNotExist):
                default_task_backend.get_result(unknown)

        async def looked_up():
            await default_task_backend.aget_result(NOBODY)

        with self.assertRaises(TaskResultDoesNotExist):
            async_to_sync(looked_up)()

    def test_a_result_of_another_task_is_none_of_this_one(self):
        result = tasks.add.enqueue(1)
        with self.assertRaises(TaskResultMismatch):
            tasks.report.get_result(result.id)

    def test_what_json_cannot_hold_is_refused_and_nothing_is_written(self):
        for args in ([object()], [{1, 2}], [math.nan], ["x" * 300_000]):
            with self.subTest(str(args)[:20]), self.assertRaises((TypeError, ArgumentsError)):
                tasks.add.enqueue(*args)
        self.assertEqual(self.world.drain(), 0)

    def test_a_tuple_comes_back_as_a_list_as_json_has_it(self):
        result = tasks.add.enqueue((1, 2), b=[3])
        self.assertEqual(result.args, [[1, 2]])
        self.assertEqual(self.ended(result).return_value, [1, 2, 3])


class Validating(SimpleTestCase):
    def test_bounds_of_priorities(self):
        for priority in (-100, 0, 100):
            tasks.add.using(priority=priority)
        for priority in (-101, 101, 1.5):
            with self.subTest(priority), self.assertRaises(InvalidTask):
                tasks.add.using(priority=priority)

    def test_only_queues_of_the_backend_are_taken(self):
        tasks.add.using(queue_name="reports")
        with self.assertRaisesMessage(InvalidTask, "Queue 'unknown' is not valid for backend."):
            tasks.add.using(queue_name="unknown")

    @override_settings(
        TASKS={"default": {"BACKEND": "seawall.django.SeawallBackend", "QUEUES": []}}
    )
    def test_without_queues_every_name_is_one_that_can_be_kept(self):
        tasks.add.using(queue_name="any")
        for name in ("\n", "x" * 201):
            with self.assertRaises(InvalidTask):
                tasks.add.using(queue_name=name)

    def test_functions_that_cannot_be_found_again_are_refused(self):
        def inner():
            pass

        for function in (inner, lambda: None, len):
            with self.subTest(function), self.assertRaises(InvalidTask):
                task(function)

    def test_a_task_that_takes_context_has_a_place_for_it(self):
        with self.assertRaises(InvalidTask):
            task(takes_context=True)(tasks.add.func)

    def test_run_after_has_a_time_zone(self):
        with self.assertRaisesMessage(InvalidTask, "run_after must be an aware datetime."):
            tasks.add.using(run_after=datetime(2030, 1, 1))  # noqa: DTZ001 - the point

    def test_what_is_said_of_a_task_stands_below_it(self):
        with self.assertRaisesMessage(ConfigurationError, "put it below @task"):
            runs_with(policy="once")(tasks.add)


class Running(InMemory):
    def test_higher_priorities_go_first_and_queues_do_not_matter_to_that(self):
        tasks.add.using(priority=-100).enqueue(3)
        tasks.add.enqueue(2)
        tasks.add.using(priority=100, queue_name="reports").enqueue(1)
        self.world.drain()
        self.assertEqual(tasks.calls, [(1, 0), (2, 0), (3, 0)])

    def test_run_after_is_kept(self):
        due = self.world.now + timedelta(hours=1)
        result = tasks.add.using(run_after=due).enqueue(1)
        self.assertEqual(self.world.work(), 0)
        self.assertEqual(tasks.add.get_result(result.id).task.run_after, due)
        self.assertGreaterEqual(self.ended(result).started_at, due)

    def test_a_task_is_told_its_context(self):
        result = self.ended(tasks.with_context.enqueue("hello"))
        self.assertEqual(
            result.return_value,
            {"word": "hello", "attempt": 1, "id": result.id, "errors": [],
             "path": "shop.tasks.with_context"},
        )  # fmt: skip

    def test_what_fails_for_a_while_is_tried_again_by_its_policy(self):
        result = self.ended(tasks.flaky.enqueue())
        self.assertEqual((result.return_value, result.attempts), (3, 3))
        self.assertEqual([each.exception_class for each in result.errors], [ConnectionError] * 2)
        self.assertLess(result.started_at, result.last_attempted_at)

    def test_what_fails_for_good_says_why_without_secrets(self):
        result = self.ended(tasks.broken.enqueue())
        self.assertEqual(result.status, TaskResultStatus.FAILED)
        self.assertTrue(result.is_finished)
        (error,) = result.errors
        self.assertIs(error.exception_class, ValueError)
        self.assertIn("Traceback", error.traceback)
        self.assertIn("no such thing", error.traceback)
        self.assertNotIn("hunter2", error.traceback)
        with self.assertRaisesMessage(ValueError, "Task failed"):
            _ = result.return_value

    def test_an_exception_of_the_project_is_found_by_its_path(self):
        result = self.ended(tasks.out_of_stock.enqueue())
        self.assertEqual({each.exception_class for each in result.errors}, {tasks.OutOfStockError})
        result = self.ended(tasks.confirm_later.enqueue(404))
        paths = {each.exception_class_path for each in result.errors}
        self.assertEqual(paths, {"shop.models.Order.DoesNotExist"})

    def test_an_async_task_sees_what_the_test_has_written(self):
        Order.objects.create(number=1)
        result = self.ended(tasks.confirm_later.enqueue(1))
        self.assertEqual(result.return_value, 1)
        self.assertEqual(Order.objects.get().confirmed, 1)

    def test_what_cannot_be_kept_is_no_result(self):
        result = self.ended(tasks.unserializable.enqueue())
        self.assertEqual(result.status, TaskResultStatus.FAILED)
        self.assertIs(result.errors[0].exception_class, TypeError)

    def test_skipping_succeeds_with_nothing_and_snoozing_uses_up_no_try(self):
        self.assertIsNone(self.ended(tasks.nothing_to_do.enqueue()).return_value)
        self.assertEqual(self.ended(tasks.sleepy.enqueue()).return_value, "awake")

    def test_a_cancelled_job_has_failed(self):
        result = tasks.add.enqueue(1)
        self.world._moved()
        (job,) = application().jobs(key=result.id)
        application().cancel(job.id)
        result.refresh()
        self.assertEqual(result.status, TaskResultStatus.FAILED)
        self.assertEqual(result.errors[0].exception_class.__name__, "JobCancelledError")

    def test_tasks_that_ask_for_others_obey_their_transactions(self):
        result = self.ended(tasks.asks_for_more.enqueue(7))
        child = tasks.add.get_result(result.return_value)
        self.assertEqual(child.return_value, 7)
        self.assertEqual(Order.objects.get(number=7).confirmed, 1)
        self.assertEqual(tasks.calls, [(7, 0)])

    def test_what_is_said_of_a_task_is_how_it_runs(self):
        result = tasks.calls_a_region.enqueue("gone")
        self.ended(result)
        (job,) = application().jobs(key=result.id)
        self.assertEqual(job.upstream, "api:gone")
        self.assertEqual(application().tasks[job.task].timeout_seconds, 5)
        self.assertEqual(home_of("default").task("shop.tasks.broken").policy.name, "once")
        self.assertEqual(home_of("default").task("shop.tasks.add").policy.name, "shop")
        refused = application().tasks[job.task].may_be_retried
        self.assertEqual(refused(args=["gone"], kwargs={}), "the region is gone")

    def test_what_a_job_takes_is_held_to_the_envelope(self):
        for asked in (tasks.broken, tasks.broken_later):
            result = self.ended(asked.enqueue())
            (job,) = application().jobs(key=result.id)
            for edit, word in (({"argument": []}, "argument"), ({"args": 5}, "args")):
                with self.subTest(edit), self.assertRaisesMessage(ArgumentsError, word):
                    application().redrive(job.id, edit=edit)
            self.assertEqual(application().redrive(job.id, edit={"kwargs": {}}).sent, 1)

    def test_a_queue_that_is_gone_does_not_hide_results(self):
        result = tasks.report.enqueue("eu")
        self.world._moved()
        without = {"BACKEND": "seawall.django.SeawallBackend", "QUEUES": ["default"]}
        with override_settings(TASKS={"default": without}):
            self.assertEqual(default_task_backend.get_result(result.id).args, ["eu"])

    def test_a_task_that_is_gone_is_said_so(self):
        result = tasks.report.enqueue("eu")
        self.world._moved()
        with (
            patch("seawall.django.results.tasks", {}),
            patch("shop.tasks.report", None),
            self.assertRaisesMessage(TaskResultMismatch, "shop.tasks.report"),
        ):
            default_task_backend.get_result(result.id)


class Transactions(InMemory):
    def test_what_was_enqueued_in_a_transaction_that_rolled_back_never_was(self):
        with self.assertRaises(ZeroDivisionError), transaction.atomic():
            Order.objects.create(number=1)
            result = tasks.add.enqueue(1)
            result.refresh()  # it is there for this transaction
            _ = 1 / 0
        with self.assertRaises(TaskResultDoesNotExist):
            result.refresh()
        self.assertEqual(self.world.drain(), 0)
        self.assertFalse(Order.objects.exists())

    def test_a_savepoint_that_rolls_back_takes_only_its_own_jobs(self):
        with transaction.atomic():
            kept = tasks.add.enqueue(1)
            with self.assertRaises(ZeroDivisionError), transaction.atomic():
                gone = tasks.add.enqueue(2)
                _ = 1 / 0
        self.world.drain()
        self.assertEqual(tasks.calls, [(1, 0)])
        kept.refresh()
        self.assertEqual(kept.return_value, 1)
        with self.assertRaises(TaskResultDoesNotExist):
            gone.refresh()


class Traces(InMemory):
    def test_a_job_that_waits_for_its_transaction_keeps_its_trace(self):
        with Spans() as spans:
            with within("web"), transaction.atomic():
                tasks.asks_for_more.enqueue(7)
            self.world.drain()
        for child in ("shop.tasks.add", "shop.tasks.confirm"):
            self.assertEqual(spans.above(f"process {child}")[-1], "web")

    def test_a_worker_that_does_not_trace_breaks_no_trace(self):
        with Spans() as spans:
            with within("web"):
                tasks.asks_for_later.enqueue(3_600)
            with provided(None):
                self.assertEqual(self.world.work(), 1)
            self.assertEqual(self.world.drain(), 1)
        self.assertEqual(len(spans.traces()), 1)
        above = spans.above("process shop.tasks.add")
        self.assertEqual(above, ["enqueue shop.tasks.asks_for_later", "web"])


class Signals(InMemory):
    def setUp(self):
        super().setUp()
        self.heard = []
        for name, signal in (
            ("enqueued", task_enqueued),
            ("started", task_started),
            ("finished", task_finished),
        ):
            self.listen(signal, name)

    def listen(self, signal, name):
        def hear(sender, task_result, **_):
            self.assertIs(sender, SeawallBackend)
            self.heard.append((name, task_result.status, task_result.id, task_result.attempts))

        signal.connect(hear)
        self.addCleanup(signal.disconnect, hear)

    def test_all_three_are_sent(self):
        result = self.ended(tasks.add.enqueue(1))
        self.assertEqual(
            self.heard,
            [
                ("enqueued", "READY", result.id, 0),
                ("started", "RUNNING", result.id, 1),
                ("finished", "SUCCESSFUL", result.id, 1),
            ],
        )

    def test_a_task_is_finished_once_however_often_it_was_tried(self):
        self.ended(tasks.flaky.enqueue())
        said = [(name, status, attempts) for name, status, _, attempts in self.heard[1:]]
        self.assertEqual(
            said,
            [("started", "RUNNING", 1), ("started", "RUNNING", 2), ("started", "RUNNING", 3),
             ("finished", "SUCCESSFUL", 3)],
        )  # fmt: skip

    def test_a_failure_is_an_end_and_is_logged_with_what_was_raised(self):
        with self.assertLogs("django.tasks", "ERROR") as logs:
            result = self.ended(tasks.broken.enqueue())
        self.assertEqual(self.heard[-1], ("finished", "FAILED", result.id, 1))
        self.assertIs(logs.records[0].exc_info[0], ValueError)

    def test_a_skipped_task_is_finished_and_a_snoozed_one_is_not(self):
        self.ended(tasks.nothing_to_do.enqueue())
        self.ended(tasks.sleepy.enqueue())
        ends = [each[1] for each in self.heard if each[0] == "finished"]
        self.assertEqual(ends, ["SUCCESSFUL", "SUCCESSFUL"])

    def test_a_receiver_that_breaks_does_no_harm(self):
        def broken(**_):
            raise RuntimeError("a receiver")

        for signal in (task_started, task_finished):
            signal.connect(broken)
            self.addCleanup(signal.disconnect, broken)
        with self.assertLogs("django.dispatch", "ERROR"):
            self.assertEqual(self.ended(tasks.add.enqueue(1)).return_value, 1)


SEAWALL = "seawall.django.SeawallBackend"


class Several(TestCase):
    @override_settings(TASKS={"default": {"BACKEND": SEAWALL}, "other": {"BACKEND": SEAWALL}})
    def test_results_of_one_backend_are_none_of_another(self):
        with in_memory("other") as other, in_memory() as world:
            result = tasks.add.using(backend="other").enqueue(1)
            self.assertEqual(result.backend, "other")
            with self.assertRaises(TaskResultDoesNotExist):
                task_backends["default"].get_result(result.id)
            self.assertEqual((world.drain(), other.drain()), (0, 1))
            result.refresh()
            self.assertEqual(result.return_value, 1)
            with self.assertRaises(TaskResultDoesNotExist):
                task_backends["default"].get_result(result.id)

    @override_settings(TASKS={"default": {"BACKEND": SEAWALL}, "other": {"BACKEND": SEAWALL}})
    def test_a_job_of_one_store_is_no_parent_in_another(self):
        with in_memory("other") as other, in_memory() as world:
            result = tasks.asks_elsewhere.enqueue()
            mine = tasks.asks_for_later.enqueue(0)
            world.drain()
            other._moved()
            result.refresh()
            mine.refresh()
            (away,) = application("other").jobs(key=result.return_value)
            (here,) = application().jobs(key=mine.return_value)
            (parent,) = application().jobs(key=mine.id)
        self.assertIsNone(away.parent)
        self.assertEqual(here.parent, parent.id)

    def test_in_a_test_jobs_are_kept_in_memory_whatever_the_settings_say(self):
        url = "postgresql://nobody@127.0.0.1:1/nothing"
        chosen = {"default": {"BACKEND": SEAWALL, "OPTIONS": {"url": url}}}
        with override_settings(TASKS=chosen):
            result = tasks.add.enqueue(1)
            result.refresh()
            self.assertEqual(application().settings.url, "sqlite://")

    @override_settings(USE_TZ=False, TIME_ZONE="Asia/Tokyo")
    def test_a_project_without_time_zones_sees_its_own_time(self):
        with in_memory() as world:
            later = datetime.now() + timedelta(hours=1)  # noqa: DTZ005 - the point
            result = tasks.add.using(run_after=later).enqueue(1)
            self.assertEqual(tasks.add.get_result(result.id).task.run_after, later)
            self.assertEqual(world.work(), 0)
            world.drain()
            result.refresh()
            self.assertGreaterEqual(result.started_at, later)
            self.assertIsNone(result.finished_at.tzinfo)
