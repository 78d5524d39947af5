"""Every timeout, retry policy and task queue of the workflows, each with its reason.

The ladder of a submission (call budget < start-to-close < lease, grace at shutdown >= start-to-close) is a setting of
the worker, `worker.DeliverySettings`; a claim's reply carries what the workflow needs of it.
"""

from datetime import timedelta
from typing import Final

from temporalio.common import RetryPolicy

#: Workflows, submit and finalize: submit is on the workflow's own queue, so that the server hands it to the same
#: worker at once (eager) and no backlog stands between claim and call, where the lease would age. Never rate-limited.
MESSAGE_QUEUE: Final = "fencepost-messages"
#: Claims only: pacing to the provider's quota and fairness between tenants sit here, where nothing is leased yet.
CLAIM_QUEUE: Final = "fencepost-claim-ses"

#: A backstop. The worker's own ladder bounds the attempt that goes with a claim, and is a setting of the worker.
CLAIM_START_TO_CLOSE: Final = timedelta(minutes=5)
#: A claim may be run again safely, so a worker that was killed or hangs is given up soon. Nothing is cancelled by it.
CLAIM_HEARTBEAT: Final = timedelta(seconds=5)
FINALIZE_START_TO_CLOSE: Final = timedelta(seconds=5)
#: Up to a thousand short transactions.
SWEEP_START_TO_CLOSE: Final = timedelta(seconds=60)
#: A sweep says that it lives with every message; the Schedule starts no other while it runs, so one whose worker was
#: killed must be found out soon.
SWEEP_HEARTBEAT: Final = timedelta(seconds=4)
#: How long a killed worker's workflow task is waited for; the default of ten seconds would come on top of each crash.
WORKFLOW_TASK_TIMEOUT: Final = timedelta(seconds=5)

#: Claim and finalize are idempotent, under the claim id and the token: they are retried until Postgres is back.
UNTIL_IT_SUCCEEDS: Final = RetryPolicy(
    initial_interval=timedelta(milliseconds=200), backoff_coefficient=2, maximum_interval=timedelta(seconds=5)
)
#: Once. A second run would find its attempt begun and be refused; the attempt limit only saves that. Begin, not this,
#: is what makes it at most once: pause, reset and fail-over run bodies again whatever the limit (DESIGN: protocol).
ONCE: Final = RetryPolicy(maximum_attempts=1)

#: If no worker takes submit within this, its lease has ended long since, and finalize says so.
SUBMIT_SCHEDULE_TO_START: Final = timedelta(minutes=5)
#: Never spin, whatever an answer says.
SHORTEST_WAIT: Final = timedelta(milliseconds=20)

#: A dead worker's next workflow task waits this long for it before any other may take it; the default is ten seconds.
STICKY_SCHEDULE_TO_START: Final = timedelta(seconds=2)

#: 1 to 5; one is served first. By purpose, once there is more than one class of mail.
PRIORITY_KEY: Final = 3

#: A start that takes longer is left to the sweep: no client waits for it, and another message waits behind it.
START_RPC_TIMEOUT: Final = timedelta(seconds=2)

SWEEP_SCHEDULE_ID: Final = "fencepost-sweep"
SWEEP_WORKFLOW_ID: Final = "fencepost-sweep"
#: A sweep that was missed is made up for by the next; the server's default would replay a year of them.
SWEEP_CATCHUP: Final = timedelta(seconds=60)
