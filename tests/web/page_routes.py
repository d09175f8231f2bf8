"""Every route of the dashboard × everybody: what each answers to a browser."""

AWAY = 303
"""Led to where one signs in, or from what was done to where it is seen."""
ALL = (AWAY, 200, 200, 200, 200, 200)
MINE = (AWAY, 404, 200, 200, 200, 200)
MY_WRITE = (AWAY, 404, 403, 403, AWAY, AWAY)
OVERSEE = (AWAY, 403, 200, 403, 403, 200)
OPERATE = (AWAY, 403, 403, 403, 403, AWAY)

PAGES = {
    #                               nobody, other, read-only, ann's reader, owner, operator
    ("GET", "/"): ALL,
    ("GET", "/static/{name}"): (200, 200, 200, 200, 200, 200),
    ("GET", "/jobs"): ALL,
    ("GET", "/jobs/{job_id:int}"): MINE,
    ("POST", "/jobs/{job_id:int}/retry"): (AWAY, 404, 403, 403, AWAY, 403),  # its owner only
    ("POST", "/jobs/{job_id:int}/cancel"): MY_WRITE,
    ("GET", "/jobs/act"): (AWAY, 200, 403, 403, 200, 200),
    ("POST", "/jobs/act"): (AWAY, AWAY, 403, 403, AWAY, AWAY),  # the other's own, of which is none
    ("GET", "/dead"): ALL,
    ("GET", "/dead/groups/{fingerprint}"): ALL,
    ("GET", "/dead/letters/{job_id:int}"): MINE,
    ("POST", "/dead/letters/{job_id:int}/redrive"): OPERATE,
    ("POST", "/dead/redrive"): OPERATE,
    ("POST", "/dead/dismiss"): MY_WRITE,
    ("POST", "/dead/undismiss"): MY_WRITE,
    ("GET", "/runs"): ALL,
    ("GET", "/runs/{run_id:int}"): MINE,
    ("GET", "/runs/{run_id:int}/report"): MINE,
    ("GET", "/runs/{run_id:int}/cancel"): MINE,
    ("POST", "/runs/{run_id:int}/pause"): MY_WRITE,
    ("POST", "/runs/{run_id:int}/resume"): MY_WRITE,
    ("POST", "/runs/{run_id:int}/cancel"): MY_WRITE,
    ("GET", "/upstreams"): OVERSEE,
    ("GET", "/upstreams/{name:path}"): OVERSEE,
    ("POST", "/upstreams/{name:path}/hold"): OPERATE,
    ("POST", "/upstreams/{name:path}/resume"): OPERATE,
    ("POST", "/upstreams/{name:path}/force"): OPERATE,
    ("GET", "/policies"): ALL,
    ("GET", "/policies/{name}"): ALL,
    ("GET", "/fleet"): OVERSEE,
    ("POST", "/fleet/queues/{name:path}/pause"): OPERATE,
    ("POST", "/fleet/queues/{name:path}/resume"): OPERATE,
}

NAMES = {"/static/{name}": "seawall.css", "/policies/{name}": "default"}
"""What each is asked for by: something that is there."""
QUERIES = {"/jobs/act": "?do=cancel&task=add"}
FORMS = {
    "/jobs/act": {"do": "cancel", "task": "add", "newest": "{job}"},
    "/dead/dismiss": {"job": "{job}", "note": "a test"},
    "/dead/undismiss": {"job": "{job}"},
    "/dead/redrive": {"group": "{group}", "really": "1"},
}
"""What is sent; `{job}` is one of ann's, which has failed."""
