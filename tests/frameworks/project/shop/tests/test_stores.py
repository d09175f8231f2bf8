"""With the project's real database and a real store: what transactions write, and workers run."""

import asyncio
from contextlib import closing
from io import StringIO
from unittest.mock import patch

from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection, connections, transaction
from django.tasks import TaskResultStatus, default_task_backend
from django.tasks.exceptions import TaskResultDoesNotExist
from django.tasks.signals import task_finished
from django.test import TransactionTestCase
from django.urls import reverse

from seawall import Worker
from seawall.django import address, application, home, waiting
from seawall.django.management.commands import seawall as command
from seawall.django.models import Waiting
from seawall.errors import ArgumentsError
from seawall.store import Enqueued, Taken, lasts, open_store
from shop import tasks
from shop.models import Order
from shop.tests.spans import Spans, within

ON_POSTGRES = connection.vendor == "postgresql"


class Real(TransactionTestCase):
    def setUp(self):
        self.enterContext(patch.object(address, "in_tests", lambda: False))
        self.addCleanup(home.close_all)
        self.assertTrue(lasts(application().settings.url))
        tasks.calls.clear()

    def worked(self, *results):
        home.home_of("default").declare_all()
        self.assertTrue(Worker(application(), drain=True).run())
        for result in results:
            result.refresh()

    def outside(self, result):
        """Whether anybody else sees the job."""
        with closing(open_store(application().settings.url)) as store:
            return [job for task in [store] for job in task.page(key_of(result)).jobs] != []


def key_of(result):
    from seawall.store import Filter

    return Filter(key=result.id)


class Stores(Real):
    def test_jobs_are_where_they_should_be(self):
        if ON_POSTGRES:
            name = connection.settings_dict["NAME"]
            self.assertTrue(application().settings.url.endswith(f"/{name}"))
        else:
            self.assertTrue(application().settings.url.endswith(".seawall.sqlite3"))

    def test_a_worker_runs_every_kind_of_task(self):
        Order.objects.create(number=1)
        added, later = tasks.add.enqueue(1, b=2), tasks.confirm_later.enqueue(1)
        flaky, broken = tasks.flaky.enqueue(), tasks.broken.enqueue()
        unlucky = tasks.broken_later.enqueue()
        self.worked(added, later, flaky, broken, unlucky)
        self.assertEqual((added.return_value, later.return_value), (3, 1))
        self.assertEqual((flaky.return_value, flaky.attempts), (3, 3))
        self.assertEqual(broken.status, TaskResultStatus.FAILED)
        self.assertIs(unlucky.errors[-1].exception_class, KeyError)
        self.assertEqual(Order.objects.get().confirmed, 1)
        self.assertTrue(application().verify().ok)

    def test_a_commit_is_what_makes_a_job(self):
        with transaction.atomic():
            Order.objects.create(number=1)
            result = tasks.confirm.enqueue(1)
            self.assertFalse(self.outside(result))
            self.assertEqual(default_task_backend.get_result(result.id), as_ready(result))
        self.assertTrue(self.outside(result))
        self.assertFalse(Waiting.objects.exists())
        self.worked(result)
        self.assertEqual(Order.objects.get().confirmed, 1)

    def test_a_rollback_leaves_nothing(self):
        with self.assertRaises(ZeroDivisionError), transaction.atomic():
            result = tasks.add.enqueue(1)
            _ = 1 / 0
        with transaction.atomic():
            kept = tasks.add.enqueue(2)
            with self.assertRaises(ZeroDivisionError), transaction.atomic():
                inner = tasks.add.enqueue(3)
                _ = 1 / 0
        self.worked(kept)
        self.assertEqual(tasks.calls, [(2, 0)])
        for gone in (result, inner):
            self.assertFalse(self.outside(gone))
            with self.assertRaises(TaskResultDoesNotExist):
                gone.refresh()

    def test_a_request_that_fails_leaves_no_job(self):
        good = self.client.get("/orders/7").content.decode()
        with self.assertRaisesMessage(RuntimeError, "unlucky"):
            self.client.get("/orders/13")
        self.worked()
        self.assertEqual(tasks.confirm.get_result(good).status, TaskResultStatus.SUCCESSFUL)
        self.assertEqual(list(Order.objects.values_list("number", "confirmed")), [(7, 1)])

    def test_an_async_caller_has_its_transaction_too(self):
        from asgiref.sync import sync_to_async

        @transaction.atomic
        def in_one():
            return tasks.add.enqueue(5)

        async def asked():
            results = await tasks.add.aenqueue(4), await sync_to_async(in_one)()
            await sync_to_async(connections.close_all)()
            return results

        results = asyncio.run(asked())
        self.worked(*results)
        self.assertEqual([each.return_value for each in results], [4, 5])

    def test_a_task_that_asks_for_others(self):
        result = tasks.asks_for_more.enqueue(7)
        self.worked(result)
        self.assertEqual(tasks.add.get_result(result.return_value).return_value, 7)
        self.assertEqual(Order.objects.get(number=7).confirmed, 1)
        self.assertEqual(tasks.calls, [(7, 0)])

    def test_connections_do_not_outlive_their_tasks(self):
        result = tasks.leaves_a_connection.enqueue()
        self.worked(result)
        self.assertTrue(result.return_value[1])  # it had one
        if ON_POSTGRES:
            with connection.cursor() as cursor:
                cursor.execute(
                    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
                    " AND query LIKE '%shop_order%' AND pid <> pg_backend_pid()"
                )
                self.assertEqual(cursor.fetchone(), (0,))

    def test_the_admin_shows_the_real_store(self):
        result = tasks.broken.enqueue()
        self.worked(result)
        self.client.force_login(User.objects.create_superuser("root"))
        (job,) = application().jobs(key=result.id)
        page = self.client.get(reverse("admin:seawall_job_changelist"), {"key": result.id})
        self.assertContains(page, reverse("admin:seawall_job_change", args=(job.id,)))
        place = reverse("admin:seawall_job_change", args=(job.id,))
        self.client.post(place, {"action": "retry"})
        self.assertEqual(application().job(job.id).state, "queued")
        self.client.post(place, {"action": "cancel"})
        self.assertContains(self.client.get(place), "cancelled")

    def test_a_store_that_is_away_is_one_line(self):
        from seawall.errors import StoreUnavailableError

        self.client.force_login(User.objects.create_superuser("root"))
        with patch.object(
            type(application().store), "jobs", side_effect=StoreUnavailableError("x")
        ):
            page = self.client.get(reverse("admin:seawall_job_change", args=(1,)))
        self.assertEqual((page.status_code, page.content), (503, b"x"))


class Homes(Real):
    def test_credentials_that_change_close_no_store_that_is_in_use(self):
        if not ON_POSTGRES:
            self.skipTest("only where there are credentials")
        here, store = application(), application().store
        wrapper = type(connections["default"])
        real, asked = wrapper.get_connection_params, []

        def rotating(self):
            asked.append(1)
            return {**real(self), "password": f"token-{len(asked)}"}

        with patch.object(wrapper, "get_connection_params", rotating):
            with patch.dict(connection.settings_dict, {"PASSWORD": "renewed", "USER": "another"}):
                self.assertIs(application(), here)
            self.assertEqual(asked, [])  # a token is perhaps asked for over the network
        self.assertIs(here.store, store)
        self.assertIs(application(), here)

    def test_another_database_is_another_home(self):
        here = application()
        with patch.dict(connection.settings_dict, {"NAME": f"{connection.settings_dict['NAME']}x"}):
            self.assertIsNot(application(), here)
            self.assertNotEqual(application().settings.url, here.settings.url)
        with patch.object(address, "in_tests", lambda: True):
            self.assertEqual(application().settings.url, "sqlite://")


class Traces(Real):
    def test_a_request_its_task_and_what_that_asks_for_are_one_trace(self):
        with Spans() as spans:
            with within("web"):
                asked = self.client.get("/orders/7/more").content.decode()
            self.worked()
        web = ["process shop.tasks.asks_for_more", "enqueue shop.tasks.asks_for_more", "web"]
        for child in ("shop.tasks.add", "shop.tasks.confirm"):  # at once, and with a transaction
            self.assertEqual(spans.above(f"process {child}"), [f"enqueue {child}", *web])
        self.assertEqual(len(spans.traces()), 1)
        (job,) = application().jobs(key=asked)
        children = application().store.children(job.id)
        self.assertEqual({each.task for each in children}, {"shop.tasks.add", "shop.tasks.confirm"})


class Finishing(Real):
    def setUp(self):
        super().setUp()
        self.heard = []

        def hear(task_result, **_):
            kept = default_task_backend.get_result(task_result.id)
            self.heard.append((task_result.id, task_result.status, kept.status))

        task_finished.connect(hear)
        self.addCleanup(task_finished.disconnect, hear)

    def of(self, *results):
        """What was heard of these: others may have been left by the tests before."""
        ids = {result.id for result in results}
        return [each for each in self.heard if each[0] in ids]

    def test_a_failure_is_told_once_it_stands_in_the_store_and_before_the_worker_ends(self):
        results = [tasks.broken.enqueue(), tasks.broken_later.enqueue()]
        with self.assertLogs("django.tasks", "ERROR") as logs:
            self.worked(*results)
        ends = sorted((result.id, "FAILED", "FAILED") for result in results)
        self.assertEqual(sorted(self.of(*results)), ends)
        self.assertEqual({each.exc_info[0] for each in logs.records}, {ValueError, KeyError})

    def test_an_attempt_that_lost_its_lease_does_not_say_that_the_task_failed(self):
        results = [tasks.loses_its_lease.enqueue(), tasks.loses_its_lease_later.enqueue()]
        self.worked(*results)
        self.assertEqual({each.status for each in results}, {TaskResultStatus.SUCCESSFUL})
        self.assertEqual({each[1] for each in self.of(*results)}, {TaskResultStatus.SUCCESSFUL})


class Direct(Real):
    def setUp(self):
        if not ON_POSTGRES:
            self.skipTest("only where the database is the store")
        super().setUp()

    def test_a_transaction_writes_its_jobs_itself(self):
        with transaction.atomic():
            result = tasks.add.enqueue(1)
            with connection.cursor() as cursor:
                cursor.execute("SELECT count(*) FROM seawall.job_key WHERE key = %s", [result.id])
                self.assertEqual(cursor.fetchone(), (1,))
            self.assertFalse(Waiting.objects.exists())
            transaction.set_rollback(True)
        self.assertFalse(self.outside(result))

    def test_a_transaction_sees_its_own_jobs_whatever_times_the_project_keeps(self):
        with self.settings(USE_TZ=False), transaction.atomic():
            result = tasks.report.enqueue("eu")
            result.refresh()
            self.assertEqual((result.status, result.args), ("READY", ["eu"]))
            self.assertIsNone(result.enqueued_at.tzinfo)

    def test_a_broken_transaction_takes_no_jobs(self):
        with transaction.atomic():
            transaction.set_rollback(True)
            with self.assertRaises(transaction.TransactionManagementError):
                tasks.add.enqueue(1)


class WaitingForTheCommit(Real):
    def setUp(self):
        if ON_POSTGRES:
            self.skipTest("only where the database is not the store")
        super().setUp()

    def test_what_a_commit_left_behind_is_found_by_workers(self):
        with patch.object(waiting, "moved", side_effect=OSError("the disk is gone")):
            with self.assertLogs("django.db.backends.base", "ERROR"), transaction.atomic():
                result = tasks.add.enqueue(1)
            self.assertFalse(self.outside(result))
            result.refresh()
            self.assertEqual(result.status, TaskResultStatus.READY)
        waiting.swept(home.home_of("default"))
        self.worked(result)
        self.assertEqual(result.return_value, 1)
        self.assertEqual(tasks.calls, [(1, 0)])

    def test_moving_a_job_twice_makes_one(self):
        with patch.object(waiting, "moved"), transaction.atomic():
            result = tasks.add.enqueue(1)
        (row,) = Waiting.objects.all()
        waiting.moved(home.home_of("default"))
        row.pk = None
        row.save(force_insert=True)  # as if it had died before it could remove it
        waiting.moved(home.home_of("default"))
        self.assertFalse(Waiting.objects.exists())
        self.worked(result)
        self.assertEqual(tasks.calls, [(1, 0)])

    def refused(self, *args):
        """The result of a job that the store would not take."""
        with patch.object(waiting, "moved"), transaction.atomic():
            result = tasks.add.enqueue(*args)
        refuse = [Enqueued(Taken.REFUSED, None, "no <b>room</b>")]
        with patch.object(type(application().store), "enqueue", lambda *_: refuse):
            self.assertEqual(waiting.moved(home.home_of("default")), 0)
        return result

    def test_what_the_store_refuses_has_failed_and_holds_up_nothing(self):
        result, good = self.refused(1), tasks.add.enqueue(2)
        self.worked(good, result)
        self.assertEqual(tasks.calls, [(2, 0)])
        self.assertEqual(result.status, TaskResultStatus.FAILED)
        self.assertIsNotNone(result.finished_at)
        self.assertEqual([each.traceback for each in result.errors], ["no <b>room</b>"])
        self.assertIs(result.errors[0].exception_class, ArgumentsError)
        self.assertEqual((result.args, result.attempts), ([1], 0))

    def test_a_row_of_which_no_job_can_be_made_strands_no_other(self):
        with patch.object(waiting, "moved"), transaction.atomic():
            bad, good = tasks.add.enqueue(1), tasks.add.enqueue(2)
        Waiting.objects.filter(result=bad.id).update(trace="no\ntrace")
        waiting.swept(home.home_of("default"))
        self.worked(good, bad)
        self.assertEqual(tasks.calls, [(2, 0)])
        self.assertIn("trace", bad.errors[0].traceback)

    def test_refused_jobs_stand_in_the_admin_until_somebody_deals_with_them(self):
        self.client.force_login(User.objects.create_superuser("root"))
        place = reverse("admin:seawall_job_changelist")
        self.assertNotContains(self.client.get(place), "would not take")
        again, gone = self.refused(1), self.refused(2)
        page = self.client.get(place)
        self.assertContains(page, "would not take")
        self.assertContains(page, again.id)
        self.assertContains(page, "no &lt;b&gt;room&lt;/b&gt;", 2)
        said = self.client.post(place, {"action": "ask_again"}, follow=True)
        self.assertContains(said, "Choose the jobs first")
        self.client.post(place, {"action": "ask_again", "results": [again.id, "x"]})
        self.client.post(place, {"action": "forget", "results": [gone.id]})
        self.assertNotContains(self.client.get(place), "would not take")
        self.worked(again)
        self.assertEqual(again.return_value, 1)
        with self.assertRaises(TaskResultDoesNotExist):
            gone.refresh()

    def test_doctor_says_that_jobs_were_refused(self):
        told = StringIO()
        self.enterContext(patch.object(command, "run", return_value=0))  # its own part is slow
        call_command("seawall", "doctor", stderr=told)
        self.assertEqual(told.getvalue(), "")
        self.refused(1)
        call_command("seawall", "doctor", stderr=told)
        self.assertIn("refused 1 job of transactions", told.getvalue())


def as_ready(result):
    """What a fresh look shows of it: the store's own time."""
    found = default_task_backend.get_result(result.id)
    object.__setattr__(result, "enqueued_at", found.enqueued_at)
    return result
