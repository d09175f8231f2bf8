"""Jobs and dead letters among the pages of the admin."""

from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.test import Client, TestCase
from django.urls import reverse
from django.utils.html import escape

from seawall.django import application
from seawall.django.testing import in_memory
from shop import tasks

JOBS = "admin:seawall_job_changelist"
JOB = "admin:seawall_job_change"
LETTERS = "admin:seawall_deadletter_changelist"


def someone(name, *permissions, staff=True):
    user = User.objects.create_user(name, is_staff=staff)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client = Client(enforce_csrf_checks=False)
    client.force_login(user)
    return client


class Pages(TestCase):
    def setUp(self):
        self.world = self.enterContext(in_memory())
        self.boss = someone(
            "boss", "view_job", "change_job", "view_deadletter", "change_deadletter"
        )

    def failed(self, *args, **kwargs):
        result = tasks.broken.enqueue(*args, **kwargs)
        self.world.drain()
        (job,) = application().jobs(key=result.id)
        return job.id, result

    def queued(self, *args):
        result = tasks.add.enqueue(*args)
        self.world._moved()
        (job,) = application().jobs(key=result.id)
        return job.id, result

    def test_the_index_leads_to_both_lists(self):
        page = self.boss.get(reverse("admin:index"))
        self.assertContains(page, reverse(JOBS))
        self.assertContains(page, reverse(LETTERS))
        self.assertNotContains(page, "/seawall/waiting")
        self.assertNotContains(page, "/seawall/job/add")

    def test_jobs_are_listed_and_found(self):
        one, _ = self.queued(1)
        two, result = self.failed()
        place = reverse(JOBS)
        page = self.boss.get(place)
        self.assertContains(page, reverse(JOB, args=(one,)))
        self.assertContains(page, reverse(JOB, args=(two,)))
        for query in ("state=failed", "task=shop.tasks.broken", f"key={result.id}"):
            page = self.boss.get(f"{place}?{query}")
            self.assertContains(page, reverse(JOB, args=(two,)))
            self.assertNotContains(page, reverse(JOB, args=(one,)))
        self.assertContains(self.boss.get(f"{place}?queue=reports"), "no such jobs")

    def test_a_list_goes_on_where_it_stopped(self):
        application().enqueue_many(
            application_task("shop.tasks.add").job(
                id="x", backend="default", enqueued_at="", run_after=None, args=[n], kwargs={}
            )
            for n in range(60)
        )
        first = self.boss.get(reverse(JOBS))
        self.assertEqual(len(first.context["jobs"]), 50)
        rest = self.boss.get(reverse(JOBS) + first.context["next"])
        self.assertEqual(len(rest.context["jobs"]), 10)
        self.assertIsNone(rest.context["next"])

    def test_a_bad_filter_is_one_line(self):
        for query in ("state=none-such", "after=bogus", "task=" + "x" * 300):
            page = self.boss.get(f"{reverse(JOBS)}?{query}")
            self.assertEqual(page.status_code, 200)
            self.assertEqual(len(list(page.context["messages"])), 1)
        page = self.boss.get(f"{reverse(LETTERS)}?fault=none-such")
        self.assertEqual(len(list(page.context["messages"])), 1)

    def test_a_job_tells_its_attempts_and_why_it_stands_where_it_does(self):
        job, result = self.failed()
        page = self.boss.get(reverse(JOB, args=(job,)))
        self.assertContains(page, result.id)
        self.assertContains(page, "no such thing")
        self.assertContains(page, "once@")
        for line in application().why(job).lines:
            self.assertContains(page, escape(line))

    def test_no_secret_and_no_markup_of_others_gets_through(self):
        job, _ = self.failed(password="hunter2-<script>alert(1)</script>")
        other, _ = self.queued("<script>alert(2)</script>", "sk-live-0123456789abcdef0123456789")
        for place in (
            reverse(JOBS), reverse(JOB, args=(job,)), reverse(JOB, args=(other,)),
            reverse(LETTERS), f"{reverse(JOBS)}?task=<script>alert(3)</script>",
        ):  # fmt: skip
            page = self.boss.get(place)
            self.assertNotContains(page, "hunter2")
            self.assertNotContains(page, "sk-live-0123")
            self.assertNotContains(page, "<script>alert")
            self.assertNotContains(page, "Traceback")

    def test_a_failed_job_is_sent_again_and_a_queued_one_cancelled(self):
        job, _ = self.failed()
        page = self.boss.post(reverse(JOB, args=(job,)), {"action": "retry"}, follow=True)
        self.assertContains(page, f"Job {job} is sent again.")
        self.assertEqual(application().job(job).state, "queued")
        page = self.boss.post(reverse(JOB, args=(job,)), {"action": "cancel"}, follow=True)
        self.assertEqual(application().job(job).state, "cancelled")
        page = self.boss.post(reverse(JOB, args=(job,)), {"action": "cancel"}, follow=True)
        self.assertContains(page, "has ended already")
        page = self.boss.post(reverse(JOB, args=(job,)), {"action": "retry"}, follow=True)
        self.assertContains(page, "only a failed one")
        page = self.boss.post(reverse(JOB, args=(job,)), {"action": "explode"}, follow=True)
        self.assertContains(page, "Choose what to do")

    def test_a_job_whose_source_is_gone_is_not_sent_again(self):
        result = tasks.calls_a_region.enqueue("gone")
        self.world.drain()
        (job,) = application().jobs(key=result.id)
        page = self.boss.post(reverse(JOB, args=(job.id,)), {"action": "retry"}, follow=True)
        self.assertContains(page, "the region is gone")
        self.assertEqual(application().job(job.id).state, "failed")

    def test_dead_letters_are_dealt_with_one_by_one_or_by_what_failed_alike(self):
        jobs = [self.failed()[0] for _ in range(4)]
        place = reverse(LETTERS)
        page = self.boss.get(place)
        (group,) = page.context["groups"]
        self.assertEqual((group.count, len(page.context["letters"])), (4, 4))
        self.boss.post(place, {"action": "redrive", "jobs": [jobs[0]]})
        self.assertEqual(application().job(jobs[0]).state, "queued")
        page = self.boss.post(place, {"action": "dismiss", "jobs": [jobs[1]]}, follow=True)
        self.assertContains(page, "Say why they are dismissed")
        self.boss.post(place, {"action": "dismiss", "jobs": [jobs[1]], "note": "a test\nfile"})
        letter = application().dead_letter(jobs[1])
        self.assertEqual((letter.note, letter.handled_by), ("a test file", "boss"))
        page = self.boss.get(f"{place}?state=dismissed")
        self.assertEqual([each.job_id for each in page.context["letters"]], [jobs[1]])
        self.boss.post(place, {"action": "redrive_group", "group": group.fingerprint})
        states = [application().job(job).state for job in jobs]
        self.assertEqual(states, ["queued", "failed", "queued", "queued"])
        for nothing in (
            {"action": "redrive"},
            {"action": "redrive", "jobs": ["x", "-1", "9" * 30]},
        ):
            page = self.boss.post(place, nothing, follow=True)
            self.assertContains(page, "Choose the dead letters first")

    def test_redriving_what_failed_alike_keeps_to_the_filter_of_the_page(self):
        mine, other = self.failed()[0], self.failed_alike()
        letters = {each.job_id: each for each in application().dead_letters().letters}
        group = letters[mine].fault.fingerprint
        self.assertEqual(letters[other].fault.fingerprint, group)
        place = f"{reverse(LETTERS)}?task=shop.tasks.broken"
        (shown,) = self.boss.get(place).context["groups"]
        self.assertEqual((shown.fingerprint, shown.count), (group, 1))
        page = self.boss.post(place, {"action": "redrive_group", "group": group}, follow=True)
        self.assertContains(page, "1 sent again")
        self.assertEqual(application().job(mine).state, "queued")
        self.assertEqual(application().job(other).state, "failed")
        page = f"{reverse(LETTERS)}?fault=TIMEOUT"
        self.boss.post(page, {"action": "redrive_group", "group": group})
        self.assertEqual(application().job(other).state, "failed")

    def failed_alike(self):
        result = tasks.broken_too.enqueue()
        self.world.drain()
        (job,) = application().jobs(key=result.id)
        return job.id

    def test_who_did_what_is_written_down_and_shown_with_the_job(self):
        job, _ = self.failed()
        place = reverse(JOB, args=(job,))
        self.boss.post(place, {"action": "retry"})
        self.boss.post(place, {"action": "cancel"})
        self.boss.post(place, {"action": "cancel"})  # refused: nothing was done
        self.boss.post(place, {"action": "explode"})
        said = [(str(each.user), str(each), each.object_id) for each in LogEntry.objects.all()]
        self.assertEqual(len(said), 2)
        self.assertEqual({(user, number) for user, _, number in said}, {("boss", str(job))})
        page = self.boss.get(place)
        self.assertContains(page, "is cancelled, or asked to stop")
        self.assertContains(page, "<td>boss</td>", 2)

    def test_what_is_done_about_letters_is_written_down(self):
        jobs = [self.failed()[0] for _ in range(3)]
        place = reverse(LETTERS)
        (group,) = self.boss.get(place).context["groups"]
        self.boss.post(place, {"action": "redrive", "jobs": jobs[:1]})
        self.boss.post(place, {"action": "dismiss", "jobs": jobs[1:2], "note": "a test"})
        self.boss.post(place, {"action": "redrive_group", "group": group.fingerprint})
        self.boss.post(place, {"action": "redrive_group", "group": "none-such\0"})
        about = [(each.object_id, each.change_message) for each in LogEntry.objects.order_by("id")]
        self.assertEqual(
            about,
            [
                (str(jobs[0]), "1 sent again."),
                (str(jobs[1]), "1 dismissed: a test."),
                (group.fingerprint, "1 sent again."),
            ],
        )
        self.assertContains(self.boss.get(reverse(JOB, args=(jobs[1],))), "1 dismissed: a test.")
        self.assertEqual(self.boss.get(reverse("admin:index")).status_code, 200)

    def test_a_letter_leads_to_its_job(self):
        job, _ = self.failed()
        place = reverse("admin:seawall_deadletter_change", args=(job,))
        self.assertRedirects(self.boss.get(place), reverse(JOB, args=(job,)) + "?backend=default")

    def test_what_is_not_there_is_not_found(self):
        for number in (404, 2**63 - 1, 2**70):
            place = reverse(JOB, args=(number,))
            self.assertEqual(self.boss.get(place).status_code, 404)
        self.assertEqual(self.boss.get(f"{reverse(JOBS)}?backend=none").status_code, 404)

    def test_only_those_see_and_act_who_may(self):
        job, _ = self.failed()
        reader = someone("reader", "view_job", "view_deadletter")
        stranger = someone("stranger")
        visitor = someone("visitor", "view_job", "change_job", staff=False)
        for place, data in (
            (reverse(JOB, args=(job,)), {"action": "retry"}),
            (reverse(LETTERS), {"action": "redrive", "jobs": [job]}),
        ):
            page = reader.get(place)
            self.assertEqual(page.status_code, 200)
            self.assertNotContains(page, 'name="action"')
            self.assertEqual(reader.post(place, data).status_code, 403)
            self.assertEqual(stranger.get(place).status_code, 403)
            self.assertEqual(stranger.post(place, data).status_code, 403)
            self.assertEqual(visitor.get(place).status_code, 302)
            self.assertEqual(visitor.post(place, data).status_code, 302)
            self.assertEqual(Client().get(place).status_code, 302)
        self.assertEqual(application().job(job).state, "failed")
        self.assertNotContains(stranger.get(reverse("admin:index")), reverse(JOBS))

    def test_an_action_needs_the_token_of_its_page(self):
        job, _ = self.failed()
        careful = Client(enforce_csrf_checks=True)
        careful.force_login(User.objects.get(username="boss"))
        page = careful.post(reverse(JOB, args=(job,)), {"action": "retry"})
        self.assertEqual(page.status_code, 403)
        self.assertEqual(application().job(job).state, "failed")


def application_task(path):
    from seawall.django.home import home_of

    return home_of("default").task(path)
