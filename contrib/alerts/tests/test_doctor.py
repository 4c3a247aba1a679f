"""`doctor` says whether alerts are checked and notices sent."""

from datetime import timedelta
from typing import Any

from django.utils import timezone

from contrib.alerts import checking, low_balance
from contrib.alerts.models import Notice
from monitoring import task_runs
from monitoring.models import TaskRun
from tests.api import Integrator
from tests.monitoring.test_doctor import problems, sound

__all__ = ["sound"]


def test_notices_that_nobody_sends_are_a_problem(sound: Integrator, settings: Any) -> None:
    settings.LOW_BALANCE_NOTICES = True
    assert problems()["Notices"].startswith("Low balances were never checked. Run ./run manage send_notices")
    task_runs.advance(low_balance.TASK, timezone.now())
    due = timezone.now() - timedelta(hours=1)
    notice = Notice.objects.create(token=sound.token, threshold=5, balance=5, due_at=due)
    assert problems()["Notices"].startswith("1 are overdue")
    notice.due_at, notice.outcome = timezone.now() + timedelta(hours=1), "failed: SMTPException"
    notice.save()
    assert "EMAIL_URL" in problems()["Notices"]


def test_alerts_that_nobody_checks_are_a_problem(sound: Integrator, settings: Any) -> None:
    settings.ALERT_EMAILS = ["ops@example.org"]
    assert problems()["Notices"].startswith("Alerts were never checked. Run ./run manage send_notices")
    task_runs.record(checking.TASK, succeeded=True)
    assert problems() == {}
    TaskRun.objects.update(succeeded_at=timezone.now() - checking.OVERDUE - timedelta(minutes=1))
    assert problems()["Notices"].startswith("Alerts were last checked at ")
