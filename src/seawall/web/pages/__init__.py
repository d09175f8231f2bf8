"""The dashboard: what people look at, in plain HTML that a script only makes livelier.

A page is a template filled with what the application and its store say; every link and every form
works without a script. `site` renders and knows the frame around each page, `people` says who looks
and takes their forms, `wording` and `pictures` turn values into words and SVG, and a module for
each kind of thing has the routes. What may be done is decided where it is decided for the API, in
`doing`: neither knows the other.
"""
