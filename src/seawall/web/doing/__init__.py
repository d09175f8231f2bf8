"""What can be seen and done through the server, whichever door it is asked for at.

The API and the pages both lead here: who may is decided once, and what is refused is refused alike.
Nothing here reads a request or writes an answer.
"""
