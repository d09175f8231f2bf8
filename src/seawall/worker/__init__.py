"""Workers: they claim jobs, call handlers, and write what came of it.

`core` decides what to do next and does nothing; `worker` is the loop that obeys it; `runner` calls
handlers, async ones on a loop, plain ones in threads, isolated ones in processes (`isolated`);
`beats` renews leases on a thread of its own; `upkeep` looks after the store for the whole fleet.
"""
