"""The synchronous path: call now, and leave to the workers what does not end well while one waits.

A call is a job from its first moment, run by its caller under a lease of its own, so that it can be
lost no more than any other: whoever dies leaves it to the workers when the lease has lapsed.

    path.py       one process's way: its name, its turns at upstreams, the two faces
    call.py       one call, from the job's birth to the answer
    ends.py       writing how an attempt ended
    turn.py       the right to one call at an upstream
    handlers.py   how a handler is run beside whoever waits for it

**Promise.** The answer is what stands in the store: `Done` and `Failed` are settled, and what was
`HandedOver` is queued, or somebody else's by now. An attempt is settled once, whoever comes first.

**Retry.** A failed attempt is settled before anything is waited for, and the job is queued again,
for the workers, a little later than the retry is due. The caller then takes it back, if nobody has
had it: so to die while waiting costs nothing, and to come too late is to have handed it over.

**Trouble.** A store that does not answer before the job is there is the caller's error, and nothing
was called. One that does not take the end is asked again until the lease is over; then it is an
error too, and the workers do the job once more.
"""
