"""Deciding: pure functions from what happened to what should be done about it.

No module here does I/O, asks for the time or draws from global randomness: clock and generator
are arguments, so that a decision can be repeated, tested and simulated. `inline` is the one room
that waits, on the clock it is given. Nothing here knows of stores, workers or the command line.

    classify   an exception becomes a Fault        retry_after    how long the upstream said to wait
    policy     a Fault becomes a Verdict, by rules backoff        how long we wait of our own accord
    presets    policies that ship                  public         what users may see of a fault
    breaker    is this upstream well?              budget         may we still add load by retrying?
    output     a model's text becomes JSON         hidden_retries who else retries underneath us
    schedule   when a recurring job is due         failure_budget must this run be stopped?
"""
